"""RoCE detail: each driver's own names become ours, of the priorities in use; PCIe paths; modules."""

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from exporter.checks.roce import RoceCheck
from exporter.hardware.detail import Details
from exporter.hardware.files import Files
from exporter.hardware.hwmon import celsius
from exporter.hardware.pcie import PathBandwidth, bandwidth, path_bandwidth
from exporter.hardware.selection import Selection
from exporter.hardware.simulated_ethtool import Row, answer
from exporter.model import PortDetail, PortDetails
from tests.trees import ACTIVE, COUNTERS, Clock, Recorder, plant, put

ETHERNET = {**ACTIVE, "ports/1/link_layer": "Ethernet", "ports/1/gid_attrs/ndevs/0": "eth0"}
BUS = "0000:10:00.0"


@dataclass
class Netdevs:
    """Netdevs by name, all on one bus address; `errnos` are those that fail."""

    rows: Mapping[str, Sequence[Row]]
    bus: str = BUS
    errnos: Mapping[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def ioctl(self, netdev: str, request: bytearray) -> None:
        """See hardware.base.EthtoolSource."""
        self.asked.append(netdev)
        number = self.errnos.get(netdev) or (0 if netdev in self.rows else errno.ENODEV)
        if number:
            raise OSError(number, os.strerror(number), netdev)
        answer(request, "x", self.bus, self.rows[netdev], 0.0)


def details(root: Path, netdevs: Netdevs, files: Files | None = None, clock: Clock | None = None) -> Details:
    return Details(root, Selection(), netdevs, files or Files(), clock or Clock())


def only(reading: PortDetails) -> PortDetail:
    (port,) = reading.ports
    return port


def zeros(*patterns: str) -> list[Row]:
    return [(pattern % priority, 0) for pattern in patterns for priority in range(8)]


MLX5 = [
    ("rx_prio3_pause", 12),
    ("rx_prio3_pause_duration", 2_500_000),
    ("tx_prio3_pause", 0),
    ("tx_prio3_pause_duration", 0),
    ("tx_pause_storm_error_events", 2),
    ("rx_bits_phy", 1 << 60),
    ("rx_pcs_symbol_err_phy", 3),
    ("rx_prio5_bytes", 99),
    ("outbound_pci_stalled_rd", 40),
]
BNXT = [
    *zeros(
        "rx_pfc_ena_frames_pri%d", "tx_pfc_ena_frames_pri%d", "pfc_pri%d_rx_duration_us", "pfc_pri%d_tx_duration_us"
    ),
    ("rx_bits", 5),
]
IONIC = [*zeros("frames_rx_pri_%d", "rx_pripause_%d_1us_count", "tx_pripause_%d_1us_count"), ("frames_rx_pripause", 6)]


def changed(rows: Sequence[Row], **values: int) -> list[Row]:
    return [(name, values.get(name, value)) for name, value in rows]


@pytest.mark.parametrize(
    ("driver", "rows", "counters", "gauges"),
    [
        (
            "mlx5_core",
            MLX5,
            {
                ("pfc_pause_received_frames", "3"): 12,
                ("pfc_pause_received_seconds", "3"): 2.5,
                ("pfc_pause_transmitted_frames", "3"): 0,
                ("pfc_pause_transmitted_seconds", "3"): 0,
                ("pause_storm_events", "error"): 2,
                ("phy_bits", ""): 1 << 60,
                ("phy_symbol_errors", ""): 3,
            },
            {("pcie_read_stalled", ""): 0.4},
        ),
        ("bnxt_en", BNXT, {("phy_bits", ""): 5}, {}),
        (
            "bnxt_en",
            changed(BNXT, pfc_pri4_rx_duration_us=1_000_000),
            {
                ("phy_bits", ""): 5,
                ("pfc_pause_received_frames", "4"): 0,
                ("pfc_pause_transmitted_frames", "4"): 0,
                ("pfc_pause_received_seconds", "4"): 1,
                ("pfc_pause_transmitted_seconds", "4"): 0,
            },
            {},
        ),
        ("ionic", changed(IONIC, frames_rx_pri_3=10**9), {("pfc_pause_received_frames", "all"): 6}, {}),
        ("irdma", MLX5, {}, {}),
    ],
    ids=["mlx5", "bnxt idle", "bnxt priority 4", "ionic traffic is no pause", "unknown driver"],
)
def test_each_drivers_names(
    tmp_path: Path,
    driver: str,
    rows: Sequence[Row],
    counters: Mapping[tuple[str, str], float],
    gauges: Mapping[tuple[str, str], float],
) -> None:
    plant(tmp_path, {"rdma0": ETHERNET}, driver)
    netdevs = Netdevs({"eth0": rows})
    port = only(details(tmp_path, netdevs).read())
    assert (port.counters, port.gauges) == (counters, gauges)
    assert bool(netdevs.asked) == (driver != "irdma")


def test_priority_once_in_use_stays_through_a_reset(tmp_path: Path) -> None:
    plant(tmp_path, {"bnxt_re0": ETHERNET}, "bnxt_en")
    netdevs = Netdevs({"eth0": changed(BNXT, rx_pfc_ena_frames_pri4=9)})
    source = details(tmp_path, netdevs)
    assert only(source.read()).counters["pfc_pause_received_frames", "4"] == 9
    netdevs.rows = {"eth0": BNXT}
    assert only(source.read()).counters["pfc_pause_received_frames", "4"] == 0


def bonded(root: Path) -> None:
    plant(root, {"mlx5_bond_0": {**ETHERNET, "ports/1/gid_attrs/ndevs/0": "bond0"}})
    bond = root / "class/net/bond0"
    for name in ("bonding", "lower_eth0", "lower_eth1"):
        (bond / name).mkdir(parents=True)


def test_slaves_of_a_bond_are_asked_and_added(tmp_path: Path) -> None:
    bonded(tmp_path)
    netdevs = Netdevs({"eth0": MLX5, "eth1": changed(MLX5, outbound_pci_stalled_rd=60)})
    port = only(details(tmp_path, netdevs).read())
    assert set(netdevs.asked) == {"eth0", "eth1"}
    assert port.counters["phy_symbol_errors", ""] == 6
    assert port.gauges["pcie_read_stalled", ""] == 0.6


def test_sum_without_one_slave_is_no_sum(tmp_path: Path) -> None:
    bonded(tmp_path)
    reading = details(tmp_path, Netdevs({"eth0": MLX5, "eth1": MLX5}, errnos={"eth1": errno.EIO})).read()
    assert only(reading).counters == {}
    assert [(fault.subject, fault.reason) for fault in reading.faults] == [("mlx5_bond_0/1", "eio")]


def test_namesake_in_another_namespace_is_not_asked_for_its_numbers(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": ETHERNET})
    reading = details(tmp_path, Netdevs({"eth0": MLX5}, bus="0000:99:00.0")).read()
    assert only(reading).counters == {}
    assert reading.faults == ()


def test_one_netdev_gone_is_a_fault_beside_the_other(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": ETHERNET, "mlx5_1": {**ETHERNET, "ports/1/gid_attrs/ndevs/0": "eth1"}})
    netdevs = Netdevs({"eth0": MLX5})
    reading = details(tmp_path, netdevs).read()
    assert [(fault.subject, fault.reason) for fault in reading.faults] == [("mlx5_1/1", "enodev")]
    assert reading.ports[0].counters


def test_a_netdev_that_goes_is_a_fault_once_it_stays_away(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": ETHERNET, "mlx5_1": {**ETHERNET, "ports/1/gid_attrs/ndevs/0": "eth1"}})
    netdevs = Netdevs({"eth0": MLX5, "eth1": MLX5}, bus="")
    source = details(tmp_path, netdevs)
    told = []
    for gone in (False, True, False, True, True):
        netdevs.errnos = {"eth1": errno.ENODEV} if gone else {}
        told.append(len(source.read().faults))
    assert told == [0, 0, 0, 0, 1]


def test_port_that_refuses_its_counters_is_left_alone(tmp_path: Path) -> None:
    """A port of the Fabric Manager: every ethtool reading would be lines in the kernel log."""
    plant(tmp_path, {"mlx5_0": {**ETHERNET, **COUNTERS, "ports/1/link_layer": "Ethernet"}})
    netdevs = Netdevs({"eth0": MLX5})
    files = Recorder(errnos={"link_downed": errno.EINVAL})
    source = details(tmp_path, netdevs, files)
    for _ in range(5):
        assert only(source.read()).counters == {}
    assert netdevs.asked == []
    assert sum(path.endswith("link_downed") for path in files.reads) == 3


def test_metrics_are_named_and_labelled(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": ETHERNET})
    function = tmp_path / "devices/pci0000:00" / BUS
    for which in ("current", "max"):
        put(function / f"{which}_link_speed", "32.0 GT/s PCIe")
        put(function / f"{which}_link_width", "16")
    put(function / "hwmon/hwmon3/temp1_label", "asic")
    put(function / "hwmon/hwmon3/temp1_input", "61000")
    put(function / "hwmon/hwmon3/temp2_label", "Module0")
    put(function / "hwmon/hwmon3/temp2_input", "47250")
    report = RoceCheck(details(tmp_path, Netdevs({"eth0": MLX5}))).run(0.0)
    got = {(sample.metric.name.removeprefix("eastwest_"), sample.labels[1:]): sample.value for sample in report.samples}
    assert got["port_pfc_pause_received_seconds_total", ("1", "3")] == 2.5
    assert got["port_pause_storm_events_total", ("1", "error")] == 2
    assert got["port_phy_symbol_errors_total", ("1",)] == 3
    assert got["port_module_temperature_celsius", ("1",)] == 47.25
    assert got["nic_pcie_read_stalled_ratio", ()] == 0.4
    assert got["nic_pcie_bandwidth_bytes_per_second", ()] == 16 * 3.94e9


@pytest.mark.parametrize(
    ("speed", "width", "expected"),
    [
        (b"32.0 GT/s PCIe\n", b"16\n", 16 * 3.94e9),
        (b"8 GT/s\n", b"8\n", 8 * 0.985e9),
        (b"2.5 GT/s PCIe", b"1", 0.25e9),
        (b"Unknown", b"16", None),
        (b"32.0 GT/s PCIe", b"0", None),
        (b"32.0 GT/s PCIe", b"63", None),
        (b"32.0 GT/s PCIe", b"255", None),
        (b"33.0 GT/s PCIe", b"16", None),
        (b"", b"", None),
    ],
)
def test_bandwidth_of_a_link(speed: bytes, width: bytes, expected: float | None) -> None:
    assert bandwidth(speed, width) == expected


Hop = tuple[str, str] | None
X16, X8 = ("32.0 GT/s PCIe", "16"), ("32.0 GT/s PCIe", "8")


@pytest.mark.parametrize(
    ("root", "switch", "nic", "expected"),
    [
        (X16, X16, X16, 16 * 3.94e9),
        (X8, X16, X16, 8 * 3.94e9),
        (None, None, X8, 8 * 3.94e9),
        (X16, ("Unknown", "0"), X16, None),
        (X16, X16, None, None),
    ],
    ids=["full", "riser", "host bridge alone", "switch unknown", "nic says nothing"],
)
def test_slowest_link_of_the_path_counts(tmp_path: Path, root: Hop, switch: Hop, nic: Hop, expected: float) -> None:
    folder = tmp_path / "devices/pci0000:00"
    for name, hop in (("0000:00:01.0", root), ("0000:01:00.0", switch), ("0000:02:00.0", nic)):
        folder = folder / name
        folder.mkdir(parents=True)
        if hop:
            for which in ("current", "max"):
                put(folder / f"{which}_link_speed", hop[0])
                put(folder / f"{which}_link_width", hop[1])
    link, virtual = tmp_path / "device", tmp_path / "devices/pci0000:00/0000:02:00.1"
    link.symlink_to(folder)
    assert path_bandwidth(Files(), str(link)) == PathBandwidth(expected, expected)
    virtual.mkdir()
    (virtual / "physfn").symlink_to(folder)
    assert path_bandwidth(Files(), str(virtual)) == PathBandwidth(expected, expected)


def test_refused_link_register_is_unknown(tmp_path: Path) -> None:
    function = tmp_path / "0000:02:00.0"
    for which in ("current", "max"):
        put(function / f"{which}_link_speed", X16[0])
        put(function / f"{which}_link_width", X16[1])
    files = Recorder(errnos={"current_link_width": errno.EINVAL})
    assert path_bandwidth(files, str(function)) == PathBandwidth(None, 16 * 3.94e9)


@pytest.mark.parametrize(
    ("raw", "expected"), [(b"47250\n", 47.25), (b"-5000", -5.0), (b"0", None), (b"nan", None), (b"999999", None)]
)
def test_module_temperature(raw: bytes, expected: float | None) -> None:
    assert celsius(raw) == expected


def test_a_port_that_refused_now_and_then_is_asked_on(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": {**ETHERNET, **COUNTERS}})
    netdevs, files = Netdevs({"eth0": MLX5}), Recorder()
    source = details(tmp_path, netdevs, files)
    for _ in range(4):
        files.errnos = {"link_downed": errno.EINVAL}
        assert only(source.read()).counters == {}
        files.errnos = {}
        assert only(source.read()).counters
