"""Judging what could not be read: unknown is never healthy."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from exporter.judge.base import Scene, Seat, listed, on_node, on_port
from exporter.model import Fault, Finding, Role, Severity

QUIET = frozenset({"einval"})
"""Refused: asked three times and then taken for not there (the Fabric Manager's ports refuse every counter)."""
WITH_COUNTERS = frozenset({"mlx5_core", "mlx4_core"})
COUNTED = frozenset({Role.COMPUTE, Role.STORAGE})


def judge_reading(scene: Scene) -> Iterator[Finding]:
    """Every finding about ports that do not answer as they should."""
    hidden = [seat for seat in scene.seats if seat.port.device.driver in WITH_COUNTERS]
    if hidden and not any(seat.port.counters for seat in hidden):
        yield on_node(
            "counters_hidden",
            Role.COMPUTE,
            f"none of its {len(hidden)} ports shows a counter: a network namespace hides them",
            {"ports": tuple(seat.subject for seat in hidden)},
        )
        hidden_subjects = {seat.subject for seat in hidden}
    else:
        hidden_subjects = set()
    by_subject: dict[str, list[Fault]] = defaultdict(list)
    for fault in scene.faults:
        if fault.reason not in QUIET:
            by_subject[fault.subject].append(fault)
    for seat in scene.seats:
        faults = by_subject.pop(seat.subject, []) + by_subject.get(seat.port.device.name, [])
        silent = [] if seat.subject in hidden_subjects else list(_silent(seat, scene))
        if faults or silent:
            yield _unreadable(seat, faults, silent)
    told = {seat.port.device.name for seat in scene.seats}
    for subject, faults in by_subject.items():
        if subject not in told:
            yield _alone(subject, faults)


def _silent(seat: Seat, scene: Scene) -> Iterator[str]:
    """What a port that carries data should say and does not."""
    if seat.assignment.role not in COUNTED or not seat.port.active:
        return
    alike = scene.alike(seat)
    if seat.port.rate is None and any(other.port.rate is not None for other in alike):
        yield "no rate"
    if not seat.port.counters and sum(bool(other.port.counters) for other in alike) * 2 > len(alike):
        yield "no counter"


def _unreadable(seat: Seat, faults: list[Fault], silent: list[str]) -> Finding:
    reasons = Counter(fault.reason for fault in faults)
    said = [f"{count} x {reason}" for reason, count in sorted(reasons.items())] + [f"it says {what}" for what in silent]
    where = f" ({faults[0].detail})" if faults else ""
    return on_port(
        "unreadable",
        seat,
        f"can't be read as it should: {', '.join(said)}{where}",
        {**{f"faults_{reason}": count for reason, count in reasons.items()}, "missing": tuple(silent)},
    )


def _alone(subject: str, faults: list[Fault]) -> Finding:
    """A fault of a device or source that has no port to show."""
    reasons = sorted({fault.reason for fault in faults})
    return Finding(
        "infiniband",
        subject,
        Severity.UNKNOWN,
        "unreadable",
        f"can't be read: {listed(reasons)} ({faults[0].detail})",
        {"reasons": tuple(reasons)},
    )
