"""What runs on the GPUs: asked of NVML in a process of its own, only while a probe is considered or runs."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from exporter.hardware import nvml_codes as codes
from exporter.hardware.child import Child, ChildEndedError, own
from exporter.hardware.nvml_presence import library_is_there
from exporter.model import SourceError, Unavailable

ARGV = own("exporter.hardware.nvml_worker", "load")
SECONDS = 1.0
FIRST_SECONDS = 10.0
"""The first answer includes NvmlInit, which takes seconds where no process keeps the driver awake."""
MAX_ABANDONED = 2
"""Hung workers that may be left behind before no new one is started: who asks again and again piles up none."""


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """One GPU: its compute processes, utilisation in percent and used memory in bytes; None where it does not say.

    nvmlDeviceGetComputeRunningProcesses, ...UtilizationRates, ...MemoryInfo, ...MigMode. `failure` is why who uses
    it can't be known, or ''.
    """

    number: int
    uuid: str = ""
    processes: tuple[int, ...] = ()
    utilisation: int | None = None
    memory: int | None = None
    mig: bool = False
    failure: str = ""
    pci_address: str = ""

    @property
    def subject(self) -> str:
        """`gpu3`."""
        return f"gpu{self.number}"


class LoadSource(Protocol):
    """Who uses the GPUs."""

    def read(self) -> tuple[GpuLoad, ...]:
        """Every GPU, now. Raises Unavailable where there is no NVML, SourceError where it does not answer in time."""

    def close(self) -> None:
        """Let go of NVML."""


class Worker(Protocol):
    """See child.Child."""

    def ask(self, request: bytes, seconds: float) -> bytes:
        """A line for a line."""

    def close(self, seconds: float = 0.0) -> bool:
        """End it; whether it has ended."""

    @property
    def alive(self) -> bool:
        """Whether it may still run."""


class NvmlLoad:
    """See LoadSource. The process is started by the first read. One thread reads at a time; another may close."""

    def __init__(
        self,
        start: Callable[[], Worker] = lambda: Child(ARGV),
        present: Callable[[], bool] = library_is_there,
    ) -> None:
        self._start = start
        self._present = present
        self._worker: Worker | None = None
        self._answered: Worker | None = None
        self._abandoned: list[Worker] = []

    def read(self) -> tuple[GpuLoad, ...]:
        """See LoadSource."""
        worker = self._worker
        if worker is None:
            if not self._present():
                raise Unavailable("no NVML")
            self._abandoned = [old for old in self._abandoned if old.alive]
            if len(self._abandoned) >= MAX_ABANDONED:
                raise SourceError("timeout", f"NVML hangs in {len(self._abandoned)} workers of earlier looks")
            worker = self._worker = self._start()
        try:
            answer = worker.ask(b"load\n", SECONDS if self._answered is worker else FIRST_SECONDS)
            message = json.loads(answer)
            init = int(message["init"])
            gpus = tuple(_gpu(raw) for raw in message["gpus"])
        except TimeoutError as error:
            raise SourceError("timeout", "NVML does not answer") from error
        except ChildEndedError as error:
            raise SourceError("worker_died", f"the NVML worker {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError("bad_answer", f"the NVML worker said nonsense: {error}") from error
        self._answered = worker
        if init in (codes.DRIVER_NOT_LOADED, codes.LIBRARY_NOT_FOUND):
            raise Unavailable(codes.reason(init))
        if init:
            raise SourceError(codes.reason(init), codes.reason(init))
        return gpus

    def close(self) -> None:
        """See LoadSource."""
        worker, self._worker, self._answered = self._worker, None, None
        if worker is not None and not worker.close(2.0):
            self._abandoned.append(worker)


def _gpu(raw: dict[str, object]) -> GpuLoad:
    pids = raw["pids"]
    if not isinstance(pids, list):
        raise TypeError("pids")
    used, memory = raw["utilisation"], raw["memory"]
    return GpuLoad(
        int(str(raw["index"])),
        str(raw["uuid"]),
        tuple(int(pid) for pid in pids),
        None if used is None else int(str(used)),
        None if memory is None else int(str(memory)),
        bool(raw["mig"]),
        str(raw["failure"]),
        str(raw["pci"]),
    )
