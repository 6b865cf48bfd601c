"""What a lab machine says of itself, and which kernel was proven to run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What must not change between the boots of one session; sorted (name, value) pairs.

    Names in use: cpu, microcode, governor, boost, smt, thp, mitigations, clocksource, cmdline, accelerator, clock,
    pinned (`cpus.PinnedCpu`: where the benchmark runs).
    """

    pairs: tuple[tuple[str, str], ...]

    def differences(self, other: "MachineFacts") -> list[str]:
        """Sentences like "governor: performance, was powersave", one for each fact of `other` that is not so here.

        What only this one has is no difference: a newer program asks for more than the one that began the session.
        """
        mine = dict(self.pairs)
        return [
            f"{name}: {mine.get(name, 'missing')}, was {value}"
            for name, value in other.pairs
            if mine.get(name) != value
        ]

    def taking_in(self, other: "MachineFacts") -> "MachineFacts":
        """These, and those of `other` that are not known here."""
        return MachineFacts(pairs=tuple(sorted({**dict(other.pairs), **dict(self.pairs)}.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class BootRecord:
    """A boot that is proven: a new boot id, the expected release, and the built image's build id."""

    boot_id: str
    release: str
    build_id: str
    facts: MachineFacts
    duration_s: float
    artefact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotGivenBack:
    """Why a machine could not be left as it was found, and what to type when it can be reached again."""

    reason: str
    resolution: str
