"""From a configuration to a node: which checks, how often."""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from exporter.acks import Acks
from exporter.board import Judgement, Timing
from exporter.checks import CHECKS, Parts
from exporter.checks.infiniband import Settings
from exporter.checks.nvlink import NvlinkSettings
from exporter.clock import Clock
from exporter.config import Config
from exporter.hardware import parse
from exporter.hardware.base import Hardware
from exporter.hardware.files import Files
from exporter.hardware.host import boot_id
from exporter.hardware.sysfs import SysfsPorts
from exporter.judge.views import PortViews
from exporter.model import Role, Severity
from exporter.node import Node, Plan
from exporter.rails import assign
from exporter.sources import rules, selection
from exporter.state import Origin, State

if TYPE_CHECKING:
    from exporter.probes.prober import Prober
    from exporter.probes.scheduled import ScheduledProbes

PROBES = "probes"
"""The name of the check that the daemon's probes are."""
PROBES_SECONDS = 5.0
"""How often it is looked whether a probe is due."""


def node_name(config: Config, scenario: str | None) -> str:
    """The configured name, else the host's; a simulated node says that it is one."""
    return config.node.name or ("simulated" if scenario else parse.name(socket.gethostname()))


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
    settings = Settings(probes.enabled, probes.engines, probes.size, limits, probes.quiet, algorithm=probes.algorithm)
    if seconds is not None:
        settings = assemble.of_hook(settings, seconds)
    ports = SysfsPorts(paths.sysfs, paths.proc, selection(config), Files())
    folders = {"sysfs": paths.sysfs, "proc": paths.proc, "state": paths.state}
    known = rules(config)
    return assemble.make_prober(
        settings, hardware, ports, lambda reading: assign(reading, known, state.rails)[0], folders, job, others
    )
