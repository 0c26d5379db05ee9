"""RoCE detail: pauses, the physical layer, drops, the PCIe under the NIC. From ethtool statistics and sysfs."""

from collections.abc import Iterator
from typing import NamedTuple

from exporter.checks.base import Keeper, Report
from exporter.checks.port_labels import PortLabels
from exporter.hardware.base import PortDetailSource
from exporter.history import History
from exporter.judge.detail import DetailScene, counted, judge_detail, subject
from exporter.judge.views import PortViews
from exporter.metrics import Metric, Sample, counter, gauge
from exporter.model import PortDetail, PortDetails

NAME = "roce"


class PriorityLabels(NamedTuple):
    """A priority of a port, 0 to 7; `all` where the driver counts frames of all together."""

    device: str
    port: str
    priority: str


class SeverityLabels(NamedTuple):
    """`warning`: paused for long; `error`: for so long that the NIC stopped pausing, and drops."""

    device: str
    port: str
    severity: str


class DeviceLabels(NamedTuple):
    """A device."""

    device: str


_ETHTOOL = "From ethtool statistics, by the driver's own name; under a bond the sum of its slaves"
_RECEIVED = "which the network asked this node for"
_TRANSMITTED = "which this node asked the network for, being the slower one"
PRIORITY = {
    name: counter(f"port_{name}_total", f"{what}, priorities in use only. {_ETHTOOL}.", PriorityLabels)
    for name, what in {
        "pfc_pause_received_frames": f"PFC frames of pauses {_RECEIVED}",
        "pfc_pause_transmitted_frames": f"PFC frames of pauses {_TRANSMITTED}",
        "pfc_pause_received_seconds": f"Time that a priority stood still in pauses {_RECEIVED}",
        "pfc_pause_transmitted_seconds": f"Time that a priority stood still in pauses {_TRANSMITTED}",
    }.items()
}
STORMS = {
    "pause_storm_events": counter(
        "port_pause_storm_events_total", f"Times this node paused the network for long. {_ETHTOOL}.", SeverityLabels
    )
}
COUNTERS = {
    name: counter(f"port_{name}_total", f"{what}. {_ETHTOOL}.", PortLabels)
    for name, what in {
        "pause_received_frames": f"Frames of link-level pauses {_RECEIVED}",
        "pause_transmitted_frames": f"Frames of link-level pauses {_TRANSMITTED}",
        "pause_received_seconds": f"Time that the link stood still in pauses {_RECEIVED}",
        "pause_transmitted_seconds": f"Time that the link stood still in pauses {_TRANSMITTED}",
        "phy_bits": "Bits received by the physical layer: what errors are a share of",
        "phy_corrected_bits": "Bits that FEC corrected: no harm, but a cable that ages",
        "phy_symbol_errors": "Symbol errors that FEC could not correct: traffic lost",
        "phy_link_down_events": "Times the link went down",
        "netdev_receive_discards": "Frames dropped on arrival for lack of buffers",
        "netdev_transmit_discards": "Frames dropped on the way out: link down, or paused for too long",
        "netdev_out_of_buffer": "Frames dropped because the network stack had posted no buffer; no RDMA traffic",
    }.items()
}
TEMPERATURE = gauge(
    "port_module_temperature_celsius",
    "Temperature of the transceiver module; absent where none is plugged in. From the driver's hwmon folder.",
    PortLabels,
)
STALLED = {
    "pcie_read_stalled": gauge(
        "nic_pcie_read_stalled_ratio",
        "Share of the last second in which the NIC had reads for the host and no PCIe credits. From mlx5's "
        "outbound_pci_stalled_rd.",
        DeviceLabels,
    ),
    "pcie_write_stalled": gauge(
        "nic_pcie_write_stalled_ratio",
        "Share of the last second in which the NIC had writes for the host and no PCIe credits. From mlx5's "
        "outbound_pci_stalled_wr.",
        DeviceLabels,
    ),
}
BANDWIDTH = gauge(
    "nic_pcie_bandwidth_bytes_per_second",
    "What the slowest PCIe link under the NIC carries each way as it is trained now. From current_link_speed and "
    "current_link_width along the path.",
    DeviceLabels,
)
MAX_BANDWIDTH = gauge(
    "nic_pcie_max_bandwidth_bytes_per_second",
    "What the slowest PCIe link under the NIC could carry each way. From max_link_speed and max_link_width along "
    "the path.",
    DeviceLabels,
)


class RoceCheck:
    """Reads the ports' details and judges them beside what the port check tells (`views`)."""

    def __init__(self, source: PortDetailSource, views: PortViews | None = None, keeper: Keeper | None = None) -> None:
        self._source = source
        self._views = views or PortViews()
        self._keeper = keeper
        self._history = History()
        self._hot: frozenset[str] = frozenset()
        if keeper is not None:
            keeper.recall(NAME, self._history.load)

    def run(self, now: float) -> Report:
        """See checks.base.Check."""
        reading = self._source.read()
        for port in reading.ports:
            self._history.note(now, subject(port), counted(port), {})
        self._history.keep_only(subject(port) for port in reading.ports)
        scene = DetailScene(now, reading.ports, reading.paths, self._history, self._views.look(), self._hot)
        findings = tuple(judge_detail(scene))
        self._hot = frozenset(finding.subject for finding in findings if finding.reason == "module_hot")
        if self._keeper is not None:
            self._keeper.keep(NAME, self._history.dump, urgent=False)
        return Report(tuple(_samples(reading)), reading.faults, findings=findings)


def _samples(reading: PortDetails) -> Iterator[Sample]:
    stalled: dict[tuple[Metric[DeviceLabels], DeviceLabels], float] = {}
    for port in reading.ports:
        yield from _port(port)
        for (name, _), value in port.gauges.items():
            key = STALLED[name], DeviceLabels(port.device.name)
            stalled[key] = max(stalled.get(key, 0.0), value)
    for (metric, labels), value in stalled.items():
        yield metric(labels, value)
    for path in reading.paths:
        labels = DeviceLabels(path.device)
        if path.current is not None:
            yield BANDWIDTH(labels, path.current)
        if path.maximum is not None:
            yield MAX_BANDWIDTH(labels, path.maximum)


def _port(port: PortDetail) -> Iterator[Sample]:
    device, number = port.device.name, str(port.number)
    for (name, label), value in port.counters.items():
        if name in PRIORITY:
            yield PRIORITY[name](PriorityLabels(device, number, label), value)
        elif name in STORMS:
            yield STORMS[name](SeverityLabels(device, number, label), value)
        else:
            yield COUNTERS[name](PortLabels(device, number), value)
    if port.temperature is not None:
        yield TEMPERATURE(PortLabels(device, number), port.temperature)
