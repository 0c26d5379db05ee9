"""Roles and rails: who is East-West, and a number that no fault changes."""

from collections.abc import Sequence

import pytest

from exporter.model import Device, Port, Ports, Role
from exporter.rails import Assignment, Memory, NicRule, Remembered, assign, first_match, ignored, infer_roles


def nic(
    name: str, gbit: float = 400, layer: str = "InfiniBand", board: str = "A", pci: str = "", netdev: str = ""
) -> Port:
    """An active port; 0 Gbit/s is one that is down."""
    device = Device(name, "mlx5_core", pci, board_id=board, hca_type="MT4129")
    rate = gbit * 1e9 / 8 or None
    return Port(device, 1, layer, state=4 if rate else 1, rate=rate, netdev=netdev)


COMPUTE = [nic(f"mlx5_{number}") for number in (0, 3, 4, 5, 6, 9, 10, 11)]
STORAGE = [nic("mlx5_1", 200, board="B"), nic("mlx5_7", 200, board="B")]
ETHERNET = [nic("mlx5_2", 25, "Ethernet", board="C", netdev="eth0")]


def roles(ports: Sequence[Port], route: frozenset[str] = frozenset()) -> dict[str, str]:
    inferred, _ = infer_roles(Ports(tuple(ports), default_route=route))
    return {name.removesuffix("/1"): role.value for name, role in inferred.items()}


def rails(
    ports: Sequence[Port], memory: Memory | None = None, rules: Sequence[NicRule] = ()
) -> tuple[dict[str, int | None], Memory]:
    given, grown = assign(Ports(tuple(ports)), rules, memory or {})
    return {device: assignment.rail for (device, _), assignment in given.items()}, grown


def test_the_kind_with_the_most_bandwidth_is_compute_and_the_rest_by_layer_and_speed() -> None:
    found = roles([*COMPUTE, *STORAGE, *ETHERNET])
    assert {name for name, role in found.items() if role == "compute"} == {port.device.name for port in COMPUTE}
    assert (found["mlx5_1"], found["mlx5_7"], found["mlx5_2"]) == ("storage", "storage", "management")


def test_a_default_route_makes_a_nic_management_however_fast_it_is() -> None:
    fast = nic("mlx5_bond_0", 1600, "Ethernet", "D", netdev="bond0")
    assert roles([*COMPUTE, fast], frozenset({"bond0"}))["mlx5_bond_0"] == "management"


def test_storage_does_not_become_compute_while_the_fabric_is_down_and_nothing_is_remembered_then() -> None:
    down = [nic(port.device.name, 0) for port in COMPUTE]
    assert roles([*down, *STORAGE])["mlx5_0"] == "compute"
    _, memory = rails([*down, *STORAGE])
    assert memory == {}


def test_a_kind_that_is_down_does_not_keep_the_rest_from_being_remembered() -> None:
    _, memory = rails([*COMPUTE, nic("mlx5_2", 0, "Ethernet", "C")])
    assert len(memory) == len(COMPUTE) + 1


def test_a_nic_of_which_nothing_can_be_read_keeps_its_place_and_is_not_remembered() -> None:
    blind = Port(Device("mlx5_4"), 1)
    ports = [blind if port.device.name == "mlx5_4" else port for port in COMPUTE]
    given, memory = rails([*ports, *STORAGE])
    assert given["mlx5_4"] == 2
    assert given["mlx5_5"] == 3
    assert "mlx5_4/1" not in memory
    again, _ = rails([*COMPUTE, *STORAGE], memory)
    assert again == {**{port.device.name: rail for rail, port in enumerate(COMPUTE)}, "mlx5_1": None, "mlx5_7": None}


def test_rails_are_numbered_by_pci_address_and_without_one_by_the_number_in_the_name() -> None:
    given, _ = rails(COMPUTE)
    assert given == {port.device.name: rail for rail, port in enumerate(COMPUTE)}
    turned, _ = rails([nic("mlx5_0", pci="0000:dc:00.0"), nic("mlx5_1", pci="0000:18:00.0")])
    assert turned == {"mlx5_1": 0, "mlx5_0": 1}


def test_a_port_that_is_down_keeps_its_place_from_the_start() -> None:
    given, _ = rails([nic("mlx5_0"), nic("mlx5_1", 0), nic("mlx5_2")])
    assert given == {"mlx5_0": 0, "mlx5_1": 1, "mlx5_2": 2}


