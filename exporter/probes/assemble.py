"""From a node's paths and settings to a prober: which sources it asks."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from exporter.hardware.base import Hardware, PortSource
from exporter.hardware.gpu_load import NvmlLoad
from exporter.hardware.pod_resources import PodGpus
from exporter.hardware.slurm import SlurmJobs
from exporter.model import Port, Ports, Role
from exporter.probes.evidence import Witness
from exporter.probes.journal import Journal
from exporter.probes.prober import Assign, Means, Prober, Settings
from exporter.probes.survey import Scheduler, Survey, unknown_processes


def make_prober(  # noqa: PLR0913 - the one place where a prober is put together
    settings: Settings,
    hardware: Hardware,
    ports: PortSource,
    assign: Assign,
    paths: Mapping[str, Path],
    job: str = "",
    others: Callable[[], Sequence[str]] = tuple,
) -> Prober:
    """`paths` are the host's `sysfs` and `proc`, and `state`. `job` is the Slurm job whose hook this is, if
    any; `others` as in Means.

    `ports` is read by other threads than those of the checks: it shares nothing with `hardware`'s.
    """
    sysfs, proc = paths["sysfs"], paths["proc"]
    schedulers: dict[str, Scheduler] = {
        "slurm": SlurmJobs(proc, sysfs / "fs" / "cgroup", job),
        "kubernetes": PodGpus(),
    }
    survey = Survey(schedulers, NvmlLoad(), ports, unknown=unknown_processes(), wanted=compute_only(assign))
    witness = Witness(ports, hardware.gpus, hardware.host, sysfs)
    means = Means(survey, witness, assign, paths["state"], str(sysfs), others)
    return Prober(settings, means, Journal(paths["state"]))


def compute_only(assign: Assign) -> Callable[[Ports], Sequence[Port]]:
    """The ports whose traffic counts: the East-West ones, not those of a file system or of ssh."""

    def wanted(reading: Ports) -> Sequence[Port]:
        roles = assign(reading)
        return [port for port in reading.ports if roles[port.device.name, port.number].role is Role.COMPUTE]

    return wanted


def of_hook(settings: Settings, seconds: float) -> Settings:
    """The same within a scheduler's patience: no phase may take longer than that."""
    patience = max(1.0, seconds - 5.0)
    limits = {name: min(getattr(settings.deadlines, name), patience) for name in ("start", "init", "connect", "run")}
    return replace(settings, deadlines=replace(settings.deadlines, **limits))


def hook_job() -> str:
    """The job for which Slurm runs this prolog or epilog."""
    return os.environ.get("SLURM_JOB_ID", "")
