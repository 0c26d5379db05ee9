"""What is read of a port, in which order, and what happens when devices come and go."""

import shutil
from pathlib import Path

import pytest

from exporter.hardware.files import Files
from exporter.hardware.gathered import MAX_VENDOR_SERIES
from exporter.hardware.selection import Selection
from exporter.hardware.sysfs import MAX_PORTS
from tests.trees import ACTIVE, HEALTHY, Clock, Recorder, by_subject, plant, put, reader

RECORDED = Path(__file__).parents[3] / "shared/data/h100-node"
ETHERNET = {**HEALTHY, "ports/1/link_layer": "Ethernet", "ports/1/rate": "40 Gb/sec (4X QDR)"}


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"recorded data is not there: {RECORDED}")
def test_recorded_h100_node() -> None:
    reading = reader(RECORDED).read()
    ports = by_subject(reading.ports)
    assert sorted(port.rate or 0 for port in ports.values()) == [25e9] + [50e9] * 8
    assert ports["mlx5_bond_0/1"].link_layer == "Ethernet"
    assert "link_downed" in ports["mlx5_1/1"].saturated
    assert reading.faults == ()
    for port in ports.values():
        raw = (RECORDED / f"class/infiniband/{port.device.name}/ports/1/counters/port_rcv_data").read_text()
        assert port.counters["receive_bytes"] == 4 * int(raw)


def test_facts_of_a_device_come_from_its_pci_function_and_never_from_its_name(tmp_path: Path) -> None:
    base = plant(
        tmp_path, {"rocep59s0f0": {**HEALTHY, "fw_ver": "28.41.1000", "node_guid": "a088:c203:0000:0090"}}, "bnxt_en"
    )
    put(base / "rocep59s0f0/device/numa_node", "1")
    (port,) = reader(tmp_path).read().ports
    device = port.device
    assert (device.driver, device.pci_address, device.numa_node) == ("bnxt_en", "0000:10:00.0", 1)
    assert (device.firmware_version, device.node_guid, device.virtual) == ("28.41.1000", "a088:c203:0000:0090", False)


def test_a_virtual_function_is_told_and_an_unknown_numa_node_is_absent(tmp_path: Path) -> None:
    base = plant(tmp_path, {"mlx5_0": HEALTHY})
    put(base / "mlx5_0/device/numa_node", "-1")
    (base / "mlx5_0/device/physfn").symlink_to("../0000:11:00.0")
    device = reader(tmp_path).read().ports[0].device
    assert (device.virtual, device.numa_node) == (True, None)


@pytest.mark.parametrize(("speed", "rate"), [("400000", 50e9), ("-1", 5e9), ("0", 5e9), ("garbage", 5e9)])
def test_for_ethernet_the_netdev_knows_the_speed_where_it_says_one(tmp_path: Path, speed: str, rate: float) -> None:
    base = plant(tmp_path, {"mlx5_0": {**ETHERNET, "ports/1/gid_attrs/ndevs/0": "eth5"}})
    put(tmp_path / "class/net/eth5/speed", speed)
    assert base.is_dir()
    (port,) = reader(tmp_path).read().ports
    assert (port.netdev, port.rate) == ("eth5", rate)


def netdevs(root: Path, **speeds: str) -> None:
    """Netdevs as the kernel has them: links to folders of their own, the old links gone."""
    for known in (root / "class/net").glob("*"):
        known.unlink()
    for name, speed in speeds.items():
        put(root / f"devices/net/{speed}/speed", speed)
        (root / "class/net").mkdir(parents=True, exist_ok=True)
        (root / "class/net" / name).symlink_to(root / f"devices/net/{speed}")


@pytest.mark.parametrize("later", ["mlx5_0", "mlx5_1", ""])
def test_netdevs_that_swap_their_names_take_their_speeds_along(tmp_path: Path, later: str) -> None:
    """Also where one of the devices is looked at anew later than the other."""
    base = plant(tmp_path, {f"mlx5_{n}": {**ETHERNET, "ports/1/gid_attrs/ndevs/0": f"eth{n}"} for n in range(2)})
    netdevs(tmp_path, eth0="400000", eth1="100000")
    clock = Clock()
    source = reader(tmp_path, clock=clock)

    def rates() -> list[float | None]:
        return [port.rate for port in source.read().ports]

    if later:
        (base / later).rename(tmp_path / "aside")
        rates()
        clock.now = 30
        (tmp_path / "aside").rename(base / later)
    assert rates() == [50e9, 12.5e9]
    netdevs(tmp_path, eth1="400000", eth0="100000")
    for device, netdev in (("mlx5_0", "eth1"), ("mlx5_1", "eth0")):
        put(base / device / "ports/1/gid_attrs/ndevs/0", netdev)
    for clock.now in (61, 66, 91, 96):
        assert rates() == [50e9, 12.5e9]