def test_a_dead_nic_renumbers_nobody_and_comes_back_to_its_own_rail() -> None:
    _, memory = rails(COMPUTE)
    without, memory = rails([port for port in COMPUTE if port.device.name != "mlx5_4"], memory)
    assert without == {port.device.name: rail for rail, port in enumerate(COMPUTE) if port.device.name != "mlx5_4"}
    back, _ = rails(COMPUTE, memory)
    assert back["mlx5_4"] == 2


def test_a_new_nic_gets_a_number_that_nobody_ever_had() -> None:
    _, memory = rails(COMPUTE)
    given, _ = rails([*COMPUTE[1:], nic("mlx5_0a")], memory)
    assert given["mlx5_0a"] == len(COMPUTE)


def test_the_role_survives_the_loss_of_the_evidence() -> None:
    _, memory = rails([*COMPUTE, *STORAGE])
    given, _ = assign(Ports((nic("mlx5_0", 0), *STORAGE)), (), memory)
    assert given["mlx5_0", 1].role is Role.COMPUTE
    assert given["mlx5_1", 1].role is Role.STORAGE


def test_the_operator_decides_roles_rails_leaves_and_cages() -> None:
    rules = (
        NicRule("mlx5_1", Role.COMPUTE, rail=0, leaf="leaf-7", cage="c1"),
        NicRule("mlx5_*", Role.COMPUTE),
        NicRule("*", Role.IGNORE),
    )
    given, _ = assign(
        Ports((nic("mlx5_0"), nic("mlx5_1"), nic("irdma0"))), rules, {"mlx5_0/1": Remembered(Role.STORAGE)}
    )
    assert given["mlx5_1", 1] == Assignment(Role.COMPUTE, 0, "leaf-7", "c1")
    assert given["mlx5_0", 1] == Assignment(Role.COMPUTE, 1)
    assert given["irdma0", 1].role is Role.IGNORE


@pytest.mark.parametrize(("name", "expected"), [("mlx5_1", False), ("mlx5_9", True), ("rxe0", False)])
def test_the_first_rule_that_matches_counts(name: str, expected: bool) -> None:
    rules = (NicRule("mlx5_1", Role.COMPUTE), NicRule("mlx5_*", Role.IGNORE))
    assert ignored(rules, name) is expected
    assert (first_match(rules, "rxe0") is None) is True


def test_ports_of_one_device_are_rails_of_their_own() -> None:
    device = Device("mlx5_0", "mlx5_core", "0000:18:00.0")
    given, _ = assign(Ports(tuple(Port(device, number, "InfiniBand", 4, rate=1e9) for number in (1, 2))), (), {})
    assert [assignment.rail for assignment in given.values()] == [0, 1]


@pytest.mark.parametrize("there", [True, False])
def test_a_number_that_the_operator_gives_is_no_other_nics(there: bool) -> None:
    _, memory = rails(COMPUTE)
    rules = (NicRule("mlx5_9", Role.COMPUTE, rail=2),)
    present = COMPUTE if there else [port for port in COMPUTE if port.device.name != "mlx5_9"]
    given, memory = rails(present, memory, rules)
    kept = {port.device.name: rail for rail, port in enumerate(COMPUTE)}
    assert given == {
        port.device.name: {"mlx5_9": 2, "mlx5_4": 8}.get(port.device.name, kept[port.device.name]) for port in present
    }
    assert rails(COMPUTE, memory, rules)[0] == {**kept, "mlx5_9": 2, "mlx5_4": 8}


def test_a_new_nic_does_not_get_a_number_that_the_operator_keeps_for_another() -> None:
    given, _ = rails([nic("mlx5_0"), nic("mlx5_1")], rules=(NicRule("mlx5_7", Role.COMPUTE, rail=1),))
    assert given == {"mlx5_0": 0, "mlx5_1": 2}


def test_the_operator_may_give_one_rail_to_two_ports() -> None:
    given, _ = rails([nic("mlx5_0"), nic("mlx5_1")], rules=(NicRule("mlx5_*", Role.COMPUTE, rail=3),))
    assert given == {"mlx5_0": 3, "mlx5_1": 3}


@pytest.mark.parametrize("name", ["5\u00b2", "\u0663", "mlx5_\u0662"])
def test_a_digit_that_is_none_to_the_kernel_is_a_letter(name: str) -> None:
    given, _ = rails([nic(name), nic("mlx5_10"), nic("mlx5_9")])
    assert given["mlx5_9"] == given["mlx5_10"] - 1  # type: ignore[operator]  # both have one
