"""What every source of ports promises, whichever it is: a difference found on hardware is first written here."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.hardware.base import PortSource
from exporter.hardware.scenarios import SCENARIOS
from exporter.hardware.selection import Selection
from exporter.hardware.simulation import open_simulation
from exporter.hardware.sysfs import SysfsPorts
from exporter.model import ACTIVE, Unavailable
from tests.trees import HEALTHY, plant, reader

RECORDED = Path(__file__).parents[3] / "shared/data/h100-node"
Opener = Callable[[Path], PortSource]


def planted(folder: Path) -> PortSource:
    plant(folder, {"mlx5_0": HEALTHY, "mlx5_1": {**HEALTHY, "ports/1/state": "1: DOWN"}})
    return reader(folder)


def recorded(_folder: Path) -> PortSource:
    if not RECORDED.is_dir():
        pytest.skip(f"recorded data is not there: {RECORDED}")
    return reader(RECORDED)


def machine(_folder: Path) -> PortSource:
    source = SysfsPorts(Path("/sys"), Path("/proc"))
    try:
        source.read()
    except Unavailable as absent:
        pytest.skip(f"this machine has none: {absent}")
    return source


def simulated(name: str) -> Opener:
    def opener(folder: Path) -> PortSource:
        seconds = itertools.count(100)
        return open_simulation(SCENARIOS[name], folder, Selection(), lambda: float(next(seconds))).ports

    return opener


SOURCES: dict[str, Opener] = {
    "planted": planted,
    "recorded": recorded,
    "machine": machine,
    **{name: simulated(name) for name in SCENARIOS if name != "bare"},
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> PortSource:
    """Each source in turn."""
    return SOURCES[request.param](tmp_path)


def test_subjects_are_unique_and_in_the_same_order_every_time(source: PortSource) -> None:
    first, second = ([port.subject for port in source.read().ports] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first) > 0


def test_only_an_active_port_has_a_rate_and_it_is_believable(source: PortSource) -> None:
    for port in source.read().ports:
        if port.state != ACTIVE:
            assert port.rate is None
        elif port.rate is not None:
            assert 1e6 < port.rate < 1e12


def test_counters_are_not_negative_and_do_not_fall(source: PortSource) -> None:
    before, after = source.read(), source.read()
    for old, new in zip(before.ports, after.ports, strict=True):
        for name, value in old.counters.items():
            assert 0 <= value <= new.counters.get(name, value)


def test_every_fault_names_a_subject_a_reason_and_where(source: PortSource) -> None:
    reading = source.read()
    for fault in reading.faults:
        assert fault.source == "infiniband"
        assert fault.subject
        assert fault.reason.replace("_", "").isalpha()
        assert fault.detail


def test_bare_is_no_hardware(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        simulated("bare")(tmp_path).read()
