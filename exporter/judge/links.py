"""Judging ports: there, up, fast, steady. See exporter/reasons/ports.py for what each finding means."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from exporter.judge.base import (
    MANY,
    TOGETHER_SECONDS,
    Scene,
    Seat,
    duration,
    found,
    gbit,
    most_of,
    on_node,
    on_port,
    times,
    within,
)
from exporter.life import DAY, forgotten
from exporter.model import PHYSICAL_STATES, STATES, Finding, Port, Role

SLOW = 0.99
"""Share of the expected rate below which a port is slow."""
USUAL_LANES = 4
FLAP_WINDOW, FLAPS = 600.0, 3
DAILY_FLAPS = 5
RECENT = 3600.0
LONG_OUTAGE = 30.0


def judge_links(scene: Scene) -> Iterator[Finding]:
    """Every finding about a port's presence, state, rate and steadiness."""
    flapping = [seat for seat in scene.seats if _flaps(seat, scene.now)]
    for seat in flapping:
        yield _flapping(seat, scene.now)
    down = [seat for seat in scene.seats if seat not in flapping and seat.life.ever_up and seat.life.up is False]
    gone = _gone(scene)
    yield from _down(down, scene)
    yield from _never_up(scene)
    yield from _missing(gone, scene)
    yield from _too_few(scene, [*down, *(seat for seat in flapping if not seat.port.active)], gone)
    for seat in scene.seats:
        if seat.port.active and seat.port.rate and seat.expected and seat.port.rate < SLOW * seat.expected:
            yield _slow(seat, scene)
    yield from _went_down([seat for seat in scene.seats if seat not in flapping and seat not in down], scene)


def _flaps(seat: Seat, now: float) -> bool:
    return bool(seat.life.falls) and (
        seat.life.fallen(now, FLAP_WINDOW) >= FLAPS or seat.life.fallen(now, DAY) >= DAILY_FLAPS
    )


def _flapping(seat: Seat, now: float) -> Finding:
    short, daily = seat.life.fallen(now, FLAP_WINDOW), seat.life.fallen(now, DAY)
    state = "is up at the moment" if seat.port.active else f"is {state_text(seat.port)} now"
    return on_port(
        "port_flapping",
        seat,
        f"went down {times(daily)} in the last 24 hours, {times(short) if short else 'not'} in the last 10 minutes; "
        f"it {state}",
        {"flaps_10m": short, "flaps_24h": daily, "up": seat.port.active},
    )


def _down(down: list[Seat], scene: Scene) -> Iterator[Finding]:
    for role in Role:
        seats = [seat for seat in down if seat.assignment.role is role]
        if len(seats) > 1 and most_of(seats, scene) and within([seat.life.since for seat in seats]):
            since = min(seat.life.since for seat in seats)
            yield on_node(
                "ports_down",
                role,
                f"{len(seats)} {role} ports went down together, {duration(scene.now - since)} ago: what they share "
                f"is down, a switch, the subnet manager or the driver, not {len(seats)} cables",
                {"ports": tuple(seat.subject for seat in seats), "down_seconds": round(scene.now - since, 1)},
            )
            continue
        for seat in seats:
            was = scene.now - seat.life.since
            yield on_port(
                "port_down",
                seat,
                f"is {state_text(seat.port)} and was up before; down for {duration(was)}",
                {
                    "state": STATES.get(seat.port.state or 0, ""),
                    "physical_state": PHYSICAL_STATES.get(seat.port.physical_state or 0, ""),
                    "down_seconds": round(was, 1),
                },
            )


def _never_up(scene: Scene) -> Iterator[Finding]:
    for seat in scene.seats:
        unused = seat.life.up is False and not seat.life.ever_up and seat.assignment.role is Role.COMPUTE
        if unused and (up := [other for other in scene.alike(seat) if other.port.active]):
            yield on_port(
                "port_never_up",
                seat,
                f"is {state_text(seat.port)} and has not been up since this node is watched; {len(up)} like ports are",
                {"like_ports_up": len(up)},
            )


def _gone(scene: Scene) -> list[str]:
    """The keys of ports that were up once and are not listed now.

    None where a role has all that it should; and not one that another has come in for, under another name or in
    another slot.
    """
    active = Counter(seat.assignment.role.value for seat in scene.seats if seat.port.active)
    full = {role.value for role, wanted in scene.wanted_ports.items() if active[role.value] >= wanted}
    newcomers: dict[str, list[float]] = defaultdict(list)
    for seat in scene.seats:
        newcomers[seat.assignment.role.value].append(seat.life.born)
    missed = []
    for key in sorted(scene.gone, key=lambda key: scene.lives[key].since):
        life = scene.lives[key]
        if not life.ever_up or life.role in full or forgotten(life, scene.now):
            continue
        came = [born for born in newcomers[life.role] if born >= life.since - TOGETHER_SECONDS]
        if came:
            newcomers[life.role].remove(min(came))
        else:
            missed.append(key)
    return missed


