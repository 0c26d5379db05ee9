"""What the judges of ports look at, and the words they share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from exporter.history import History
from exporter.life import Life
from exporter.model import Evidence, Fault, Finding, Port, Role, Severity
from exporter.rails import Assignment
from exporter.reasons import REASONS

Likeness = tuple[str, ...]
TOGETHER_SECONDS = 30.0
"""Things that happen to several ports within this time have one cause."""
MANY = 3
BIT_ERROR_LIMIT = 1e-12
"""Errors a bit, after correction, that a good link stays below (IBTA)."""
_LESS = {Severity.CRITICAL: Severity.DEGRADED}


@dataclass(frozen=True)
class Seat:
    """A port with what is known of it beside the reading.

    `expected` is bytes/s, `like` what makes it comparable with others (role, link layer, model).
    """

    port: Port
    assignment: Assignment
    expected: float | None
    like: Likeness
    life: Life

    @cached_property
    def subject(self) -> str:
        """The port in a finding: `mlx5_1/1`."""
        return self.port.subject


@dataclass(frozen=True)
class Scene:
    """Everything there is to judge the ports of a node by, at `now`.

    `lives` holds the ports that were ever listed, by key; `gone` the keys of those that are not listed now.
    `wanted_ports` is `expect.<role>.ports`.
    """

    now: float
    seats: Sequence[Seat]
    history: History
    faults: Sequence[Fault] = ()
    lives: Mapping[str, Life] = field(default_factory=dict)
    gone: Sequence[str] = ()
    wanted_ports: Mapping[Role, int] = field(default_factory=dict)

    def alike(self, seat: Seat) -> list[Seat]:
        """The other ports that this one can be compared with."""
        return [other for other in self.seats if other.like == seat.like and other is not seat]


def of_role(role: str, severity: Severity) -> Severity:
    """How bad it is on a NIC of this role: North-South traffic doesn't hold up a training step."""
    if role == Role.COMPUTE:
        return severity
    if role == Role.STORAGE:
        return _LESS.get(severity, severity)
    return Severity.INFO


def found(  # noqa: PLR0913 - a finding has so many parts
    check: str, reason: str, subject: str, message: str, role: str, evidence: Evidence
) -> Finding:
    """A finding of a reason of the list, as bad as the role of its port makes it."""
    return Finding(check, subject, of_role(role, REASONS[reason].severity), reason, message, evidence)


def on_port(reason: str, seat: Seat, message: str, evidence: Evidence) -> Finding:
    """A finding of the port check about one port; its rail is part of the evidence."""
    rail = {"rail": seat.assignment.rail} if seat.assignment.rail is not None else {}
    return found("infiniband", reason, seat.subject, message, seat.assignment.role, {**rail, **evidence})


def on_node(reason: str, role: str, message: str, evidence: Evidence) -> Finding:
    """A finding of the port check about the node."""
    return found("infiniband", reason, "node", message, role, evidence)


def gbit(rate: float) -> str:
    """A rate in bytes/s as people speak of links: `400 Gbit/s`."""
    return f"{rate * 8 / 1e9:.4g} Gbit/s"


def duration(seconds: float) -> str:
    """A time as people say it: `20 s`, `4 min`, `3 h`, `2 days`."""
    for size, unit in ((172_800.0, "days"), (7_200.0, "h"), (120.0, "min")):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3_600, 'min': 60}[unit]:.0f} {unit}"
    return f"{max(1.0, seconds):.0f} s"


def times(count: float) -> str:
    """`once`, `twice`, `5 times`."""
    return {1: "once", 2: "twice"}.get(int(count), f"{count:,.0f} times")


def listed(names: Iterable[str], most: int = 8) -> str:
    """Names in a sentence, not all of very many."""
    all_names = list(names)
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more} more" if more > 0 else "")


def within(moments: Sequence[float]) -> bool:
    """Whether things happened so close together that they have one cause."""
    return max(moments) - min(moments) <= TOGETHER_SECONDS


def most_of(seats: Sequence[Seat], scene: Scene) -> bool:
    """Whether these are many, and more than half of the node's ports of their role."""
    if not seats:
        return False
    roles = {seat.assignment.role for seat in seats}
    alike = sum(seat.assignment.role in roles for seat in scene.seats)
    return len(seats) >= MANY and len(seats) * 2 > alike
