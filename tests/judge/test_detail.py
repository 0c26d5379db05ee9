"""Each reason of a port's details at its threshold."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from exporter.checks.roce import RoceCheck
from exporter.judge.views import PortView, PortViews
from exporter.model import Device, PciePath, PortDetail, PortDetails, Role

RATE, PCIE = 50e9, 63e9
Counters = Mapping[tuple[str, str], float]


class Machine:
    """Four NICs; `counters` of the second come from a function of time."""

    def __init__(self, counters: Callable[[float], Counters] = lambda _now: {}) -> None:
        self.now = 0.0
        self.counters = counters
        self.temperature: float | None = 45.0
        self.paths = [PciePath(f"mlx5_{n}", PCIE, PCIE) for n in range(4)]

    def read(self) -> PortDetails:
        """See PortDetailSource."""
        ports = [PortDetail(Device(f"mlx5_{n}"), 1, temperature=45.0) for n in range(4)]
        ports[1] = replace(ports[1], counters=self.counters(self.now), temperature=self.temperature)
        return PortDetails(tuple(ports), tuple(self.paths))


def views(used: float | None = 0.3, role: Role = Role.COMPUTE) -> PortViews:
    """What the port check says of the four."""
    told = PortViews()
    told.tell({f"mlx5_{n}/1": PortView(f"mlx5_{n}", role, n, RATE, used) for n in range(4)})
    return told


def after(machine: Machine, seconds: int, told: PortViews | None = None) -> dict[tuple[str, str], str]:
    """What stands at the end."""
    check = RoceCheck(machine, told or views())
    report = check.run(0.0)
    for now in range(15, seconds + 1, 15):
        machine.now = float(now)
        report = check.run(float(now))
    return {(one.subject, one.reason): one.severity.value for one in report.findings}


@pytest.mark.parametrize(
    ("direction", "share", "expected"),
    [
        ("transmitted", 0.6, {("mlx5_1/1", "pause_storm"): "degraded"}),
        ("transmitted", 0.2, {("mlx5_1/1", "congestion"): "info"}),
        ("received", 0.9, {("mlx5_1/1", "congestion"): "info"}),
        ("received", 0.04, {}),
    ],
)
def test_pauses(direction: str, share: float, expected: dict[tuple[str, str], str]) -> None:
    machine = Machine(lambda now: {(f"pfc_pause_{direction}_seconds", "3"): share * now})
    assert after(machine, 600) == expected


def test_a_storm_that_made_it_drop() -> None:
    machine = Machine(lambda now: {("pause_storm_events", "error"): float(now > 100)})
    assert after(machine, 200) == {("mlx5_1/1", "pause_storm"): "degraded"}
    assert after(machine, 600) == {}


@pytest.mark.parametrize(("errors", "expected"), [(1e-11, True), (1e-13, False)])
def test_bit_errors_after_correction(errors: float, expected: bool) -> None:
    bits = 4e11
    machine = Machine(lambda now: {("phy_bits", ""): bits * now, ("phy_symbol_errors", ""): bits * now * errors})
    assert after(machine, 900) == ({("mlx5_1/1", "bit_errors"): "degraded"} if expected else {})


def test_corrected_bits_are_no_errors() -> None:
    machine = Machine(lambda now: {("phy_bits", ""): 4e11 * now, ("phy_corrected_bits", ""): 4e6 * now})
    assert after(machine, 900) == {}


def test_a_hot_module_cools_down_by_some_degrees_before_it_is_over() -> None:
    machine = Machine()
    check = RoceCheck(machine, views())
    said = []
    for now, machine.temperature in enumerate((79.0, 80.0, 77.0, 76.0, 74.0, 77.0, None)):
        said.append(bool(check.run(float(now)).findings))
    assert said == [False, True, True, True, False, False, False]


@pytest.mark.parametrize(
    ("share", "used", "role", "expected"),
    [
        (0.5, 0.3, Role.COMPUTE, "critical"),
        (0.5, 0.3, Role.STORAGE, "degraded"),
        (0.85, 0.3, Role.COMPUTE, "degraded"),
        (0.995, 0.3, Role.COMPUTE, None),
        (0.5, 0.001, Role.COMPUTE, None),
        (0.5, None, Role.COMPUTE, None),
    ],
)
def test_a_pcie_path_is_judged_while_bytes_flow(
    share: float, used: float | None, role: Role, expected: str | None
) -> None:
    machine = Machine()
    machine.paths[1] = PciePath("mlx5_1", PCIE * share, PCIE)
    found = after(machine, 15, views(used, role))
    assert found == ({("mlx5_1/pcie", "pcie_downgraded"): expected} if expected else {})


def test_a_slot_that_every_nic_of_the_node_has_is_the_platform() -> None:
    machine = Machine()
    machine.paths = [PciePath(f"mlx5_{n}", PCIE * 0.9, PCIE) for n in range(4)]
    assert after(machine, 15) == {}


def test_before_the_port_check_spoke_no_path_is_judged() -> None:
    machine = Machine()
    machine.paths[1] = PciePath("mlx5_1", PCIE / 2, PCIE)
    assert after(machine, 15, PortViews()) == {}
