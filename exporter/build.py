"""From a configuration to a node: which sources, which checks, how often."""

import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from exporter.acks import Acks
from exporter.board import Judgement, Timing
from exporter.checks import CHECKS, Parts
from exporter.checks.infiniband import Settings
from exporter.checks.nvlink import NvlinkSettings
from exporter.clock import Clock
from exporter.config import Config
from exporter.hardware import parse
from exporter.hardware.affinity import GpuFunctions
from exporter.hardware.base import Hardware
from exporter.hardware.child import Child
from exporter.hardware.detail import Details
from exporter.hardware.ethtool import KernelEthtool
from exporter.hardware.files import Files, raise_descriptor_limit
from exporter.hardware.host import PsutilHost, boot_id
from exporter.hardware.kernel_log import KernelLog
from exporter.hardware.nvml_client import Means, NvmlGpus
from exporter.hardware.nvml_presence import in_container, library_is_there
from exporter.hardware.sampler import Bursts
from exporter.hardware.scenarios import END, SCENARIOS
from exporter.hardware.selection import Selection
from exporter.hardware.simulated import EPOCH
from exporter.hardware.simulation import open_simulation
from exporter.hardware.sysfs import SysfsPorts
from exporter.hardware.verbs_client import Verbs
from exporter.judge.views import PortViews
from exporter.model import Role, Severity, UserError
from exporter.node import Node, Plan
from exporter.rails import NicRule, assign, ignored
from exporter.release import Release
from exporter.state import Origin, State

if TYPE_CHECKING:
    from exporter.probes.prober import Prober
    from exporter.probes.scheduled import ScheduledProbes

FIRST = ("gpu",)
"""Checks whose names for things the others show."""
PROBES = "probes"
"""The name of the check that the daemon's probes are."""
PROBES_SECONDS = 5.0
"""How often it is looked whether a probe is due."""
MARGIN = 0.9
"""Share of a check's deadline after which a source says itself that it did not answer."""


@dataclass(slots=True)
class ReplayClock:
    """A scenario's own time, moved by hand."""

    elapsed: float = 0.0

    def clock(self) -> Clock:
        """The same time as a Clock."""
        return Clock(wall=lambda: EPOCH + self.elapsed, monotonic=lambda: self.elapsed)


def node_name(config: Config, scenario: str | None) -> str:
    """The configured name, else the host's; a simulated node says that it is one."""
    return config.node.name or ("simulated" if scenario else parse.name(socket.gethostname()))


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
                start=partial(Child, (sys.executable, "-m", "exporter.hardware.nvml_worker", level)),
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


def origin(config: Config) -> Origin:
    """What the state of this machine, or of a recorded tree, belongs to."""
    return Origin(str(config.paths.sysfs), boot_id(config.paths.proc))


def judgement(config: Config, acks: Acks, patient: bool = True) -> Judgement:
    """How this node's findings become a verdict."""
    cap = config.health.severity_cap
    return Judgement(Severity(cap) if cap else None, acks.current, patient)


def build_node(  # noqa: PLR0913 - the one place where a node is put together
    config: Config,
    hardware: Hardware,
    state: State,
    clock: Clock,
    verdict: Judgement | None = None,
    probes: "ScheduledProbes | None" = None,
) -> Node:
    """The node with every check that is enabled, and the daemon's probes where it has any."""
    expected: Mapping[Role, float | None] = {
        Role.COMPUTE: config.expect.compute.rate,
        Role.STORAGE: config.expect.storage.rate,
    }
    wanted: Mapping[Role, int | None] = {
        Role.COMPUTE: config.expect.compute.ports,
        Role.STORAGE: config.expect.storage.ports,
    }
    settings = Settings(
        rules(config),
        {role: rate for role, rate in expected.items() if rate is not None},
        {role: number for role, number in wanted.items() if number is not None},
        selection(config).device,
    )
    nvlinks = NvlinkSettings(config.checks.nvlink.per_link, config.expect.nvlinks_per_gpu)
    parts = Parts(
        hardware,
        settings,
        state.rails,
        state.remember,
        lambda: state.rails,
        nvlinks,
        state,
        PortViews(),
        config.expect.gpus,
    )
    plans = {
        name: Plan(CHECKS[name](parts), Timing(check.interval, check.deadline), required=check.enabled is True)
        for name, check in config.checks.named().items()
        if check.enabled is not False
    }
    if probes is not None:
        plans[PROBES] = Plan(probes, Timing(PROBES_SECONDS, PROBES_SECONDS))
    # the daemon alone probes: a one-shot command shows what that found
    return Node(plans, clock, verdict, state, (PROBES,) if config.probes.enabled else ())


def build_prober(  # noqa: PLR0913 - as build_node
    config: Config,
    hardware: Hardware,
    state: State,
    job: str = "",
    seconds: float | None = None,
    others: Callable[[], Sequence[str]] = tuple,
) -> "Prober":
    """The probes of this machine. `job` is the Slurm job whose hook asks, `seconds` the patience of that hook.

    `others` as in probes.prober.Means.
    """
    from exporter.probes import assemble  # noqa: PLC0415 - a node without probes pays for none of it
    from exporter.probes.gate import Limits  # noqa: PLC0415 - as above
    from exporter.probes.prober import Settings  # noqa: PLC0415 - as above

    probes, paths = config.probes, config.paths
    limits = Limits(probes.min_gap, probes.budget.max_seconds_per_hour, probes.budget.max_bytes_per_hour)
    settings = Settings(probes.enabled, probes.engines, probes.size, limits, probes.quiet)
    if seconds is not None:
        settings = assemble.of_hook(settings, seconds)
    ports = SysfsPorts(paths.sysfs, paths.proc, selection(config), Files())
    folders = {"sysfs": paths.sysfs, "proc": paths.proc, "state": paths.state}
    known = rules(config)
    return assemble.make_prober(
        settings, hardware, ports, lambda reading: assign(reading, known, state.rails)[0], folders, job, others
    )


def polled_once(config: Config, scenario: str | None, watch: float = 0.0) -> Node:
    """A node after one round of its checks, and another after `watch` seconds where that is not 0.

    A simulated one after the scenario's whole history.
    """
    if scenario is None:
        state = State(config.paths.state, origin=origin(config))
        machine = Machine(Release(config.paths.state))
        verdict = judgement(config, Acks(config.paths.state), patient=False)
        try:
            node = build_node(config, machine.open(config), state, Clock(), verdict)
            _round(node)
            if watch:
                time.sleep(watch)
                _round(node)
        finally:
            state.close()
            machine.let_go()
        return node
    replay = ReplayClock()
    with tempfile.TemporaryDirectory(prefix="eastwest-") as root:
        sources = Simulated(scenario, Path(root), lambda: replay.elapsed)
        clock = replay.clock()
        state = State(None, clock=clock)
        node = build_node(config, sources.open(config), state, clock, judgement(config, Acks(None)))
        for moment, names in _turns(node):
            replay.elapsed = moment
            node.turn(names)
    return node


def _round(node: Node) -> None:
    """Every check once."""
    node.turn([name for name in node.plans if name in FIRST])
    node.turn([name for name in node.plans if name not in FIRST])


def _turns(node: Node) -> Iterator[tuple[float, list[str]]]:
    """When which checks are due, from the beginning of a scenario to its end."""
    due: dict[float, list[str]] = {}
    for name, plan in node.plans.items():
        interval = plan.timing.interval
        for count in range(int(END // interval) + 1):
            due.setdefault(END - count * interval, []).append(name)
    yield from sorted(due.items())
