"""The burst sampler: its duty, what it counts, and the histograms that come of it."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.board import CheckView, Outcome, Snapshot, Timing
from exporter.checks.base import Report
from exporter.checks.burst import BurstCheck
from exporter.config import Config
from exporter.exposition import Exposition
from exporter.hardware.files import Files
from exporter.hardware.portmap import PortMap
from exporter.hardware.sampler import DUTY, Bursts, Sampler, targets
from exporter.hardware.selection import Selection
from exporter.metrics import Distribution, NoLabels, histogram
from exporter.model import BurstReading, Device, Role
from exporter.polled import polled_once
from exporter.rails import NicRule, Remembered
from tests.trees import HEALTHY, Clock, plant

RATE = 400 * 125_000_000


@dataclass
class Nic(Files):
    """Byte counters that rise at `rate` bytes/s; each read takes `cost` seconds of `clock`."""

    clock: Clock
    cost: float = 0.0
    rate: float = RATE / 2
    down: bool = False
    reads: int = field(default=0)

    def __post_init__(self) -> None:
        super().__init__(budget=0)

    def read(self, path: str) -> bytes:
        """As Files.read, but for the two counters."""
        if not path.endswith("_data"):
            return super().read(path)
        if self.down:
            raise OSError(5, "gone", path)
        self.clock.now += self.cost
        self.reads += 1
        return b"%d\n" % (self.clock.now * self.rate / 4)


def sampler(root: Path, clock: Clock, nic: Nic) -> Sampler:
    plant(root, {"mlx5_0": HEALTHY})
    found = targets(PortMap(root, Selection(), Files(), clock).ports(), Files(), lambda _device, _number: True)
    made = Sampler(nic, 0.1, clock)
    made.aim(found)
    return made


def steps(made: Sampler, clock: Clock, count: int) -> None:
    for _ in range(count):
        pause = made.step()
        clock.now += pause


@pytest.mark.parametrize(("cost", "interval"), [(0.0001, 0.1), (0.002, 0.4), (0.05, 10.0)])
def test_reads_take_a_hundredth_of_the_wall_time_however_slow(tmp_path: Path, cost: float, interval: float) -> None:
    clock = Clock(1.0)
    nic = Nic(clock, cost)
    made = sampler(tmp_path, clock, nic)
    began = clock.now
    steps(made, clock, 20)
    assert nic.reads * cost <= DUTY * (clock.now - began) * 1.000001
    assert clock.now - began == pytest.approx(20 * interval)


def test_utilisation_falls_into_its_bucket_and_the_peak_begins_anew(tmp_path: Path) -> None:
    clock = Clock(1.0)
    nic = Nic(clock)
    made = sampler(tmp_path, clock, nic)
    steps(made, clock, 11)
    (reading,) = made.take()
    assert reading.receive.counts == (0, 0, 0, 10, 0, 0, 0, 0, 0)
    assert reading.receive.total == pytest.approx(5.0, rel=1e-3)
    assert reading.receive.peak == pytest.approx(RATE / 2, rel=1e-3)
    assert reading.interval == pytest.approx(0.1)
    (again,) = made.take()
    assert again.receive.peak is None
    assert again.receive.counts == reading.receive.counts


def test_samples_too_far_apart_are_no_bursts(tmp_path: Path) -> None:
    clock = Clock(1.0)
    made = sampler(tmp_path, clock, Nic(clock, cost=0.01))
    steps(made, clock, 5)
    (reading,) = made.take()
    assert sum(reading.receive.counts) == 0
    assert reading.receive.peak is None


def test_unreadable_and_reset_counters_are_no_samples(tmp_path: Path) -> None:
    clock = Clock(1.0)
    nic = Nic(clock)
    made = sampler(tmp_path, clock, nic)
    steps(made, clock, 1)
    nic.down = True
    steps(made, clock, 1)
    nic.down = False
    steps(made, clock, 1)
    nic.rate /= 100
    steps(made, clock, 1)
    (reading,) = made.take()
    assert sum(reading.receive.counts) == 0


def test_thread_samples_while_somebody_reads(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_0": HEALTHY})
    bursts = Bursts(tmp_path, Selection(), Files(), 0.01)
    end = time.monotonic() + 10
    while not (found := bursts.read(lambda _device, _number: True)) or sum(found[0].receive.counts) < 3:
        assert time.monotonic() < end
        threading.Event().wait(0.02)
    assert found[0].receive.counts[0] == sum(found[0].receive.counts)
    assert found[0].receive.peak == 0.0


class Source:
    """Notes which ports are wanted."""

    def __init__(self) -> None:
        self.wanted: list[bool] = []

    def read(self, wanted: Callable[[Device, int], bool]) -> tuple[BurstReading, ...]:
        """See hardware.base.BurstSource."""
        devices = (Device("mlx5_0", pci_address="0000:18:00.0"), Device("mlx5_1"), Device("eth7"), Device("new"))
        self.wanted = [wanted(device, 1) for device in devices]
        return ()


def test_only_compute_ports_are_sampled() -> None:
    source = Source()
    memory = {"0000:18:00.0/1": Remembered(Role.COMPUTE, 0), "mlx5_1/1": Remembered(Role.STORAGE)}
    BurstCheck(source, [NicRule("eth*", Role.COMPUTE)], lambda: memory).run(0.0)
    assert source.wanted == [True, False, True, False]


SIZES = histogram("test_size_ratio", "Sizes.", NoLabels, (0.5, 1.0))


@pytest.mark.parametrize("openmetrics", [False, True])
def test_histogram_is_what_the_parsers_read(openmetrics: bool) -> None:
    report = Report((SIZES(NoLabels(), Distribution((3, 2, 1), 4.25)),))
    outcome = Outcome("x", "ok", report, 0.0, 0.0, 0.0)
    snapshot = Snapshot(0.0, 0.0, (CheckView("x", Timing(1, 1), outcome, outcome),), {}, True)
    text = Exposition("n", "", process=False).render(snapshot, openmetrics).decode()
    families = parse_openmetrics(text) if openmetrics else parse_text(text)  # type: ignore[no-untyped-call]  # no types there
    (family,) = [family for family in families if family.name == "eastwest_test_size_ratio"]
    assert family.type == "histogram"
    assert {(s.name.removeprefix(family.name), s.labels.get("le")): s.value for s in family.samples} == {
        ("_bucket", "0.5"): 3,
        ("_bucket", "1.0"): 5,
        ("_bucket", "+Inf"): 6,
        ("_sum", None): 4.25,
        ("_count", None): 6,
    }


def test_histogram_is_declared_by_the_law() -> None:
    with pytest.raises(ValueError, match="ascend"):
        histogram("x_ratio", "X.", NoLabels, (1.0, 0.5))
    with pytest.raises(ValueError, match="suffixes"):
        histogram("x_count", "X.", NoLabels, (1.0,))


def test_simulated_node_shows_its_bursts_when_asked() -> None:
    others = {name: {"enabled": False} for name in ("host", "roce", "gpu", "nvlink")}
    config = Config.model_validate({"checks": {"burst": {"enabled": True, "interval": "5m"}, **others}})
    reports = polled_once(config, "healthy").board.snapshot().reports()
    shares = [s for r in reports for s in r.samples if s.metric.name == "eastwest_port_receive_utilization_ratio"]
    assert len(shares) == 8
    assert all(isinstance(share.value, Distribution) and sum(share.value.counts) > 40 for share in shares)


def test_bursts_are_off_by_default() -> None:
    assert "burst" not in polled_once(Config(), "bare").plans
