"""All sources of a simulated node, put together."""

from collections.abc import Callable
from pathlib import Path

from exporter.hardware.base import Hardware
from exporter.hardware.detail import Details
from exporter.hardware.portmap import PortMap
from exporter.hardware.sampler import Sampler, targets
from exporter.hardware.scenarios import Scenario
from exporter.hardware.selection import Selection
from exporter.hardware.simulated import SimulatedFiles, SimulatedHost, SimulatedPorts, Simulation
from exporter.hardware.simulated_ethtool import SimulatedEthtool
from exporter.hardware.simulated_gpus import open_gpus
from exporter.model import BurstReading, Device, Unavailable
from exporter.model_verbs import VerbsReading

BURST_WINDOW = 5.0
"""Seconds before a reading that are sampled for it: enough to show, and cheap to step through."""


class SimulatedBursts:
    """The real sampler, stepped through the scenario's own time, on a tree of its own."""

    def __init__(
        self,
        scenario: Scenario,
        root: Path,
        selection: Selection,
        elapsed: Callable[[], float],
        interval: float | None,
    ) -> None:
        self._now = self._sampled = 0.0
        self._elapsed = elapsed
        self._interval = interval
        if interval is None:
            return
        self._simulation = Simulation(scenario, root, lambda: self._now)
        self._files = SimulatedFiles(self._simulation.failures, lambda: self._now)
        self._map = PortMap(self._simulation.sysfs, selection, self._files, elapsed)
        self._sampler = Sampler(self._files, interval, lambda: self._now)

    def read(self, wanted: Callable[[Device, int], bool]) -> tuple[BurstReading, ...]:
        """See hardware.base.BurstSource."""
        if self._interval is None:
            raise Unavailable("bursts are not sampled")
        self._sampler.aim(targets(self._map.ports(), self._files, wanted))
        end = self._elapsed()
        self._now = max(self._sampled, end - BURST_WINDOW)
        while self._now < end:
            self._simulation.advance()
            self._now += self._sampler.step()
        self._sampled = self._now
        return self._sampler.take()


class SimulatedVerbs:
    """A simulated node has no device that could be opened."""

    def read(self) -> VerbsReading:
        """See hardware.base.VerbsSource."""
        raise Unavailable("simulated devices can't be opened")


def open_simulation(
    scenario: Scenario,
    root: Path,
    selection: Selection,
    elapsed: Callable[[], float],
    sample_interval: float | None = None,
) -> Hardware:
    """The sources of a simulated node, whose tree is made under `root`; `sample_interval` if bursts are wanted."""
    simulation = Simulation(scenario, root, elapsed)
    files = SimulatedFiles(simulation.failures, elapsed)
    return Hardware(
        SimulatedPorts(simulation, selection, elapsed),
        SimulatedHost(elapsed),
        Details(simulation.sysfs, selection, SimulatedEthtool(scenario, elapsed), files, elapsed),
        SimulatedBursts(scenario, root / "burst", selection, elapsed, sample_interval),
        open_gpus(scenario.gpus, simulation.sysfs, elapsed),
        SimulatedVerbs(),
    )