@pytest.mark.parametrize("replaced", [True, False])
def test_the_speed_of_a_netdev_does_not_outlive_its_device(tmp_path: Path, replaced: bool) -> None:
    files = {**ETHERNET, "ports/1/gid_attrs/ndevs/0": "eth0"}
    base = plant(tmp_path, {"mlx5_0": files})
    netdevs(tmp_path, eth0="400000")
    source = reader(tmp_path)
    assert source.read().ports[0].rate == 50e9
    shutil.rmtree(base / "mlx5_0")
    netdevs(tmp_path, eth0="100000")
    plant(tmp_path, {"mlx5_0" if replaced else "rocep1s0": files}, driver="")
    assert [port.rate for port in source.read().ports] == [12.5e9]


def test_netdev_of_a_two_port_device_by_dev_port(tmp_path: Path) -> None:
    files = {**ACTIVE, **{file.replace("ports/1", "ports/2"): text for file, text in ACTIVE.items()}}
    base = plant(tmp_path, {"mlx4_0": files}, "mlx4_core")
    put(base / "mlx4_0/device/net/ib0/dev_port", "0")
    put(base / "mlx4_0/device/net/ib1/dev_port", "1")
    assert [port.netdev for port in reader(tmp_path).read().ports] == ["ib0", "ib1"]


def test_a_bond_shows_its_slaves_and_its_own_speed(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_bond_0": {**ETHERNET, "ports/1/gid_attrs/ndevs/0": "bond0"}})
    for entry in ("bonding/mode", "lower_eth0/speed", "lower_eth1/speed"):
        put(tmp_path / "class/net/bond0" / entry, "x")
    put(tmp_path / "class/net/bond0/speed", "400000")
    (port,) = reader(tmp_path).read().ports
    assert (port.slaves, port.rate) == (("eth0", "eth1"), 50e9)


def test_default_routes_are_part_of_a_reading(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY})
    put(tmp_path / "proc/net/route", "h\neth0\t00000000\t1\t3\t0\t0\t0\t00000000\t0\t0\t0")
    assert reader(tmp_path).read().default_route == {"eth0"}


def test_excluded_devices_are_never_touched(tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(("mlx5_0", "mlx5_1", "mlx5_2", "rxe0"), HEALTHY))
    selection = Selection(include=["mlx5_*"], exclude=["mlx5_1"], ignored=lambda name: name == "mlx5_2")
    files = Recorder()
    assert [port.subject for port in reader(tmp_path, selection, files).read().ports] == ["mlx5_0/1"]
    assert not [path for path in files.touched if any(name in path for name in ("mlx5_1", "mlx5_2", "rxe0"))]


def test_the_file_that_renews_the_cache_is_read_before_the_others_of_its_folder(tmp_path: Path) -> None:
    names = ["rx_write_requests", "out_of_buffer", "out_of_sequence", "np_cnp_sent", "lifespan"]
    plant(tmp_path, {"mlx5_0": {**HEALTHY, **{f"ports/1/hw_counters/{name}": "12" for name in names}}})
    files = Recorder()
    source = reader(tmp_path, files=files)
    source.read()
    files.reads.clear()
    source.read()
    order = [path.rpartition("/")[2] for path in files.reads if "/hw_counters/" in path]
    assert order[0] == "rx_write_requests"
    assert order.count("rx_write_requests") == 1
    assert set(order[1:]) == {"out_of_buffer", "out_of_sequence", "np_cnp_sent"}


