"""RDMA ports (InfiniBand, RoCE, EFA): state, rate, traffic, errors. From /sys/class/infiniband."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from exporter.checks.base import LinkRow, Report
from exporter.hardware.base import PortSource
from exporter.hardware.counters import moduli
from exporter.history import delta
from exporter.metrics import Metric, Sample, counter, gauge, info
from exporter.model import PHYSICAL_STATES, STATES, Fault, Port, Ports, Role, Unavailable
from exporter.rails import Assignment, Memory, NicRule, assign, gpu_label


class PortLabels(NamedTuple):
    """A port."""

    device: str
    port: str


class RailLabels(NamedTuple):
    """A port, with what people join for; `rail` is empty unless the role is compute."""

    device: str
    port: str
    role: str
    rail: str


class InfoLabels(NamedTuple):
    """What stands still about a port; empty where unknown."""

    device: str
    port: str
    link_layer: str
    driver: str
    netdev: str
    pci_address: str
    numa_node: str
    board_id: str
    hca_type: str
    firmware_version: str
    node_guid: str
    gpu: str
    cage: str
    leaf: str
    virtual: str


class CounterLabels(NamedTuple):
    """A counter of a port, by its sysfs file name."""

    device: str
    port: str
    counter: str


class VendorLabels(NamedTuple):
    """A counter file outside the table: its directory and name."""

    device: str
    port: str
    group: str
    counter: str


INFO = info(
    "port_info",
    "A port of an RDMA device; the value is 1. From /sys/class/infiniband/<device> and its device link.",
    InfoLabels,
)
UP = gauge("port_up", "1 if the port is ACTIVE, 0 in any other state. From ports/<n>/state.", RailLabels)
STATE_ID = gauge(
    "port_state_id",
    "Logical state: 1 DOWN, 2 INIT (no subnet manager), 3 ARMED, 4 ACTIVE. From ports/<n>/state.",
    PortLabels,
)
PHYSICAL_STATE_ID = gauge(
    "port_physical_state_id",
    "Physical state: 2 Polling, 3 Disabled, 5 LinkUp, 6 LinkErrorRecovery. From ports/<n>/phys_state.",
    PortLabels,
)
RATE = gauge(
    "port_rate_bytes_per_second",
    "Negotiated rate, only while ACTIVE. From ports/<n>/rate; for Ethernet the netdev's speed where it has one.",
    RailLabels,
)
EXPECTED_RATE = gauge(
    "port_expected_rate_bytes_per_second",
    "Rate the port should have: expect.<role>.rate of the configuration, else what most like ports run at.",
    RailLabels,
)
BYTES = {
    "receive_bytes": counter(
        "port_receive_bytes_total",
        "Bytes received. From counters/port_rcv_data x 4 (x 8 on hfi1), else the driver's hw_counters.",
        RailLabels,
    ),
    "transmit_bytes": counter(
        "port_transmit_bytes_total",
        "Bytes transmitted. From counters/port_xmit_data x 4 (x 8 on hfi1), else the driver's hw_counters.",
        RailLabels,
    ),
}


def _plain(name: str, what: str, source: str) -> tuple[str, Metric[PortLabels]]:
    return name, counter(f"port_{name}_total", f"{what}. From {source}.", PortLabels)


_DRIVER = "hw_counters, by the driver's own name for it"
COUNTERS = dict(
    (
        _plain("receive_packets", "Packets received", "counters/port_rcv_packets, else the driver's hw_counters"),
        _plain(
            "transmit_packets",
            "Packets transmitted",
            "counters/port_xmit_packets, else the driver's hw_counters",
        ),
        _plain("symbol_errors", "Minor link errors, after FEC on links that have it", "counters/symbol_error"),
        _plain(
            "link_error_recovery",
            "Retrainings that brought the link back without taking it down",
            "counters/link_error_recovery",
        ),
        _plain("link_downed", "Times the link went down", "counters/link_downed"),
        _plain("receive_errors", "Packets received with an error", "counters/port_rcv_errors"),
        _plain(
            "receive_remote_physical_errors",
            "Packets that an earlier hop had marked bad: the fault is elsewhere",
            "counters/port_rcv_remote_physical_errors",
        ),
        _plain(
            "receive_switch_relay_errors",
            "Packets the switch relay could not forward",
            "counters/port_rcv_switch_relay_errors",
        ),
        _plain(
            "transmit_discards",
            "Packets discarded on the way out: port down, or head-of-queue lifetime over",
            "counters/port_xmit_discards",
        ),
        _plain(
            "transmit_constraint_errors",
            "Packets not sent for a partition or raw filter",
            "counters/port_xmit_constraint_errors",
        ),
        _plain(
            "receive_constraint_errors",
            "Packets discarded by a partition or raw filter",
            "counters/port_rcv_constraint_errors",
        ),
        _plain(
            "local_link_integrity_errors",
            "Times local physical errors passed their threshold",
            "counters/local_link_integrity_errors",
        ),
        _plain(
            "excessive_buffer_overrun_errors",
            "Times the input buffer overran in consecutive flow-control periods",
            "counters/excessive_buffer_overrun_errors",
        ),
        _plain("vl15_dropped", "Subnet management packets dropped for lack of buffers", "counters/VL15_dropped"),
        _plain(
            "transmit_wait_ticks",
            "Ticks with data to send and nothing sent; a tick's length depends on the device, and the register "
            "sticks at 2^32-1",
            "counters/port_xmit_wait",
        ),
        _plain("ecn_marked_packets", "Packets received with the congestion mark", _DRIVER),
        _plain("cnp_sent", "Congestion notifications sent", _DRIVER),
        _plain("cnp_handled", "Congestion notifications received and obeyed", _DRIVER),
        _plain("cnp_ignored", "Congestion notifications received and not obeyed", _DRIVER),
        _plain("out_of_sequence", "Packets received out of order (expected with adaptive routing)", _DRIVER),
        _plain("packet_sequence_errors", "Sequence-error NAKs received", _DRIVER),
        _plain("ack_timeouts", "Acknowledgement timers that ran out", _DRIVER),
        _plain("retransmits", "Retransmissions", _DRIVER),
        _plain("rnr_nak_retries", "Receiver-not-ready NAKs received", _DRIVER),
        _plain("icrc_errors", "RoCE packets received with a wrong ICRC", _DRIVER),
        _plain("out_of_buffer", "Packets dropped because the receiver had posted no buffer", _DRIVER),
    )
)
SATURATED = gauge(
    "port_counter_saturated",
    "1 for a counter that stands at its ceiling, where increase() is blind; absent for the others. "
    "`counter` is the sysfs file.",
    CounterLabels,
)
VENDOR = counter(
    "port_vendor_counter_total",
    "A counter file that checks.infiniband.vendor_counters chose, raw. From <group>/<counter>.",
    VendorLabels,
)

NOT_ERRORS = {*BYTES, "receive_packets", "transmit_packets"}
MIN_LIKE = 2
"""Like ports that must agree before a rate is expected of the others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator says of ports. `expected_rates` is bytes/s by role."""

    rules: Sequence[NicRule] = ()
    expected_rates: Mapping[Role, float] | None = None


Assignments = Mapping[tuple[str, int], Assignment]


@dataclass(frozen=True, slots=True)
class Standing:
    """What stays the same from poll to poll, by port of a reading: its labels, its role, what is expected of it."""

    assignments: tuple[Assignment, ...]
    expected: tuple[float | None, ...]
    ports: tuple[PortLabels, ...]
    rails: tuple[RailLabels, ...]
    infos: tuple[InfoLabels, ...]


class InfinibandCheck:
    """Reads the ports, and remembers the last reading and the rails. `remember` is called with what is new.

    `gpu_numbers` gives the numbers of the GPUs that were read so far, by PCI address.
    """

    def __init__(
        self,
        source: PortSource,
        settings: Settings,
        memory: Memory,
        remember: Callable[[Memory], None],
        gpu_numbers: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._source = source
        self._settings = settings
        self._memory = memory
        self._remember = remember
        self._gpu_numbers = gpu_numbers
        self._last: tuple[float, Ports] | None = None
        self._standing: tuple[object, Standing] | None = None

    def run(self, now: float) -> Report:
        """See checks.base.Check."""
        try:
            reading = self._source.read()
        except Unavailable:
            self._last = None
            raise
        standing = self._stand(reading)
        last, self._last = self._last, (now, reading)
        return Report(
            tuple(samples(reading, standing)),
            reading.faults,
            partial(links, reading, standing, last, now),
        )

    def _stand(self, reading: Ports) -> Standing:
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
            expected = expected_rates(reading.ports, assignments, self._settings.expected_rates or {})
            self._standing = basis, stand(reading, assignments, expected)
        return self._standing[1]


def stand(reading: Ports, assignments: Assignments, expected: Mapping[str, float]) -> Standing:
    """Put together what stands still of each port."""
    given = tuple(assignments[port.device.name, port.number] for port in reading.ports)
    names = [(port.device.name, str(port.number)) for port in reading.ports]
    return Standing(
        given,
        tuple(expected.get(port.subject) for port in reading.ports),
        tuple(PortLabels(*name) for name in names),
        tuple(
            RailLabels(*name, assignment.role.value, assignment.rail_label)
            for name, assignment in zip(names, given, strict=True)
        ),
        tuple(_info(port, assignment) for port, assignment in zip(reading.ports, given, strict=True)),
    )


def samples(reading: Ports, standing: Standing) -> list[Sample]:
    """Everything a reading says in numbers."""
    found: list[Sample] = []
    fixed = zip(reading.ports, standing.ports, standing.rails, standing.infos, standing.expected, strict=True)
    for port, labels, rail, about, expected in fixed:
        found.append(INFO(about, 1))
        found += _state_samples(port, labels, rail, expected)
        counters = port.counters
        found += [Sample(COUNTERS[name], labels, value) for name, value in counters.items() if name not in BYTES]
        found += [Sample(metric, rail, counters[name]) for name, metric in BYTES.items() if name in counters]
        found += [SATURATED(CounterLabels(*labels, file), 1) for file in port.saturated]
        found += [VENDOR(VendorLabels(*labels, of.group, of.file), of.value) for of in port.vendor]
    return found


def links(reading: Ports, standing: Standing, last: tuple[float, Ports] | None, now: float) -> tuple[LinkRow, ...]:
    """Each port as people see it, beside the reading before it (`last`, with its time)."""
    seconds = now - last[0] if last else 0.0
    before = {port.subject: port for port in last[1].ports} if last else {}
    fixed = zip(reading.ports, standing.assignments, standing.expected, strict=True)
    return tuple(
        _link(port, assignment, expected, before.get(port.subject), seconds, reading.faults)
        for port, assignment, expected in fixed
    )


def expected_rates(
    ports: Sequence[Port], assignments: Assignments, configured: Mapping[Role, float]
) -> Mapping[str, float]:
    """Bytes/s that each port should run at, by subject; a port is not in it where nothing is known.

    The operator's figure for the role; else the commonest rate among the active ports of the same role, link
    layer and model, where more than half of them, and at least two, agree.
    """
    rates: dict[tuple[Role, str, str], list[float]] = defaultdict(list)
    for port in ports:
        if port.rate is not None:
            rates[_likeness(port, assignments)].append(port.rate)
    usual = {}
    for like, seen in rates.items():
        rate, agreeing = Counter(seen).most_common(1)[0]
        if agreeing >= MIN_LIKE and agreeing * 2 > len(seen):
            usual[like] = rate
    found = {}
    for port in ports:
        like = _likeness(port, assignments)
        rate_or_none = configured.get(like[0], usual.get(like))
        if rate_or_none is not None:
            found[port.subject] = rate_or_none
    return found


def _likeness(port: Port, assignments: Assignments) -> tuple[Role, str, str]:
    role = assignments[port.device.name, port.number].role
    return role, port.link_layer, port.device.hca_type


def _state_samples(port: Port, labels: PortLabels, rail: RailLabels, expected: float | None) -> Iterator[Sample]:
    if port.state is not None:
        yield UP(rail, int(port.active))
        yield STATE_ID(labels, port.state)
    if port.physical_state is not None:
        yield PHYSICAL_STATE_ID(labels, port.physical_state)
    if port.rate is not None:
        yield RATE(rail, port.rate)
    if expected is not None:
        yield EXPECTED_RATE(rail, expected)


def _info(port: Port, assignment: Assignment) -> InfoLabels:
    device = port.device
    return InfoLabels(
        device=device.name,
        port=str(port.number),
        link_layer=port.link_layer,
        driver=device.driver,
        netdev=port.netdev,
        pci_address=device.pci_address,
        numa_node="" if device.numa_node is None else str(device.numa_node),
        board_id=device.board_id,
        hca_type=device.hca_type,
        firmware_version=device.firmware_version,
        node_guid=device.node_guid,
        gpu=assignment.gpu,
        cage=assignment.cage,
        leaf=assignment.leaf,
        virtual=str(device.virtual).lower(),
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
        state=_state_text(port),
        rate=port.rate,
        expected=expected,
        receive=receive,
        transmit=transmit,
        utilisation=busiest / port.rate if busiest is not None and port.rate else None,
        moved=tuple((name, amount) for name, amount in moved.items() if amount and name not in NOT_ERRORS),
        notes=tuple(_notes(port, expected, faults)),
        facts={name: value for name, value in _info(port, assignment)._asdict().items() if value},
    )


def _moved(name: str, before: Port, after: Port) -> int | None:
    wraps_at = moduli(after.device.driver).get(name)
    return delta(before.counters.get(name), after.counters.get(name), wraps_at).amount


def _per_second(amount: int | None, seconds: float) -> float | None:
    return amount / seconds if amount is not None and seconds > 0 else None


def _state_text(port: Port) -> str:
    if port.state is None:
        return "unknown"
    state = STATES.get(port.state, str(port.state))
    physical = PHYSICAL_STATES.get(port.physical_state or 0, "")
    return state if port.active or not physical else f"{state} ({physical})"


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
