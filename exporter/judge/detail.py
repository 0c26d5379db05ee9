"""Judging the details of ports: pauses, physical layer, module temperature, the PCIe path under the NIC."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from exporter.history import History
from exporter.judge.base import BIT_ERROR_LIMIT, duration, found, gbit, times
from exporter.judge.views import PortView
from exporter.model import Finding, PciePath, PortDetail, Role

WINDOW, HOUR = 300.0, 3600.0
PAUSED, STORM = 0.05, 0.5
HOT, COOLER = 80.0, 75.0
MIN_ERRORS = 10
DOWNGRADED = 0.99
IN_USE = 0.01
"""Share of a port's rate from which on its PCIe path is judged: idle links slow down on purpose."""
EVENTS = "pause_storm_events:error"


@dataclass(frozen=True, slots=True)
class DetailScene:
    """What the details are judged by at `now`: `views` is what the port check knows, by port.

    `hot` are the ports whose module was too hot last time: they cool down by some degrees before that is over.
    """

    now: float
    ports: Sequence[PortDetail]
    paths: Sequence[PciePath]
    history: History
    views: Mapping[str, PortView]
    hot: frozenset[str] = frozenset()


def subject(port: PortDetail) -> str:
    """The port in a finding."""
    return f"{port.device.name}/{port.number}"


def counted(port: PortDetail) -> Mapping[str, float]:
    """The counters that are judged, by a flat name: `pfc_pause_transmitted_seconds:3`."""
    return {f"{name}:{label}" if label else name: value for (name, label), value in port.counters.items()}


def judge_detail(scene: DetailScene) -> Iterator[Finding]:
    """Every finding about the details of ports."""
    for port in scene.ports:
        yield from _pauses(port, scene)
        yield from _bit_errors(port, scene)
        if port.temperature is not None and port.temperature >= (COOLER if subject(port) in scene.hot else HOT):
            yield found(
                "roce",
                "module_hot",
                subject(port),
                f"has its transceiver module at {port.temperature:.0f} Celsius",
                _role(port, scene),
                {"temperature_celsius": port.temperature, "limit_celsius": HOT},
            )
    for path in scene.paths:
        yield from _path(path, scene)


def _role(port: PortDetail, scene: DetailScene) -> str:
    view = scene.views.get(subject(port))
    return view.role if view else Role.COMPUTE


def _paused(port: PortDetail, scene: DetailScene, direction: str) -> float:
    """Share of the last minutes that the port stood still in pauses; of the busiest priority, 0 where unknown."""
    shares = [0.0]
    for name in scene.history.moving(subject(port)):
        if name.partition(":")[0] in (f"pfc_pause_{direction}_seconds", f"pause_{direction}_seconds"):
            moved = scene.history.moved(scene.now, subject(port), name, WINDOW)
            if moved is not None and moved.seconds >= WINDOW / 2:
                shares.append(moved.per_second)
    return max(shares)


def _pauses(port: PortDetail, scene: DetailScene) -> Iterator[Finding]:
    sent, received = _paused(port, scene, "transmitted"), _paused(port, scene, "received")
    dropped = scene.history.moved(scene.now, subject(port), EVENTS, WINDOW)
    storms = int(dropped.amount) if dropped is not None else 0
    role = _role(port, scene)
    if sent >= STORM or storms:
        because = f", and gave up {times(storms)} and dropped what came" if storms else ""
        yield found(
            "roce",
            "pause_storm",
            subject(port),
            f"keeps the network waiting {sent:.0%} of the time{because}: it can't hand on what it receives; look at "
            "the host's side",
            role,
            {"side": "culprit", "paused_ratio": round(sent, 4), "storm_events": storms},
        )
    elif max(sent, received) >= PAUSED:
        side = "culprit" if sent >= received else "victim"
        how = "pauses the network" if side == "culprit" else "is paused by the network"
        yield found(
            "roce",
            "congestion",
            subject(port),
            f"{how} {max(sent, received):.0%} of the time ({side}); the network is crowded, no fault",
            "",
            {"side": side, "paused_ratio": round(max(sent, received), 4)},
        )


def _bit_errors(port: PortDetail, scene: DetailScene) -> Iterator[Finding]:
    errors = scene.history.moved(scene.now, subject(port), "phy_symbol_errors", HOUR)
    bits = scene.history.moved(scene.now, subject(port), "phy_bits", HOUR)
    if errors is None or bits is None or errors.amount < MIN_ERRORS or bits.amount <= 0:
        return
    ratio = errors.amount / bits.amount
    if ratio > BIT_ERROR_LIMIT:
        yield found(
            "roce",
            "bit_errors",
            subject(port),
            f"has {ratio:.1e} errors a bit after correction over {duration(bits.seconds)} ({errors.amount:,.0f} in "
            f"all); {BIT_ERROR_LIMIT:.0e} is the most that a good link has",
            _role(port, scene),
            {"bit_error_ratio": ratio, "errors": int(errors.amount), "window_seconds": round(bits.seconds, 1)},
        )


def _path(path: PciePath, scene: DetailScene) -> Iterator[Finding]:
    if path.current is None or path.maximum is None or path.current >= DOWNGRADED * path.maximum:
        return
    ports = [view for view in scene.views.values() if view.device == path.device]
    if not any(view.used is not None and view.used >= IN_USE for view in ports):
        return
    rate = max((view.rate for view in ports if view.rate is not None), default=None)
    roles = {view.role for view in ports}
    alike = [
        other.current
        for other in scene.paths
        if other is not path
        and other.current is not None
        and other.maximum == path.maximum
        and any(view.device == other.device and view.role in roles for view in scene.views.values())
    ]
    starved = rate is not None and path.current < DOWNGRADED * rate
    if not starved and not (alike and path.current < DOWNGRADED * median(alike)):
        return
    least = f": it can feed its port with {gbit(path.current)} of {gbit(rate)}" if starved and rate else ""
    yield found(
        "roce",
        "pcie_downgraded",
        f"{path.device}/pcie",
        f"trained {path.current / path.maximum:.0%} of what its PCIe path can carry{least}",
        min(roles, key=list(Role).index) if starved else Role.STORAGE,
        {
            "bandwidth": path.current,
            "max_bandwidth": path.maximum,
            "port_rate": rate,
            "like_nics": len(alike),
            "like_nics_bandwidth": median(alike) if alike else None,
        },
    )
