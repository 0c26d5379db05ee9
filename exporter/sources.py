"""What a node reads: this machine, a recorded tree of another, or a scenario, by the configuration."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from exporter.config import Config
from exporter.hardware.affinity import GpuFunctions
from exporter.hardware.base import Hardware
from exporter.hardware.child import Child, own
from exporter.hardware.detail import Details
from exporter.hardware.ethtool import KernelEthtool
from exporter.hardware.files import Files, raise_descriptor_limit
from exporter.hardware.host import PsutilHost
from exporter.hardware.kernel_log import KernelLog
from exporter.hardware.nvml_client import Means, NvmlGpus
from exporter.hardware.nvml_presence import in_container, library_is_there
from exporter.hardware.sampler import Bursts
from exporter.hardware.scenarios import SCENARIOS
from exporter.hardware.selection import Selection
from exporter.hardware.simulation import open_simulation
from exporter.hardware.sysfs import SysfsPorts
from exporter.hardware.verbs_client import Verbs
from exporter.model import UserError
from exporter.rails import NicRule, ignored
from exporter.release import Release

MARGIN = 0.9
"""Share of a check's deadline after which a source says itself that it did not answer."""


def rules(config: Config) -> tuple[NicRule, ...]:
    """`nics:` as the core knows it."""
    return tuple(NicRule(nic.match, nic.role, nic.rail, nic.leaf or "", nic.cage or "") for nic in config.nics)


def selection(config: Config) -> Selection:
    """Which devices may be touched."""
    ports = config.checks.infiniband
    return Selection(ports.include, ports.exclude, ports.vendor_counters, partial(ignored, rules(config)))


class Sources(Protocol):
    """Opens what a node reads."""

    def open(self, config: Config) -> Hardware:
        """The sources, by this configuration."""

    def renew(self) -> None:
        """Share nothing with what was opened before: a run may hang in it."""

    def let_go(self) -> bool:
        """Close what keeps a driver from being replaced; whether nothing holds it any more."""


class Machine:
    """This machine, or a recorded tree of another, by `paths`. Descriptors and NVML outlive a new configuration.

    `give_up` ends the daemon for a reason that only a new container cures.
    """

    def __init__(self, release: Release | None = None, give_up: Callable[[str], None] | None = None) -> None:
        self._files = Files(raise_descriptor_limit())
        self._release = release or Release(None)
        self._give_up = give_up if in_container() else None
        self._gpus: tuple[object, NvmlGpus] | None = None

    def open(self, config: Config) -> Hardware:
        """See Sources."""
        paths = config.paths
        chosen = selection(config)
        return Hardware(
            SysfsPorts(paths.sysfs, paths.proc, chosen, self._files),
            PsutilHost(paths.proc),
            Details(paths.sysfs, chosen, KernelEthtool(), Files(), time.monotonic),
            Bursts(paths.sysfs, chosen, Files(), config.checks.burst.sample_interval),
            self._open_gpus(config),
            Verbs(paths.sysfs, chosen, MARGIN * config.checks.verbs.deadline),
            KernelLog(),
        )

    def renew(self) -> None:
        """See Sources."""
        self._files = Files(raise_descriptor_limit())

    def let_go(self) -> bool:
        """See Sources."""
        return self._gpus is None or self._gpus[1].close()

    def _open_gpus(self, config: Config) -> NvmlGpus:
        """The GPUs; those already open where the configuration asks for the same."""
        links, gpus = config.checks.nvlink, config.checks.gpu
        level = "off" if links.enabled is False else links.per_link
        deadline = MARGIN * min(links.deadline, gpus.deadline)
        wanted = level, deadline, config.paths.sysfs
        if self._gpus is None or self._gpus[0] != wanted:
            self.let_go()
            means = Means(
                start=partial(Child, own("exporter.hardware.nvml_worker", level)),
                present=library_is_there,
                released=self._release.active,
                functions=GpuFunctions(config.paths.sysfs),
                clock=time.monotonic,
                deadline=deadline,
                give_up=self._give_up,
            )
            self._gpus = wanted, NvmlGpus(means)
        return self._gpus[1]


class Simulated:
    """A scenario, each time anew in a folder under `root`."""

    def __init__(self, name: str, root: Path, elapsed: Callable[[], float]) -> None:
        scenario = SCENARIOS.get(name)
        if scenario is None:
            raise UserError(f"--simulate: no scenario {name!r}; `--simulate help` lists them")
        self._scenario = scenario
        self._root = root
        self._elapsed = elapsed
        self._opened = 0

    def open(self, config: Config) -> Hardware:
        """See Sources."""
        self._opened += 1
        root = self._root / str(self._opened)
        burst = config.checks.burst
        sample_interval = None if burst.enabled is False else burst.sample_interval
        return open_simulation(self._scenario, root, selection(config), self._elapsed, sample_interval)

    def renew(self) -> None:
        """See Sources: nothing is shared."""

    def let_go(self) -> bool:
        """See Sources: there is no driver."""
        return True
