"""Judging what ports count as errors. See exporter/reasons/traffic.py for what each finding means."""

from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from exporter.judge.base import BIT_ERROR_LIMIT, Scene, Seat, duration, listed, on_node, on_port
from exporter.model import Finding, Role

HOUR, PART, PARTS = 3600.0, 300.0, 3
MIN_SYMBOL_ERRORS_PER_HOUR = 120.0
TIMES_MEDIAN = 10
EVENTS = {
    "local_link_integrity_errors": ("link_integrity_errors", "local link integrity errors", 1),
    "excessive_buffer_overrun_errors": ("buffer_overruns", "buffer overruns", 1),
    "icrc_errors": ("icrc_errors", "packets with a wrong checksum (ICRC)", 10),
}
"""Counters of which a few in an hour are too many: reason, words, how many."""
RATES = {
    "receive_errors": ("receive_errors", "packets received broken", 10.0),
    "link_error_recovery": ("link_recoveries", "retrainings", 5 / 60),
    "transmit_discards": ("transmit_discards", "packets discarded on the way out", 100.0),
}
"""Counters of which so many a second, over five minutes, are too many."""
TROUBLE_FILES = {
    "link_downed",
    "symbol_error",
    "link_error_recovery",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
}
FROZEN_PACKETS = 10_000
_ALONE = 2
"""Like ports without it that make a saturated counter stand out."""


def judge_errors(scene: Scene) -> Iterator[Finding]:
    """Every finding about error counters and about counters that can't be trusted."""
    for seat in scene.seats:
        moving = set(scene.history.moving(seat.subject))
        if "symbol_errors" in moving:
            yield from _symbol_errors(seat, scene)
        for name in moving & EVENTS.keys():
            yield from _events(seat, scene, name)
        for name in moving & RATES.keys():
            yield from _rates(seat, scene, name)
        for direction in ("receive", "transmit"):
            if f"{direction}_packets" in moving and f"{direction}_bytes" not in moving:
                yield from _frozen(seat, scene, direction)
    yield from _saturated(scene)


def _symbol_errors(seat: Seat, scene: Scene) -> Iterator[Finding]:
    now, begin = scene.now, scene.now - PART * PARTS
    moved = scene.history.steady(now, seat.subject, "symbol_errors", PART, PARTS)
    if moved is None:
        return
    hourly = moved.per_second * HOUR
    limit = max(MIN_SYMBOL_ERRORS_PER_HOUR, (seat.port.rate or 0.0) * 8 * BIT_ERROR_LIMIT * HOUR)
    others = [
        other.per_second * HOUR
        for like in scene.alike(seat)
        if (other := scene.history.between(like.subject, "symbol_errors", begin, now)) is not None
    ]
    usual = median(others) if others else 0.0
    if hourly <= limit or hourly <= TIMES_MEDIAN * usual:
        return
    evidence = {
        "symbol_errors_per_hour": round(hourly, 1),
        "limit_per_hour": round(limit, 1),
        "like_ports": len(others),
        "like_ports_median_per_hour": round(usual, 1),
    }
    also = []
    for name, words in (("link_error_recovery", "retrainings"), ("receive_errors", "broken packets")):
        more = scene.history.moved(now, seat.subject, name, PART * PARTS)
        if more is not None and more.amount:
            evidence[name] = int(more.amount)
            also.append(f"{more.amount:,.0f} {words}")
    beside = f", and {' and '.join(also)} in 15 minutes" if also else ""
    yield on_port(
        "symbol_errors",
        seat,
        f"counts {hourly:,.0f} symbol errors an hour for at least 15 minutes{beside}; its {len(others)} like ports "
        f"have {usual:,.0f} (median)",
        evidence,
    )


def _events(seat: Seat, scene: Scene, name: str) -> Iterator[Finding]:
    reason, words, enough = EVENTS[name]
    moved = scene.history.moved(scene.now, seat.subject, name, HOUR)
    if moved is not None and moved.amount >= enough:
        span = duration(max(moved.seconds, 60.0))
        yield on_port(
            reason,
            seat,
            f"counted {moved.amount:,.0f} {words} in the last {span}",
            {name: int(moved.amount), "window_seconds": round(moved.seconds, 1)},
        )


def _rates(seat: Seat, scene: Scene, name: str) -> Iterator[Finding]:
    reason, words, limit = RATES[name]
    moved = scene.history.moved(scene.now, seat.subject, name, PART)
    if moved is not None and moved.seconds >= PART / 2 and moved.per_second > limit:
        rate = f"{moved.per_second:,.0f} a second" if limit >= 1 else f"{moved.per_second * 60:,.1f} a minute"
        yield on_port(
            reason,
            seat,
            f"counts {rate} {words} over the last {duration(moved.seconds)}",
            {f"{name}_per_second": round(moved.per_second, 3), "window_seconds": round(moved.seconds, 1)},
        )


def _frozen(seat: Seat, scene: Scene, direction: str) -> Iterator[Finding]:
    packets = scene.history.moved(scene.now, seat.subject, f"{direction}_packets", PART)
    read = scene.history.moved(scene.now, seat.subject, f"{direction}_bytes", PART)
    if packets is None or read is None or read.amount or packets.seconds < PART or packets.amount <= FROZEN_PACKETS:
        return
    yield on_port(
        "counter_frozen",
        seat,
        f"{direction}s {packets.amount:,.0f} packets in {duration(packets.seconds)} and counts no byte: its counters "
        "can't be trusted",
        {"packets": int(packets.amount), "bytes": 0, "window_seconds": round(packets.seconds, 1)},
    )


def _saturated(scene: Scene) -> Iterator[Finding]:
    leftovers: dict[str, list[str]] = defaultdict(list)
    for seat in scene.seats:
        stuck = set(seat.port.saturated)
        alike = scene.alike(seat) if stuck else []
        alone = sorted(
            file
            for file in stuck & TROUBLE_FILES
            if len(alike) >= _ALONE
            and seat.assignment.role in (Role.COMPUTE, Role.STORAGE)
            and not any(file in other.port.saturated for other in alike)
        )
        if alone:
            yield on_port(
                "counter_saturated",
                seat,
                f"has {listed(alone)} at its ceiling, and none of its {len(alike)} like ports has: it has had trouble, "
                "when is not known",
                {"counters": tuple(alone), "like_ports": len(alike)},
            )
        for file in stuck - set(alone):
            leftovers[file].append(seat.subject)
    if leftovers:
        told = [
            f"{file} on {ports[0] if len(ports) == 1 else f'{len(ports)} ports'}"
            for file, ports in sorted(leftovers.items())
        ]
        yield on_node(
            "counters_saturated",
            Role.COMPUTE,
            f"counters stand at their ceiling, where nothing new shows: {listed(told)}",
            {file: tuple(ports) for file, ports in sorted(leftovers.items())},
        )
