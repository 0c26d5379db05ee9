"""The GPUs as the daemon sees them: asks the NVML worker with a deadline, and replaces one that died or hangs."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol

from exporter.hardware import nvml_codes as codes
from exporter.hardware import nvml_message
from exporter.hardware.affinity import GpuFunctions
from exporter.hardware.child import ChildEndedError
from exporter.hardware.nvml_presence import LIBRARY
from exporter.model import Fault, Released, SourceError, Unavailable
from exporter.model_gpu import Gpu, Gpus

SHARED_SECONDS = 1.0
"""Checks that ask this soon after another get the same reading."""
HUNG_SECONDS = 60.0
"""A call that takes longer is taken to hang for good: the driver's own timeouts are 45 s."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
CLOSE_SECONDS = 2.0
MAX_ABANDONED = 2
"""Hung workers that may be left behind before no new one is started."""
STRIKES = 3
"""Failures in a row, of a kind that no new worker cures in a container, until the daemon gives up."""
WATCHED_XIDS = (74, 79)
"""Shown as 0 before they happen, so that an increase can be seen: NVLink error, fallen off the bus."""


class Worker(Protocol):
    """Answers requests, in another process or simulated."""

    def ask(self, request: bytes, seconds: float) -> bytes:
        """A line for a line. Raises TimeoutError, ChildEndedError."""

    def close(self, seconds: float = 0.0) -> bool:
        """Tell it to end; whether it did."""

    @property
    def alive(self) -> bool:
        """Whether it may still run."""


@dataclass(frozen=True, slots=True)
class Means:
    """What the client works with. `present` says whether there is a library at all, without loading it.

    `released` says whether NVML is to be left alone now. `give_up` ends the daemon so that its container is made
    anew; None where that would not help. `clock` is monotonic seconds, `deadline` seconds one reading may take.
    """

    start: Callable[[], Worker]
    present: Callable[[], bool]
    released: Callable[[], bool]
    functions: GpuFunctions
    clock: Callable[[], float]
    deadline: float
    give_up: Callable[[str], None] | None = None


