"""Ports as people see them: a row each, with what moved since the last poll."""

from collections import Counter
from collections.abc import Iterable, Iterator

from exporter.checks.base import LinkRow
from exporter.checks.port_metrics import BYTES, Standing, about
from exporter.hardware.counters import moduli
from exporter.history import delta
from exporter.judge.links import state_text
from exporter.model import Fault, Port, Ports
from exporter.rails import Assignment

NOT_ERRORS = {*BYTES, "receive_packets", "transmit_packets"}


def links(reading: Ports, standing: Standing, last: tuple[float, Ports] | None, now: float) -> tuple[LinkRow, ...]:
    """Each port as people see it, beside the reading before it (`last`, with its time)."""
    seconds = now - last[0] if last else 0.0
    before = {port.subject: port for port in last[1].ports} if last else {}
    fixed = zip(reading.ports, standing.assignments, standing.expected, strict=True)
    return tuple(
        _link(port, assignment, expected, before.get(port.subject), seconds, reading.faults)
        for port, assignment, expected in fixed
    )


def _link(  # noqa: PLR0913 - one call site; each is a different fact
    port: Port,
    assignment: Assignment,
    expected: float | None,
    before: Port | None,
    seconds: float,
    faults: Iterable[Fault],
) -> LinkRow:
    moved = {name: _moved(name, before, port) for name in port.counters} if before else {}
    receive, transmit = (_per_second(moved.get(name), seconds) for name in BYTES)
    busiest = max((rate for rate in (receive, transmit) if rate is not None), default=None)
    return LinkRow(
        subject=port.subject,
        role=assignment.role.value,
        rail=assignment.rail_label,
        state=state_text(port),
        rate=port.rate,
        expected=expected,
        receive=receive,
        transmit=transmit,
        utilisation=busiest / port.rate if busiest is not None and port.rate else None,
        moved=tuple((name, amount) for name, amount in moved.items() if amount and name not in NOT_ERRORS),
        notes=tuple(_notes(port, expected, faults)),
        facts={name: value for name, value in about(port, assignment)._asdict().items() if value},
    )


def _moved(name: str, before: Port, after: Port) -> int | None:
    return delta(before.counters.get(name), after.counters.get(name), moduli(after.device.driver).get(name)).amount


def _per_second(amount: int | None, seconds: float) -> float | None:
    return amount / seconds if amount is not None and seconds > 0 else None


def _notes(port: Port, expected: float | None, faults: Iterable[Fault]) -> Iterator[str]:
    if port.rate and expected and port.rate < expected:
        how = f"{port.width}X {port.speed}" if port.width and port.speed else "its negotiated rate"
        yield (
            f"runs at {port.rate * 8 / 1e9:g} Gbit/s ({how}), {port.rate / expected:.0%} of the "
            f"{expected * 8 / 1e9:g} Gbit/s that is expected of it"
        )
    if port.saturated:
        yield f"at their ceiling, so blind: {', '.join(port.saturated)}"
    mine = Counter(fault.reason for fault in faults if fault.subject in (port.subject, port.device.name))
    if mine:
        yield "not readable: " + ", ".join(f"{count} x {reason}" for reason, count in sorted(mine.items()))