def test_vendor_counters_are_those_chosen_and_gauges_are_not_among_them(tmp_path: Path) -> None:
    extra = {"ports/1/hw_counters/resp_cqe_error": "5", "ports/1/hw_counters/req_cqe_error": "6"}
    gauges = {"ports/1/hw_counters/active_qps": "7", "ports/1/hw_counters/lifespan": "12"}
    plant(tmp_path, {"mlx5_0": {**HEALTHY, **extra, **gauges, "ports/1/counters/odd,32": "8"}})
    chosen = reader(tmp_path, Selection(vendor_counters=["resp_*", "odd*", "active*", "l*"])).read().ports[0].vendor
    assert [(of.group, of.file, of.value) for of in chosen] == [
        ("counters", "odd,32", 8),
        ("hw_counters", "resp_cqe_error", 5),
    ]
    assert reader(tmp_path).read().ports[0].vendor == ()


def test_ports_and_vendor_series_have_a_limit_and_more_is_a_fault(tmp_path: Path) -> None:
    many = {f"ports/{number}/state": "4: ACTIVE" for number in range(1, MAX_PORTS + 5)}
    wide = {f"ports/1/hw_counters/x{number}": "1" for number in range(MAX_VENDOR_SERIES + 1)}
    plant(tmp_path, {"hfi1_0": {**ACTIVE, **wide}, "mlx5_0": many})
    reading = reader(tmp_path, Selection(vendor_counters=["x*"])).read()
    assert len(reading.ports) == 1 + MAX_PORTS
    assert reading.ports[-1].number == MAX_PORTS
    assert sum(len(port.vendor) for port in reading.ports) == MAX_VENDOR_SERIES
    assert {fault.reason for fault in reading.faults} >= {"too_many_ports", "too_many_series"}


def test_devices_that_vanish_come_and_are_renamed_are_noticed_at_the_next_poll(tmp_path: Path) -> None:
    base = plant(tmp_path, {"mlx5_0": HEALTHY, "mlx5_1": HEALTHY})
    files = Recorder()
    source = reader(tmp_path, files=files)

    def subjects() -> list[str]:
        return [port.subject for port in source.read().ports]

    assert subjects() == ["mlx5_0/1", "mlx5_1/1"]
    (base / "mlx5_1").rename(base / "rocep1s0")
    assert subjects() == ["mlx5_0/1", "rocep1s0/1"]
    before = files.held
    shutil.rmtree(base / "rocep1s0")
    assert subjects() == ["mlx5_0/1"]
    assert files.held < before


def test_a_replaced_device_is_read_anew_at_once_and_a_replaced_file_within_a_minute(tmp_path: Path) -> None:
    base = plant(tmp_path, {"mlx5_0": HEALTHY})
    clock = Clock()
    source = reader(tmp_path, clock=clock)
    source.read()
    shutil.rmtree(base / "mlx5_0")
    plant(tmp_path, {"mlx5_0": {**HEALTHY, "hca_type": "MT4131", "ports/1/counters/link_downed": "9"}}, driver="")
    (port,) = source.read().ports
    assert (port.device.hca_type, port.counters["link_downed"]) == ("MT4131", 9)
    put(tmp_path / "new", "10")
    (tmp_path / "new").rename(base / "mlx5_0/ports/1/counters/link_downed")
    clock.now += 60
    assert source.read().ports[0].counters["link_downed"] == 10


def test_facts_that_stand_still_are_read_again_after_a_minute(tmp_path: Path) -> None:
    base = plant(tmp_path, {"mlx5_0": {**HEALTHY, "fw_ver": "1"}})
    clock = Clock()
    source = reader(tmp_path, clock=clock)
    source.read()
    (base / "mlx5_0/fw_ver").write_text("2\n")
    assert source.read().ports[0].device.firmware_version == "1"
    clock.now = 61
    assert source.read().ports[0].device.firmware_version == "2"


@pytest.mark.parametrize("budget", [0, 3, 1000])
def test_values_move_whether_or_not_descriptors_are_held(tmp_path: Path, budget: int) -> None:
    base = plant(tmp_path, {"mlx5_0": HEALTHY})
    files = Files(budget)
    source = reader(tmp_path, files=files)
    for value in (5, 6):
        (base / "mlx5_0/ports/1/counters/symbol_error").write_text(f"{value}\n")
        assert source.read().ports[0].counters["symbol_errors"] == value
    assert files.held <= budget
    files.close()
    assert files.held == 0