class NvmlGpus:
    """See hardware.base.GpuSource. Safe to ask from several threads."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._lock = Lock()
        self._last: tuple[float, Gpus | SourceError | Unavailable] | None = None
        self._worker: Worker | None = None
        self._abandoned: list[Worker] = []
        self._hung_since: float | None = None
        self._failures = 0
        self._strikes = 0
        self._not_before = 0.0
        self._why: SourceError | Unavailable = SourceError("worker_died", "the NVML worker has not been started")
        self._away = False
        self._known: dict[str, Gpu] = {}
        self._xids: Counter[tuple[str, int]] = Counter()
        self._xids_of_worker: Counter[tuple[str, int]] = Counter()
        self._watched: set[str] = set()

    def read(self) -> Gpus:
        """See hardware.base.GpuSource."""
        if not self._lock.acquire(timeout=self._means.deadline):
            raise _hangs()
        said: Gpus | SourceError | Unavailable
        try:
            clock = self._means.clock
            if self._last is None or not 0 <= clock() - self._last[0] < SHARED_SECONDS:
                try:
                    said = self._read()
                except (SourceError, Unavailable) as error:
                    said = error
                self._last = clock(), said  # when it ended: whoever waited for a hanging call is told at once
            said = self._last[1]
        finally:
            self._lock.release()
        if isinstance(said, Gpus):
            return said
        raise said

    def numbers(self) -> Mapping[str, int]:
        """See hardware.base.GpuSource."""
        return {gpu.pci_address: gpu.number for gpu in list(self._known.values())}

    def close(self) -> bool:
        """Let go of NVML, now or as soon as the call that runs comes back; whether nothing holds it any more."""
        if not self._lock.acquire(timeout=CLOSE_SECONDS):
            return False
        try:
            self._shut(CLOSE_SECONDS)
            self._last = None
            self._abandoned = [worker for worker in self._abandoned if worker.alive]
            return not self._abandoned
        finally:
            self._lock.release()

    def _read(self) -> Gpus:
        means = self._means
        if means.released():
            raise Released("NVML is released for maintenance")
        worker = self._worker or self._start()
        if worker is None:
            return self._all_lost()
        try:
            answer = worker.ask(b"read\n", means.deadline)
        except TimeoutError:
            self._timed_out()
            raise _hangs() from None
        except ChildEndedError as error:
            self._failed(SourceError("worker_died", f"the NVML worker {error}"))
            raise self._why from error
        self._hung_since = None
        try:
            message = json.loads(answer)
            init = int(message["init"])
            gpus = tuple(self._gpus(message)) if init == codes.SUCCESS else ()
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
            self._failed(SourceError("bad_answer", f"the NVML worker said nonsense: {type(error).__name__}: {error}"))
            raise self._why from error
        if init != codes.SUCCESS:
            return self._not_opened(init, str(message.get("call", "")))
        self._judge_access(message["gpus"])
        if not message["gpus"] and not self._known:
            self._failed(Unavailable("NVML finds no GPU"))
            raise self._why
        self._failures = 0
        return self._told(message, gpus)

    def _start(self) -> Worker | None:
        """A new worker; None while known GPUs are down for want of a driver. Raises why there can be none now."""
        means = self._means
        if not means.present():
            if self._known:
                raise SourceError("library_not_found", f"{LIBRARY} is gone")
            raise Unavailable(f"no NVML: {LIBRARY} is not here")
        self._abandoned = [worker for worker in self._abandoned if worker.alive]
        if means.clock() < self._not_before or len(self._abandoned) >= MAX_ABANDONED:
            if self._away:
                return None
            raise self._why
        self._worker = means.start()
        return self._worker

    def _timed_out(self) -> None:
        now = self._means.clock()
        if self._hung_since is None:
            self._hung_since = now - self._means.deadline
        if now - self._hung_since >= HUNG_SECONDS:
            self._failed(_hangs())

    def _failed(self, why: SourceError | Unavailable) -> None:
        """Go on without this worker, and wait longer each time until the next."""
        self._shut()
        self._away = False
        self._why = why
        self._not_before = self._means.clock() + min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures = min(self._failures + 1, 10)

    def _shut(self, seconds: float = 0.0) -> None:
        """End the worker; not waited for, one that does not end by itself is among the abandoned."""
        worker, self._worker = self._worker, None
        self._hung_since = None
        self._xids += self._xids_of_worker
        self._xids_of_worker = Counter()
        if worker is not None:
            worker.close(seconds)
            self._abandoned.append(worker)

    def _not_opened(self, code: int, call: str) -> Gpus:
        """NVML could not be opened. A new worker each time: the old one has the old library mapped."""
        why = SourceError(codes.reason(code), f"{call}: {codes.reason(code)}")
        no_driver = code == codes.DRIVER_NOT_LOADED and not self._means.functions.paths()
        absent = not self._known and (code == codes.LIBRARY_NOT_FOUND or no_driver)
        self._failed(Unavailable(f"no NVML: {why}") if absent else why)
        if code == codes.VERSION_MISMATCH:
            self._strike("the driver was upgraded under this container, whose NVML is the old one")
        elif code == codes.UNKNOWN:
            self._strike("NVML answers nothing but unknown errors")
        if code in codes.GONE and self._known:
            self._away = True
            return self._all_lost()
        raise self._why

    def _judge_access(self, gpus: list[Mapping[str, Any]]) -> None:
        """Every GPU unknown at once: in a container, the devices were taken from it (nvidia-container-toolkit#48)."""
        if gpus and all(gpu.get("lost") == codes.UNKNOWN for gpu in gpus):
            self._strike("no GPU can be used any more, as after a reload of systemd")
        else:
            self._strikes = 0

    def _strike(self, what: str) -> None:
        """Where NVML has never worked a new container would be no better, only the ports unwatched meanwhile."""
        self._strikes += 1
        if self._strikes >= STRIKES and self._known and self._means.give_up is not None:
            self._means.give_up(what)

    def _gpus(self, message: Mapping[str, Any]) -> Iterator[Gpu]:
        """The GPUs that answered, by the numbers they have had since they were first seen."""
        for raw in message["gpus"]:
            if "lost" in raw:
                continue
            gpu = nvml_message.gpu(raw, message["driver"], self._means.functions.numa_node)
            known = self._known.get(gpu.uuid)
            taken = {other.number for uuid, other in self._known.items() if uuid != gpu.uuid}
            number = known.number if known else _free(gpu.number, taken)
            gpu = replace(gpu, number=number)
            self._known[gpu.uuid] = Gpu(
                number, gpu.uuid, gpu.pci_address, gpu.model, gpu.driver_version, gpu.serial, gpu.numa_node, up=False
            )
            yield gpu

    def _told(self, message: Mapping[str, Any], answered: tuple[Gpu, ...]) -> Gpus:
        """Those that answered, and those that did not, each with its Xids and faults."""
        self._watched.update(message["watched"])
        self._xids_of_worker = Counter({(uuid, xid): count for uuid, xid, count in message["xids"]})
        by_uuid = {gpu.uuid: gpu for gpu in answered}
        faults: list[Fault] = []
        for raw in message["gpus"]:
            if "lost" not in raw:
                faults += nvml_message.faults(raw, by_uuid[str(raw["uuid"])].subject)
        silent = {uuid: gpu for uuid, gpu in self._known.items() if uuid not in by_uuid}
        strangers: list[Gpu] = []
        for raw in message["gpus"]:
            if "lost" in raw:
                gpu = self._attribute(raw, silent, [*self._known.values(), *strangers])
                if gpu.uuid not in self._known:
                    strangers.append(gpu)
                silent.pop(gpu.uuid, None)
                faults += nvml_message.faults(raw, gpu.subject)
        faults += [
            Fault(nvml_message.SOURCE, gpu.subject, "gpu_lost", f"NVML no longer counts {gpu.pci_address}")
            for gpu in silent.values()
        ]
        gone = [gpu for uuid, gpu in self._known.items() if uuid not in by_uuid]
        every = sorted([*answered, *gone, *strangers], key=lambda gpu: gpu.number)
        return Gpus(tuple(replace(gpu, xids=self._xids_of(gpu.uuid)) for gpu in every), tuple(faults))

    def _attribute(self, raw: Mapping[str, Any], silent: Mapping[str, Gpu], taken: list[Gpu]) -> Gpu:
        """Which GPU it is that did not answer: by its UUID, else the silent one of that number, else a new one."""
        if (known := self._known.get(str(raw["uuid"]))) is not None:
            return known
        index = int(raw["index"])
        same = next((gpu for gpu in silent.values() if gpu.number == index), None)
        return same or Gpu(_free(index, {gpu.number for gpu in taken}), uuid="", up=False)

    def _all_lost(self) -> Gpus:
        """Every known GPU down, for the last reason there was."""
        reason = self._why.reason if isinstance(self._why, SourceError) else "unavailable"
        gpus = sorted(self._known.values(), key=lambda gpu: gpu.number)
        faults = tuple(Fault(nvml_message.SOURCE, gpu.subject, reason, str(self._why)) for gpu in gpus)
        return Gpus(tuple(replace(gpu, xids=self._xids_of(gpu.uuid)) for gpu in gpus), faults)

    def _xids_of(self, uuid: str) -> Mapping[int, int] | None:
        counted = self._xids + self._xids_of_worker
        own = {xid: count for (of, xid), count in counted.items() if of == uuid}
        return {**dict.fromkeys(WATCHED_XIDS, 0), **own} if uuid in self._watched else own or None


def _free(wanted: int, taken: set[int]) -> int:
    return wanted if wanted not in taken else next(n for n in range(len(taken) + 1) if n not in taken)


def _hangs() -> SourceError:
    return SourceError("timeout", "NVML does not answer: a call into the driver hangs")
