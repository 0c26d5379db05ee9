"""A node of ports made in memory, driven through the real check and the real board, as fast as Python goes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.board import Board, Judgement, Outcome, Status, Timing
from exporter.checks.base import Report
from exporter.checks.infiniband import InfinibandCheck, Settings
from exporter.clock import Clock
from exporter.health import Shown
from exporter.model import ACTIVE, Device, Fault, Port, Ports, Unavailable
from exporter.state import State

RATE = 50e9
DOWN, POLLING, LINK_UP = 1, 2, 5
Change = Callable[[Port, float], Port]


def port(number: int, **values: Any) -> Port:
    """The compute port of rail `number`: 400 Gbit/s NDR, up, all counters at 0."""
    device = Device(f"mlx5_{number}", "mlx5_core", f"0000:{number:02x}:00.0", hca_type="MT4129", board_id="MT_1")
    counters = dict.fromkeys(
        (
            "link_downed",
            "symbol_errors",
            "link_error_recovery",
            "receive_errors",
            "local_link_integrity_errors",
            "excessive_buffer_overrun_errors",
            "transmit_discards",
            "transmit_wait_ticks",
            "receive_bytes",
            "transmit_bytes",
            "receive_packets",
            "transmit_packets",
        ),
        0,
    )
    made = Port(device, 1, "InfiniBand", ACTIVE, LINK_UP, RATE, 4, "NDR", f"ib{number}", counters=counters)
    return replace(made, **values)


def counting(one: Port, **values: int) -> Port:
    """The port with these counters."""
    return replace(one, counters={**one.counters, **values})


def down(one: Port) -> Port:
    """The port without its link."""
    return replace(one, state=DOWN, physical_state=POLLING, rate=None, width=None, speed="")


def busy(one: Port, now: float, share: float = 0.3) -> Port:
    """The port after `now` seconds of traffic both ways."""
    moved = int(now * RATE * share)
    return counting(
        one,
        receive_bytes=moved,
        transmit_bytes=moved,
        receive_packets=moved // 4096,
        transmit_packets=moved // 4096,
        transmit_wait_ticks=moved // 1000,
    )


@dataclass
class Play:
    """A daemon's port check on a clock that is moved by hand. `change` makes each port of a reading."""

    ports: list[Port] = field(default_factory=lambda: [port(n) for n in range(8)])
    settings: Settings = field(default_factory=Settings)
    state: State | None = None
    start: float = 0.0
    judgement: Judgement | None = None

    def __post_init__(self) -> None:
        self.now = self.start
        self.reading: Ports | None = Ports(tuple(self.ports))
        self.clock = Clock(wall=lambda: 1_800_000_000.0 + self.now, monotonic=lambda: self.now)
        keeper = self.state or State(None, clock=self.clock)
        self.check = InfinibandCheck(
            self,
            self.settings,
            keeper.rails,
            keeper.remember,
            dict,
            keeper,  # this is a PortSource
        )
        self.board = Board({"infiniband": Timing(5.0, 5.0)}, self.clock, self.judgement)
        self.log: list[tuple[float, frozenset[tuple[str, str]]]] = []

    def read(self) -> Ports:
        """See hardware.base.PortSource."""
        if self.reading is None:
            raise Unavailable("no RDMA device")
        return self.reading

    def poll(self, ports: Iterable[Port] | None, faults: tuple[Fault, ...] = ()) -> tuple[Shown, ...]:
        """One run of the check on these ports (None: no device at all)."""
        self.reading = None if ports is None else Ports(tuple(ports), faults)
        self.board.begin("infiniband")
        status: Status = "ok"
        try:
            report = self.check.run(self.now)
        except Unavailable:
            status, report = "absent", Report()
        outcome = Outcome("infiniband", status, report, self.now, self.clock.wall(), 0.0)
        self.board.post(outcome)
        shown = self.board.snapshot().findings
        names = frozenset((one.finding.subject, one.finding.reason) for one in shown)
        if not self.log or self.log[-1][1] != names:
            self.log.append((self.now, names))
        return shown

    def run(self, seconds: float, change: Change, step: float = 5.0) -> tuple[Shown, ...]:
        """Poll every `step` seconds, for so long."""
        end = self.now + seconds
        shown: tuple[Shown, ...] = ()
        while self.now < end:
            self.now += step
            shown = self.poll([change(busy(one, self.now), self.now) for one in self.ports])
        return shown


def steady(one: Port, _now: float) -> Port:
    """Nothing happens."""
    return one


def only(subject: str, change: Change) -> Change:
    """The change, on one port."""
    return lambda one, now: change(one, now) if one.subject == subject else one


def names(shown: Iterable[Shown]) -> set[tuple[str, str]]:
    """Subject and reason of each finding."""
    return {(one.finding.subject, one.finding.reason) for one in shown}


def severities(shown: Iterable[Shown]) -> Mapping[tuple[str, str], str]:
    """Severity by subject and reason."""
    return {(one.finding.subject, one.finding.reason): one.finding.severity.value for one in shown}
