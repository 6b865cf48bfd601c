"""The kept samples of other people's benchmarks (tests/data/formats/made.txt says how each was made)."""

from pathlib import Path

SAMPLES = Path(__file__).parent / "data" / "formats"

FILES: dict[str, tuple[str, ...]] = {
    "aim9": ("aim9.txt",),
    "aim9-ss": ("suite9.ss",),
    "aim9-log": ("logfile.suite9",),
    "fio": ("fio.json", "fio-note.json"),
    "google-benchmark": ("google-benchmark.json",),
    "hackbench": ("hackbench.txt",),
    "hyperfine": ("hyperfine.json",),
    "key-value": ("phases.txt",),
    "lkp-matrix": ("lkp-matrix.json",),
    "lkp-stats": ("lkp-stats.json",),
    "lmbench": ("lmbench.txt",),
    "mmtests": ("mmtests.tsv",),
    "mmtests-table": ("mmtests-table.txt",),
    "perf-bench": ("perf-bench.txt", "perf-bench-simple.txt"),
    "perf-stat": ("perf-stat.csv", "perf-stat-r3.csv", "perf-stat-percpu.csv", "perf-stat-hybrid.csv"),
    "perf-stat-json": ("perf-stat.json", "perf-stat-r3.json"),
    "phoronix": ("phoronix.xml",),
    "pyperf": ("pyperf.json",),
    "stress-ng": ("stress-ng.txt",),
    "stress-ng-yaml": ("stress-ng.yaml",),
    "sysbench": ("sysbench-threads.txt", "sysbench-memory.txt", "sysbench-cpu.txt", "sysbench-fileio.txt"),
    "time": ("gnu-time-v.txt", "gnu-time.txt", "bash-time.txt", "busybox-time.txt", "posix-time.txt"),
    "will-it-scale": ("will-it-scale.csv", "will-it-scale.txt"),
}
"""By parser, the samples that it reads; `json-lines`, `suite` and `regex` have none of a stranger's."""


def sample(name: str) -> bytes:
    """A kept sample."""
    return (SAMPLES / name).read_bytes()
