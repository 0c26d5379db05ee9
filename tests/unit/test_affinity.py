"""Which GPU a NIC is near to, and what that says of its role."""

import os
from pathlib import Path

import pytest

from exporter.hardware.affinity import GpuFunctions, nearest
from exporter.model import Device, Port, Ports, Role
from exporter.rails import assign, gpu_label

SWITCH = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0"
NIC = f"{SWITCH}/0000:17:00.0/0000:18:00.0"
OTHER_ROOT = "/sys/devices/pci0000:37/0000:37:01.0/0000:43:00.0"


@pytest.mark.parametrize(
    ("gpus", "near"),
    [
        ({"a": f"{SWITCH}/0000:17:02.0/0000:1b:00.0"}, ("a",)),
        (
            {"a": f"{SWITCH}/0000:17:02.0/0000:1b:00.0", "b": "/sys/devices/pci0000:15/0000:15:02.0/0000:20:00.0"},
            ("a",),
        ),
        ({"b": f"{SWITCH}/0000:17:02.0/0000:1b:00.0", "a": f"{SWITCH}/0000:17:03.0/0000:1c:00.0"}, ("a", "b")),
        ({"a": OTHER_ROOT}, ()),
        ({}, ()),
    ],
)
def test_nearest_by_bridges_and_none_beyond_the_root_complex(gpus: dict[str, str], near: tuple[str, ...]) -> None:
    assert nearest(NIC, gpus) == near


def test_a_device_without_a_pci_function_is_near_nothing() -> None:
    assert nearest("/sys/class/infiniband/rxe0/device", {"a": NIC}) == ()


def function(root: Path, name: str, uevent: str) -> None:
    folder = root / "devices/pci0000:00" / name
    folder.mkdir(parents=True)
    (folder / "uevent").write_text(uevent)
    (folder / "numa_node").write_text("1\n")
    listed = root / "bus/pci/devices"
    listed.mkdir(parents=True, exist_ok=True)
    (listed / name).symlink_to(os.path.relpath(folder, listed))


def test_gpus_are_nvidias_display_functions_that_no_virtual_machine_has(tmp_path: Path) -> None:
    function(tmp_path, "0000:01:00.0", "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\n")
    function(tmp_path, "0000:02:00.0", "DRIVER=vfio-pci\nPCI_CLASS=30200\nPCI_ID=10DE:2330\n")
    function(tmp_path, "0000:03:00.0", "DRIVER=nvidia-nvswitch\nPCI_CLASS=68000\nPCI_ID=10DE:22A3\n")
    function(tmp_path, "0000:04:00.0", "DRIVER=ast\nPCI_CLASS=30000\nPCI_ID=1A03:2000\n")
    found = GpuFunctions(tmp_path)
    assert list(found.paths()) == ["0000:01:00.0"]
    assert found.numa_node("0000:01:00.0") == 1
    assert found.numa_node("0000:99:00.0") is None
    function(tmp_path, "0000:05:00.0", "PCI_CLASS=30200\nPCI_ID=10DE:2330\n")
    assert list(found.paths()) == ["0000:01:00.0", "0000:05:00.0"]


def test_no_pci_at_all_is_no_gpu(tmp_path: Path) -> None:
    assert GpuFunctions(tmp_path).paths() == {}


def port(bus: int, *near: str) -> Port:
    device = Device(f"mlx5_{bus}", "mlx5_core", f"0000:{bus:02x}:00.0", hca_type="MT4129", board_id="X", near_gpus=near)
    return Port(device, 1, "InfiniBand", state=4, rate=50e9)


def roles(*ports: Port) -> list[Role]:
    assignments, _ = assign(Ports(ports), (), {})
    return [assignments[of.device.name, 1].role for of in ports]


def test_nics_of_one_board_are_storage_where_they_stand_apart_from_the_gpus() -> None:
    assert roles(port(1, "a"), port(2, "b"), port(3), port(4)) == [Role.COMPUTE] * 2 + [Role.STORAGE] * 2
    assert roles(port(1, "a", "b"), port(2, "c", "d"), port(3)) == [Role.COMPUTE] * 2 + [Role.STORAGE]


@pytest.mark.parametrize(
    "ports",
    [
        (port(1, "a"), port(2, "a"), port(3, "b"), port(4)),
        (port(1, "a"), port(2)),
        (port(1), port(2)),
        (port(1, "a"), port(2, "b")),
    ],
    ids=["unevenly", "one place", "no gpus", "all beside"],
)
def test_one_kind_stays_one_where_gpus_do_not_divide_it_by_design(ports: tuple[Port, ...]) -> None:
    assert set(roles(*ports)) == {Role.COMPUTE}


def test_label_of_the_gpus_near_a_nic() -> None:
    assert gpu_label(("b", "a"), {"a": 10, "b": 9}) == "9,10"
    assert gpu_label(("b", "a"), {"a": 1}) == "1"
    assert gpu_label((), {"a": 1}) == ""
