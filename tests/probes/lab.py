"""A prober over fakes: its launches are what a test says, and it has a clock of its own."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from exporter.model import CpuTimes, Ports, Role, Unavailable
from exporter.model_gpu import Gpu, Gpus, NvLink
from exporter.probes.evidence import Witness
from exporter.probes.journal import Journal, Lock
from exporter.probes.launch import Stop
from exporter.probes.prober import Means, Prober, Settings
from exporter.probes.protocol import Flow, Outcome, Spec
from exporter.rails import Assignment, Subject
from tests.probes.fakes import Clock, Load, PortsOf, Scheduler, survey

LOCK = f"\0eastwest-test-{id(object())}"


@dataclass
class Gpus2:
    """Two GPUs whose links move a million bytes and an error at each reading."""

    reads: int = 0

    def read(self) -> Gpus:
        """See hardware.base.GpuSource."""
        self.reads += 1
        link = NvLink(3, 1, self.reads * 10**6, self.reads * 10**6, errors={"crc_flit": self.reads})
        throttle = {"power": 1.5 * self.reads}
        return Gpus((Gpu(0, "GPU-0", driver_version="580.1", links=(link,), throttle=throttle),))

    def numbers(self) -> dict[str, int]:
        """See hardware.base.GpuSource."""
        return {}


class Host:
    """Processors of which a tenth is stolen."""

    def __init__(self) -> None:
        self._reads = 0

    def cpu_times(self) -> CpuTimes:
        """See hardware.base.HostSource."""
        self._reads += 1
        return CpuTimes(100.0 * self._reads, 10.0 * self._reads, 2.0 * self._reads)


def by_order(reading: Ports) -> dict[Subject, Assignment]:
    """Every port is compute, its rail its place."""
    return {(port.device.name, port.number): Assignment(Role.COMPUTE, rail) for rail, port in enumerate(reading.ports)}


def good(spec: Spec, rate: float = 300e9) -> Outcome:
    """What a probe gives where all is well."""
    if spec.scope == "intra":
        flows = [
            Flow("allreduce", spec.size, (spec.size * 1.75 / rate,) * 5, factor=1.75, transport="P2P", moved=10**9)
        ]
        if rate < spec.slow_below:
            flows += [Flow("sendrecv", spec.size, (1e-3,) * 5, *ends) for ends in (("gpu0", "gpu1"), ("gpu1", "gpu0"))]
    else:
        one, other = (nic.subject for nic in spec.nics)
        flows = [
            Flow("sendrecv", spec.size, (spec.size / 48e9,) * 5, one, other, transport="NET/IB", moved=10**6),
            Flow("sendrecv", spec.size, (spec.size / 24e9,) * 5, other, one, transport="NET/IB", moved=10**6),
            Flow("latency", 8, (2e-6,), one, other),
        ]
    return Outcome(spec, "ok", flows=tuple(flows), phases={"init": 1.5, "run": 0.2}, seconds=2.0, phase="end")


@dataclass
class Lab:
    """Everything at hand, and what was launched."""

    state: Path | None = None
    settings: Settings = field(default_factory=lambda: Settings(enabled=True, engines=("nccl", "rdma")))
    load: Load = field(default_factory=Load)
    ports: PortsOf = field(default_factory=lambda: PortsOf(step=10**7))
    slurm: Scheduler = field(default_factory=lambda: Scheduler(Unavailable("no slurmd")))
    clock: Clock = field(default_factory=lambda: Clock(1_700_000_000.0))
    launched: list[Spec] = field(default_factory=list)
    gives: Callable[[Spec, Stop], Outcome] = lambda spec, _: good(spec)
    others: tuple[str, ...] = ()

    def prober(self) -> Prober:
        """A new one on the same state, as after a restart."""
        looked = survey(self.load, self.ports, self.clock, slurm=self.slurm)
        means = Means(
            looked,
            Witness(self.ports, Gpus2(), Host(), Path("/nonexistent")),
            by_order,
            self.state,
            others=lambda: self.others,
            launch=self._launch,
            wall=self.clock.read,
            clock=self.clock.read,
            lock=lambda: Lock(LOCK),
        )
        return Prober(self.settings, means, Journal(self.state))

    def limit(self, **limits: Any) -> None:
        """Other limits."""
        self.settings = replace(self.settings, limits=replace(self.settings.limits, **limits))

    def _launch(
        self, spec: Spec, stop: Stop, _progress: object, keep: list[int], started: Callable[[int], None]
    ) -> Outcome:
        assert keep, "the worker holds the lock"
        started(0)
        self.launched.append(spec)
        return self.gives(spec, stop)
