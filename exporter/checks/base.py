"""What a check is, and what one run of it says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from exporter.metrics import Sample
from exporter.model import Fault, Finding


@dataclass(frozen=True, slots=True)
class LinkRow:
    """One link as people see it; rates in bytes/s, None where unknown.

    `expected` is what like ports run at. `receive` and `transmit` are over the last interval, `utilisation` is
    the busier of them relative to `rate`. `moved` names the error and congestion counters that grew since the
    last poll, with how far; `notes` is what is worth saying of the link in words.
    """

    subject: str
    role: str
    rail: str
    state: str
    rate: float | None
    expected: float | None
    receive: float | None
    transmit: float | None
    utilisation: float | None
    moved: Sequence[tuple[str, int]]
    notes: Sequence[str]
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Report:
    """What one run of a check says; `seen` is what it looked at, in a few words."""

    samples: tuple[Sample, ...] = ()
    faults: tuple[Fault, ...] = ()
    links: Callable[[], tuple[LinkRow, ...]] = tuple
    """What people see; worked out only when somebody looks."""
    findings: tuple[Finding, ...] = ()
    seen: str = ""


class Keeper(Protocol):
    """Keeps what a check remembers across restarts. `to_wall` turns monotonic seconds into Unix time by adding."""

    def recall(self, name: str, load: Callable[[Mapping[str, Any], float, float, bool], None]) -> None:
        """Call `load` with what was kept under `name`, now (monotonic), `to_wall`, and whether it is the same boot.

        Not called where nothing was kept; what can't be loaded is said and forgotten.
        """

    def keep(self, name: str, dump: Callable[[float], Mapping[str, Any]], urgent: bool) -> None:
        """Keep what `dump(to_wall)` gives: at once where `urgent`, else once in a while."""


class Check(Protocol):
    """One subject. A run reads the hardware once and says what that means."""

    def run(self, now: float) -> Report:
        """Read and judge; `now` is monotonic seconds. Raises Unavailable or SourceError, nothing else."""
