"""What the ports' check says in numbers: every metric, and the samples of a reading."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporter.checks.port_labels import CounterLabels, FlapLabels, InfoLabels, PortLabels, RailLabels, VendorLabels
from exporter.judge.links import FLAP_WINDOW
from exporter.life import DAY, Life
from exporter.metrics import Metric, Sample, counter, gauge, info
from exporter.model import Port, Ports
from exporter.peers import likeness
from exporter.rails import Assignment, key

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
EVER_UP = gauge(
    "port_ever_up",
    "1 if the port was ever ACTIVE, in this boot or an earlier one; 0 for one that has never been. From "
    "ports/<n>/state, remembered in the state folder.",
    PortLabels,
)
FLAPS = gauge(
    "port_flaps",
    "How often the link went down in the last 10 minutes and 24 hours, this program's restarts included. From "
    "ports/<n>/state and counters/link_downed, whichever saw more.",
    FlapLabels,
)
RATE = gauge(
    "port_rate_bytes_per_second",
    "Negotiated rate, only while ACTIVE. From ports/<n>/rate; for Ethernet the netdev's speed where it has one.",
    RailLabels,
)
EXPECTED_RATE = gauge(
    "port_expected_rate_bytes_per_second",
    "Rate the port should have: expect.<role>.rate of the configuration, else what most like ports run at, else the "
    "most that it ran at itself in the last 7 days.",
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


@dataclass(frozen=True, slots=True)
class Standing:
    """What stays the same from poll to poll, by port of a reading: its labels, its role, what is expected of it."""

    assignments: tuple[Assignment, ...]
    expected: tuple[float | None, ...]
    ports: tuple[PortLabels, ...]
    rails: tuple[RailLabels, ...]
    infos: tuple[InfoLabels, ...]
    likes: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]
    flaps: tuple[tuple[FlapLabels, FlapLabels], ...]


def stand(reading: Ports, assignments: Mapping[tuple[str, int], Assignment], expected: Mapping[str, float]) -> Standing:
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
        tuple(about(port, assignment) for port, assignment in zip(reading.ports, given, strict=True)),
        tuple(likeness(port, assignment) for port, assignment in zip(reading.ports, given, strict=True)),
        tuple(key(port) for port in reading.ports),
        tuple((FlapLabels(*name, "10m"), FlapLabels(*name, "24h")) for name in names),
    )


def samples(reading: Ports, standing: Standing) -> list[Sample]:
    """Everything a reading says in numbers."""
    found: list[Sample] = []
    fixed = zip(reading.ports, standing.ports, standing.rails, standing.infos, standing.expected, strict=True)
    for port, labels, rail, facts, expected in fixed:
        found.append(INFO(facts, 1))
        found += _state_samples(port, labels, rail, expected)
        counters = port.counters
        found += [Sample(COUNTERS[name], labels, value) for name, value in counters.items() if name not in BYTES]
        found += [Sample(metric, rail, counters[name]) for name, metric in BYTES.items() if name in counters]
        found += [SATURATED(CounterLabels(*labels, file), 1) for file in port.saturated]
        found += [VENDOR(VendorLabels(*labels, of.group, of.file), of.value) for of in port.vendor]
    return found


def life_samples(standing: Standing, lives: Mapping[str, Life], now: float) -> list[Sample]:
    """What the life of each port, by key, says in numbers."""
    found: list[Sample] = []
    for labels, name, (short, daily) in zip(standing.ports, standing.keys, standing.flaps, strict=True):
        life = lives[name]
        found.append(EVER_UP(labels, int(life.ever_up)))
        found.append(FLAPS(short, life.fallen(now, FLAP_WINDOW)))
        found.append(FLAPS(daily, life.fallen(now, DAY)))
    return found


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


def about(port: Port, assignment: Assignment) -> InfoLabels:
    """What stands still about a port."""
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
