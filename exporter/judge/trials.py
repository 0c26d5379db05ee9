"""What probes gave, as it is judged and kept, and the words for it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from exporter.judge.base import gbit
from exporter.model import Evidence, Finding
from exporter.reasons import REASONS

MIN_RATIO = 0.9
"""Share of the usual value below which a result is slow: it is shown, and not learnt from."""
IN_A_ROW = 2
FAILURES = 3
BAD = ("error", "timeout")
Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class Measured:
    """One flow whose usual value was known; for all GPUs at once source and target are empty."""

    source: str
    target: str
    rate: float
    expected: float

    @property
    def ratio(self) -> float:
        """Share of the usual value."""
        return self.rate / self.expected

    @property
    def slow(self) -> bool:
        """Whether it is."""
        return self.rate < MIN_RATIO * self.expected


@dataclass(frozen=True, slots=True)
class Trial:
    """One probe that ended by itself: `result` is ok, error or timeout, `reason` and `phase` of the latter two.

    `nics` are the ports that took part, `others` the subjects of the findings of weight that were open, `left` a
    process group that does not end, else 0.
    """

    time: float
    scope: str
    engine: str
    result: str
    reason: str = ""
    phase: str = ""
    nics: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    left: int = 0
    flows: tuple[Measured, ...] = ()


def read_trial(raw: Mapping[str, Any]) -> Trial:
    """A trial from JSON. Raises ValueError, TypeError, KeyError."""
    flows = tuple(
        Measured(str(flow["source"]), str(flow["target"]), float(flow["rate"]), float(flow["expected"]))
        for flow in raw["flows"]
    )
    names = {name: tuple(str(one) for one in raw[name]) for name in ("nics", "others")}
    words = {name: str(raw[name]) for name in ("scope", "engine", "result", "reason", "phase")}
    return Trial(time=float(raw["time"]), left=int(raw["left"]), flows=flows, **names, **words)  # type: ignore[arg-type]  # by name


def kept(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """The last few of each scope and pair, good and failed apart, in order: all that is needed to judge.

    In the order in which they came: a clock that was set back does not make the newest an old one.
    """
    all_of_them = list(trials)
    by: dict[tuple[str, frozenset[str], bool], list[int]] = defaultdict(list)
    for place, trial in enumerate(all_of_them):
        by[trial.scope, frozenset(trial.nics), trial.result == "ok"].append(place)
    return tuple(all_of_them[place] for place in sorted(one for mine in by.values() for one in mine[-FAILURES:]))


def last_run(of: Sequence[Of], bad: Callable[[Of], bool]) -> list[Of]:
    """The bad ones at the end, oldest first."""
    start = len(of)
    while start and bad(of[start - 1]):
        start -= 1
    return list(of[start:])


def finding(reason: str, subject: str, message: str, evidence: Evidence) -> Finding:
    """Of the probes, with the severity that its reason has."""
    return Finding("probes", subject, REASONS[reason].severity, reason, message, evidence)


def numbers(flow: Measured) -> dict[str, float]:
    """What every finding about a rate shows: bytes/s, and the ratio."""
    return {"rate": round(flow.rate), "expected": round(flow.expected), "ratio": round(flow.ratio, 4)}


def words(flow: Measured) -> str:
    """The same for people."""
    return f"{gbit(flow.rate)}, {flow.ratio:.0%} of the usual {gbit(flow.expected)}"


def in_a_row(number: int) -> str:
    """How often."""
    return f"in {number} probes in a row"


def device_of(subject: str) -> str:
    """Of `mlx5_1/1` the device."""
    return subject.partition("/")[0]


def order(name: str) -> tuple[int, str]:
    """gpu2 before gpu10."""
    return len(name), name
