"""RDMA ports (InfiniBand, RoCE, EFA): state, rate, traffic, errors. From /sys/class/infiniband."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from exporter.checks.base import Keeper, Report
from exporter.checks.port_metrics import Standing, life_samples, samples, stand
from exporter.checks.port_rows import links
from exporter.hardware.base import PortSource
from exporter.hardware.counters import moduli
from exporter.history import History
from exporter.judge.base import Scene, Seat
from exporter.judge.congestion import judge_congestion
from exporter.judge.errors import judge_errors
from exporter.judge.links import judge_links
from exporter.judge.reading import judge_reading
from exporter.judge.views import PortView, PortViews
from exporter.life import Life, dump, live, load, ran
from exporter.metrics import Sample
from exporter.model import Finding, Ports, Role, Unavailable
from exporter.peers import expected_rates
from exporter.rails import Memory, NicRule, assign, gpu_label

NAME = "infiniband"
TRAFFIC = ("receive_bytes", "transmit_bytes", "receive_packets", "transmit_packets", "transmit_wait_ticks")
WINDOWED_EVERY = 15.0
"""Seconds between looks at windows of five minutes and more: a look at each poll costs as much as the poll."""
VIEW_WINDOW = 60.0
"""Seconds over which a port's utilisation is told to other checks."""