def _missing(keys: list[str], scene: Scene) -> Iterator[Finding]:
    for role in Role:
        mine = [key for key in keys if scene.lives[key].role == role.value]
        known = len(mine) + sum(seat.assignment.role is role for seat in scene.seats)
        since = [scene.lives[key].since for key in mine]
        if len(mine) >= MANY and len(mine) * 2 > known and within(since):
            yield on_node(
                "ports_missing",
                role,
                f"{len(mine)} {role} ports are not listed any more, since {duration(scene.now - min(since))}: the "
                "driver may not be loaded",
                {"ports": tuple(scene.lives[key].subject for key in mine)},
            )
            continue
        for key in mine:
            life = scene.lives[key]
            where = f"; it was at {place}" if ":" in (place := key.rpartition("/")[0]) else ""
            yield found(
                "infiniband",
                "port_missing",
                life.subject,
                f"is not listed any more, since {duration(scene.now - life.since)}, and had been up{where}",
                life.role,
                {"key": key, "missing_seconds": round(scene.now - life.since, 1)},
            )


def _too_few(scene: Scene, down: list[Seat], gone: list[str]) -> Iterator[Finding]:
    for role, wanted in scene.wanted_ports.items():
        active = sum(seat.port.active for seat in scene.seats if seat.assignment.role is role)
        named = sum(seat.assignment.role is role for seat in down) + sum(
            scene.lives[key].role == role.value for key in gone
        )
        if active + named < wanted:
            yield on_node(
                "too_few_ports",
                role,
                f"{active} {role} ports are up of the {wanted} that are expected",
                {"active": active, "expected": wanted},
            )


def _slow(seat: Seat, scene: Scene) -> Finding:
    port, expected = seat.port, seat.expected or 0.0
    rate = port.rate or 0.0
    usual = Counter(
        (other.port.width, other.port.speed)
        for other in scene.alike(seat)
        if other.port.rate is not None and other.port.rate >= SLOW * expected and other.port.width
    ).most_common(1)
    lanes, speed = usual[0][0] if usual else (USUAL_LANES, "")
    how = f" ({port.width}X {port.speed})" if port.width and port.speed else ""
    by = f"the {gbit(expected)} that {usual[0][1]} like ports run at" if usual else f"the {gbit(expected)} expected"
    evidence = {"rate": rate, "expected": expected, "ratio": round(rate / expected, 4)}
    share = f"runs at {gbit(rate)}{how}, {rate / expected:.0%} of {by}"
    if port.link_layer != "Ethernet" and port.width and lanes and port.width < lanes:
        evidence |= {"width": port.width, "usual_width": lanes}
        return on_port("width_reduced", seat, f"{share}: {port.width} of {lanes} lanes trained", evidence)
    if port.link_layer != "Ethernet" and port.speed and speed and port.speed != speed:
        words = {"speed": port.speed, "usual_speed": speed}
        return on_port(
            "speed_reduced", seat, f"{share}: lanes at {port.speed} instead of {speed}", {**evidence, **words}
        )
    return on_port("rate_low", seat, share, evidence)


def _went_down(seats: list[Seat], scene: Scene) -> Iterator[Finding]:
    now = scene.now
    recent = [
        seat
        for seat in seats
        if seat.life.up
        and (
            seat.life.fallen(now, RECENT)
            or any(outage.seconds >= LONG_OUTAGE for outage in seat.life.outages if outage.end > now - DAY)
        )
    ]
    for role in Role:
        alike = [seat for seat in recent if seat.assignment.role is role]
        begin, together = _together(alike)
        if most_of(together, scene):
            yield on_node(
                "ports_went_down",
                role,
                f"{len(together)} {role} ports went down together {duration(now - begin)} ago and are back: ask what "
                "happened to the switch or the subnet manager",
                {"ports": tuple(seat.subject for seat in together), "longest_outage_seconds": _longest(together)},
            )
            alike = [seat for seat in alike if seat not in together or _fell_alone(seat, begin)]
        for seat in alike:
            yield _came_back(seat, now)


def _together(seats: list[Seat]) -> tuple[float, list[Seat]]:
    """When the most of these ports fell within a short time, and which they are."""
    moments = sorted({at for seat in seats for at, _ in seat.life.falls})
    groups = [(begin, [seat for seat in seats if _fell_with(seat, begin)]) for begin in moments]
    return max(groups, key=lambda group: (len(group[1]), group[0]), default=(0.0, []))


def _fell_with(seat: Seat, begin: float) -> bool:
    return any(begin <= at <= begin + TOGETHER_SECONDS for at, _ in seat.life.falls)


def _fell_alone(seat: Seat, begin: float) -> bool:
    return any(not begin <= at <= begin + TOGETHER_SECONDS for at, _ in seat.life.falls)


def _came_back(seat: Seat, now: float) -> Finding:
    count, ago = seat.life.fallen(now, DAY), now - (seat.life.last_fall() or seat.life.since)
    long = max((outage.seconds for outage in seat.life.outages), default=None)
    lasted = f", for {duration(long)} at the longest" if long is not None else ""
    when = f"{duration(ago)} ago"
    told = f"went down {when}{lasted}" if count <= 1 else f"went down {times(count)} in 24 hours, last {when}{lasted}"
    return on_port(
        "link_went_down",
        seat,
        f"{told}, and is up again",
        {"flaps_24h": count, "longest_outage_seconds": None if long is None else round(long, 1)},
    )


def _longest(seats: list[Seat]) -> float | None:
    outages = [outage.seconds for seat in seats for outage in seat.life.outages]
    return round(max(outages), 1) if outages else None


def state_text(port: Port) -> str:
    """`ACTIVE`, or `DOWN (Polling)`; `unknown` where the state could not be read."""
    if port.state is None:
        return "unknown"
    state = STATES.get(port.state, str(port.state))
    physical = PHYSICAL_STATES.get(port.physical_state or 0, "")
    return state if port.active or not physical else f"{state} ({physical})"
