"""Which commit is it, and what to measure next: pure numbers. No clock, no files, no randomness but a given seed.

from bisector.search import Costs, Graph, Options, drive

graph = Graph.from_parents(parents, good=0, bad=n - 1)
answer = drive(graph, measure, Costs(build_s=300, boot_s=120, run_s=20), Options(higher_is_better=True))
"""

from bisector.model.outcome import AnswerKind, Purpose, Verdict
from bisector.search.ahead import rank_builds
from bisector.search.assign import assign
from bisector.search.drive import drive
from bisector.search.engine import propose
from bisector.search.fleet import DriveResult, LookTaken, drive_fleet
from bisector.search.forecast import assess
from bisector.search.graph import Graph
from bisector.search.simulate import STRATEGIES, Hunts, Moment, Tally, Trial, simulate, tally
from bisector.search.types import (
    Assessment,
    Boot,
    CommitVerdict,
    Costs,
    Evidence,
    Finding,
    Look,
    Options,
    Pending,
    Wait,
)
from bisector.search.world import World

__all__ = [
    "STRATEGIES",
    "AnswerKind",
    "Assessment",
    "Boot",
    "CommitVerdict",
    "Costs",
    "DriveResult",
    "Evidence",
    "Finding",
    "Graph",
    "Hunts",
    "Look",
    "LookTaken",
    "Moment",
    "Options",
    "Pending",
    "Purpose",
    "Tally",
    "Trial",
    "Verdict",
    "Wait",
    "World",
    "assess",
    "assign",
    "drive",
    "drive_fleet",
    "propose",
    "rank_builds",
    "simulate",
    "tally",
]
