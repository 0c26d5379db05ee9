"""Judging congestion: who waits, and who makes others wait. Information, never a fault."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from exporter.judge.base import MANY, Scene, Seat, listed, on_node, on_port
from exporter.model import Finding, Role

WINDOW = 300.0
PER_SECOND = 100.0
TIMES_MEDIAN = 3
BUSY = 0.05
PEERS = 3
WAIT_FILE = "port_xmit_wait"
VICTIM = {"cnp_handled": "CNPs obeyed"}
CULPRIT = {"ecn_marked_packets": "marked packets received", "cnp_sent": "CNPs sent"}


@dataclass(frozen=True, slots=True)
class _Crowded:
    seat: Seat
    sides: tuple[str, ...]
    signs: tuple[str, ...]


def judge_congestion(scene: Scene) -> Iterator[Finding]:
    """One finding for each crowded port, or one for the node where they are many."""
    waits = {seat.subject: wait for seat in scene.seats if (wait := waits_per_byte(seat, scene)) is not None}
    crowded = [found for seat in scene.seats if (found := _look(seat, scene, waits))]
    if len(crowded) < MANY:
        for one in crowded:
            yield on_port(
                "congestion", one.seat, _words("is in congestion", one.sides, one.signs), {"side": "+".join(one.sides)}
            )
        return
    sides = tuple(sorted({side for one in crowded for side in one.sides}))
    signs = max(crowded, key=lambda one: len(one.signs)).signs
    ports = tuple(one.seat.subject for one in crowded)
    yield on_node(
        "congestion",
        Role.COMPUTE,
        _words(f"{len(ports)} ports are in congestion ({listed(ports)})", sides, signs),
        {"side": "+".join(sides), "ports": ports},
    )


def _words(what: str, sides: tuple[str, ...], signs: tuple[str, ...]) -> str:
    return f"{what}, {' and '.join(sides)}: {', '.join(signs)}; the network is crowded, no fault"


def _look(seat: Seat, scene: Scene, waits: dict[str, float]) -> _Crowded | None:
    if seat.assignment.role is not Role.COMPUTE:
        return None
    moving = set(scene.history.moving(seat.subject))
    sides, signs = [], []
    for side, names in (("victim", VICTIM), ("culprit", CULPRIT)):
        for name in moving & names.keys():
            moved = scene.history.moved(scene.now, seat.subject, name, WINDOW)
            if moved is not None and moved.seconds >= WINDOW / 2 and moved.per_second >= PER_SECOND:
                sides.append(side)
                signs.append(f"{moved.per_second:,.0f} {names[name]} a second")
    own = waits.get(seat.subject)
    others = [waits[other.subject] for other in scene.alike(seat) if other.subject in waits]
    if own is not None and len(others) >= PEERS and own > TIMES_MEDIAN * median(others) > 0:
        sides.append("victim")
        signs.append(f"waits {own / median(others):.1f} times as long per byte as its {len(others)} like ports")
    if not sides:
        return None
    return _Crowded(seat, tuple(sorted(set(sides), reverse=True)), tuple(sorted(signs)))


def waits_per_byte(seat: Seat, scene: Scene) -> float | None:
    """Ticks with data to send and nothing sent, per byte sent; None where idle, or the counter is at its ceiling.

    A tick's length differs by device generation: only like ports can be compared.
    """
    if WAIT_FILE in seat.port.saturated or not seat.port.rate:
        return None
    waited = scene.history.moved(scene.now, seat.subject, "transmit_wait_ticks", WINDOW)
    sent = scene.history.moved(scene.now, seat.subject, "transmit_bytes", WINDOW)
    if waited is None or sent is None or sent.seconds < WINDOW / 2:
        return None
    return waited.amount / sent.amount if sent.per_second > BUSY * seat.port.rate else None