def _any_device(_device: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator says of ports. `expected_rates` is bytes/s by role, `wanted_ports` a number by role.

    `chosen` says of a device name whether it is looked at: one that is not is never missing.
    """

    rules: Sequence[NicRule] = ()
    expected_rates: Mapping[Role, float] | None = None
    wanted_ports: Mapping[Role, int] = field(default_factory=dict)
    chosen: Callable[[str], bool] = _any_device


class InfinibandCheck:
    """Reads the ports and judges them. `remember` is called with the rails that are new; `keeper` keeps the rest.

    `gpu_numbers` gives the numbers of the GPUs that were read so far, by PCI address. `views` is told of each
    port what other checks judge by.
    """

    def __init__(  # noqa: PLR0913 - one call site; each is a different fact
        self,
        source: PortSource,
        settings: Settings,
        memory: Memory,
        remember: Callable[[Memory], None],
        gpu_numbers: Callable[[], Mapping[str, int]] = dict,
        keeper: Keeper | None = None,
        views: PortViews | None = None,
    ) -> None:
        self._source = source
        self._settings = settings
        self._memory = memory
        self._remember = remember
        self._gpu_numbers = gpu_numbers
        self._keeper = keeper
        self._views = views
        self._last: tuple[float, Ports] | None = None
        self._standing: tuple[object, Standing] | None = None
        self._history = History(TRAFFIC)
        self._life_cache: tuple[Standing, list[Life], list[Sample]] | None = None
        self._windowed: tuple[float, list[Finding]] | None = None
        self._lives: dict[str, Life] = {}
        if keeper is not None:
            keeper.recall(NAME, self._load)

    def run(self, now: float) -> Report:
        """See checks.base.Check."""
        try:
            reading = self._source.read()
        except Unavailable:
            self._last = None
            if not self._settings.wanted_ports and not any(life.ever_up for life in self._lives.values()):
                raise
            reading = Ports(())
        standing = self._stand(reading, now)
        last, self._last = self._last, (now, reading)
        self._note(reading, standing, now)
        findings = tuple(self._judge(reading, standing, now))
        active = sum(port.active for port in reading.ports)
        return Report(
            (*samples(reading, standing), *self._life_samples(standing, now)),
            reading.faults,
            partial(links, reading, standing, last, now),
            findings,
            f"{active} of {len(reading.ports)} ports up",
        )

    def _stand(self, reading: Ports, now: float) -> Standing:
        """Roles, rails, expectations; worked out anew only when what they rest on has changed."""
        numbers = dict(self._gpu_numbers())
        basis = (
            numbers,
            reading.default_route,
            [(p.device, p.number, p.link_layer, p.state, p.rate, p.netdev, p.slaves) for p in reading.ports],
        )
        if self._standing is None or self._standing[0] != basis:
            found, self._memory = assign(reading, self._settings.rules, self._memory)
            assignments = dict(found)
            self._remember(self._memory)
            for port in reading.ports:
                at = port.device.name, port.number
                assignments[at] = replace(assignments[at], gpu=gpu_label(port.device.near_gpus, numbers))
            best = {port.subject: port.rate for port in reading.ports if port.rate is not None}
            for life in self._lives.values():
                if (known := life.best_since(now)) is not None:
                    best[life.subject] = max(known, best.get(life.subject, 0.0))
            expected = expected_rates(
                reading.ports,
                assignments,
                self._settings.expected_rates or {},
                best,
            )
            self._standing = basis, stand(reading, assignments, expected)
        return self._standing[1]

    def _note(self, reading: Ports, standing: Standing, now: float) -> None:
        """Take the reading into the history and the lives, and see that they outlive a restart."""
        before = dict(self._lives)
        for port, name, assignment in zip(reading.ports, standing.keys, standing.assignments, strict=True):
            self._history.note(now, port.subject, port.counters, moduli(port.device.driver))
            life = self._lives.get(name) or Life(born=now, since=now)
            if (life.subject, life.role) != (port.subject, assignment.role.value):
                life = replace(life, subject=port.subject, role=assignment.role.value)
            if port.state is not None:
                life = live(life, now, port.active, port.counters.get("link_downed"))
            self._lives[name] = ran(life, now, port.rate)
        listed = set(standing.keys)
        for name, life in before.items():
            if name not in listed and life.up is not None:
                self._lives[name] = live(life, now, None, None)
        if len(self._history) > len(reading.ports):
            self._history.keep_only(port.subject for port in reading.ports)
        if self._keeper is not None:
            changed = any(before.get(name) is not life for name, life in self._lives.items())
            self._keeper.keep(NAME, self._dump, urgent=changed)

    def _life_samples(self, standing: Standing, now: float) -> list[Sample]:
        """The same as last time where no life has changed, and none has falls that grow old."""
        lives = list(self._lives.values())
        before = self._life_cache
        if before is None or before[0] is not standing or before[1] != lives or any(life.falls for life in lives):
            before = self._life_cache = standing, lives, life_samples(standing, self._lives, now)
        return before[2]

    def _judge(self, reading: Ports, standing: Standing, now: float) -> list[Finding]:
        seats = [
            Seat(port, assignment, expected, like, self._lives[name])
            for port, assignment, expected, like, name in zip(
                reading.ports, standing.assignments, standing.expected, standing.likes, standing.keys, strict=True
            )
        ]
        listed = set(standing.keys)
        gone = [
            name
            for name, life in self._lives.items()
            if name not in listed and self._settings.chosen(life.subject.rpartition("/")[0])
        ]
        scene = Scene(now, seats, self._history, reading.faults, self._lives, gone, self._settings.wanted_ports)
        if self._windowed is None or now - self._windowed[0] >= WINDOWED_EVERY:
            self._windowed = now, [*judge_errors(scene), *judge_congestion(scene)]
            if self._views is not None:
                self._views.tell({seat.subject: self._view(seat, now) for seat in seats})
        return [*judge_links(scene), *self._windowed[1], *judge_reading(scene)]

    def _view(self, seat: Seat, now: float) -> PortView:
        moved = [self._history.moved(now, seat.subject, name, VIEW_WINDOW) for name in TRAFFIC[:2]]
        busiest = max((one.per_second for one in moved if one is not None), default=None)
        rate = seat.port.rate
        used = busiest / rate if busiest is not None and rate else None
        return PortView(seat.port.device.name, seat.assignment.role, seat.assignment.rail, rate, used)

    def _dump(self, to_wall: float) -> dict[str, Any]:
        return {"history": self._history.dump(to_wall), "lives": dump(self._lives, to_wall)}

    def _load(self, content: Mapping[str, Any], now: float, to_wall: float, same_boot: bool) -> None:
        lives = load(content["lives"], now, to_wall, same_boot)
        self._history.load(content["history"], now, to_wall, same_boot)
        self._lives = lives
