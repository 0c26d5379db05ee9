"""Sources for the gate that say what a test wants, and change when it wants."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from exporter.hardware.gpu_load import GpuLoad
from exporter.model import Device, Port, Ports, SourceError, Unavailable
from exporter.probes.survey import Survey


@dataclass
class Scheduler:
    """Holders, or an error."""

    said: tuple[str, ...] | SourceError | Unavailable = ()

    def holders(self) -> tuple[str, ...]:
        """See survey.Scheduler."""
        if isinstance(self.said, tuple):
            return self.said
        raise self.said


@dataclass
class Load:
    """GPUs, or an error; `polls` counts, `script` replaces `said` at a poll."""

    said: tuple[GpuLoad, ...] | SourceError | Unavailable = field(default_factory=lambda: gpus(2))
    script: dict[int, tuple[GpuLoad, ...]] = field(default_factory=dict)
    polls: int = 0
    closed: int = 0

    def read(self) -> tuple[GpuLoad, ...]:
        """See gpu_load.LoadSource."""
        self.polls += 1
        self.said = self.script.get(self.polls, self.said)
        if isinstance(self.said, tuple):
            return self.said
        raise self.said

    def close(self) -> None:
        """See gpu_load.LoadSource."""
        self.closed += 1


@dataclass
class PortsOf:
    """A port for each name, whose counters grow by `step` bytes a poll, at `rate` bytes/s."""

    names: Sequence[str] = ("mlx5_0", "mlx5_1")
    step: int = 0
    rate: float = 50e9
    polls: int = 0
    failure: SourceError | None = None

    def read(self) -> Ports:
        """See hardware.base.PortSource."""
        self.polls += 1
        if self.failure is not None:
            raise self.failure
        if not self.names:
            raise Unavailable("no RDMA device")
        moved = self.step * self.polls
        return Ports(
            tuple(
                Port(
                    Device(name, "mlx5_core", f"0000:{index:02x}:00.0", near_gpus=(f"0000:8{index}:00.0",)),
                    1,
                    "InfiniBand",
                    4,
                    5,
                    self.rate,
                    counters={"receive_bytes": moved, "transmit_bytes": moved // 2, "symbol_errors": 0},
                )
                for index, name in enumerate(self.names)
            )
        )


def gpus(count: int) -> tuple[GpuLoad, ...]:
    """Idle GPUs."""
    return tuple(GpuLoad(number, f"GPU-{number}", utilisation=0, memory=1 << 20) for number in range(count))


@dataclass
class Clock:
    """A time that `pause` moves."""

    now: float = 1000.0

    def pause(self, seconds: float) -> None:
        """Wait, without waiting."""
        self.now += seconds

    def read(self) -> float:
        """Seconds."""
        return self.now


def survey(load: Load, ports: PortsOf, clock: Clock, **schedulers: Scheduler) -> Survey:
    """A survey over fakes."""
    return Survey(schedulers, load, ports, clock.pause, clock.read)
