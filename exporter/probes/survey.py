"""Looks at the node for the gate: several polls before a probe, one at a time while it runs, one after it."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

from exporter.hardware.base import PortSource
from exporter.hardware.gpu_load import GpuLoad, LoadSource
from exporter.history import delta
from exporter.model import Port, Ports, SourceError, Unavailable
from exporter.probes.gate import Allocations, NicLoad, Refusal, Situation, work
from exporter.probes.launch import Stop

POLLS = 3
PAUSE = 1.0
"""Seconds between polls: NVML's utilisation is over the last one."""
WATCH_SECONDS = 0.4
DEAF_SECONDS = 3.0
"""How long a source may fail while a probe runs before that counts as work: opening a CUDA context can hold up NVML."""
HOST_PIDS = "pid:[4026531836]"
"""The PID namespace of the host is made with this number (PROC_PID_INIT_INO in include/linux/proc_ns.h)."""


class Scheduler(Protocol):
    """Who was given this node, or a GPU of it."""

    def holders(self) -> tuple[str, ...]:
        """Their names. Raises Unavailable where there is no such scheduler, SourceError where it can't be asked."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The sources; `schedulers` by name. `pause` waits so many seconds; `wanted` picks the ports whose traffic counts.

    `unknown` is as in gate.work.
    """

    schedulers: Mapping[str, Scheduler]
    load: LoadSource
    ports: PortSource
    pause: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    unknown: int = 0
    wanted: Callable[[Ports], Sequence[Port]] = lambda reading: reading.ports

    def idle(self) -> Situation:
        """Everything, over several polls."""
        seen = [self._look()]
        nothing = seen[0][0].gpus is None and not seen[0][1]
        for _ in range(0 if nothing else POLLS - 1):
            self.pause(PAUSE)
            seen.append(self._look())
        first, last = seen[0], seen[-1]
        situations = [situation for situation, _, _ in seen]
        failures = {failure for situation in situations for failure in situation.failures}
        worst = [situation for situation in situations if any(_against(situation))]
        chosen = worst[0] if worst else last[0]
        gpus = None if chosen.gpus is None else tuple(_highest(gpu, situations) for gpu in chosen.gpus)
        nics = tuple(_nic_loads(first[1], last[1], last[2] - first[2]))
        return replace(chosen, gpus=gpus, nics=nics, failures=tuple(sorted(failures)))

    def now(self) -> Situation:
        """Who uses the node, once; the NICs are not looked at."""
        allocations, failures = [], []
        for name, scheduler in self.schedulers.items():
            try:
                allocations.append(Allocations(name, scheduler.holders()))
            except Unavailable:
                continue
            except SourceError as error:
                allocations.append(Allocations(name, failure=str(error)))
        gpus: tuple[GpuLoad, ...] | None = None
        try:
            gpus = self.load.read()
        except Unavailable:
            pass
        except SourceError as error:
            failures.append(("nvml", str(error)))
        return Situation(tuple(allocations), gpus, failures=tuple(failures))

    def _look(self) -> tuple[Situation, tuple[Port, ...], float]:
        situation = self.now()
        try:
            ports = tuple(self.wanted(self.ports.read()))
        except Unavailable:
            ports = ()
        except SourceError as error:
            ports = ()
            situation = replace(situation, failures=(*situation.failures, ("ports", str(error))))
        return situation, ports, self.clock()


class Watch:
    """Looks for work while a probe runs, in a thread of its own, and stops the probe when there is some.

    `group` is the probe's process group, once it is known.
    """

    def __init__(self, survey: Survey, stop: Stop) -> None:
        self._survey = survey
        self._stop = stop
        self._over = Event()
        self._group = 0
        self._ours: frozenset[int] = frozenset()
        self._deaf_since: float | None = None
        self.found: Refusal | None = None
        self._thread = Thread(target=self._run, name="probe-watch", daemon=True)
        self._thread.start()

    def follow(self, group: int) -> None:
        """The processes of this group are the probe's own."""
        self._group = group

    def end(self) -> Refusal | None:
        """Stop looking, look once more (unless the probe was stopped for another reason), and say what was found."""
        self._over.set()
        self._thread.join(DEAF_SECONDS + 2.0)
        if self.found is None and not self._stop.reason:
            self.found = next(work(self._survey.now(), self._ours, self._survey.unknown), None)
        return self.found

    def _run(self) -> None:
        while not self._over.wait(WATCH_SECONDS):
            situation = self._survey.now()
            self._ours |= self._own(situation)
            reasons = list(work(situation, self._ours, self._survey.unknown))
            heard = [reason for reason in reasons if not reason.reason.endswith("_unreadable")]
            if heard:
                self._tell(heard[0])
                return
            now = self._survey.clock()
            self._deaf_since = (self._deaf_since or now) if reasons else None
            if reasons and self._deaf_since is not None and now - self._deaf_since >= DEAF_SECONDS:
                self._tell(reasons[0])
                return

    def _own(self, situation: Situation) -> frozenset[int]:
        """Those of the processes on the GPUs that belong to the probe's group."""
        shown = {pid for gpu in situation.gpus or () for pid in gpu.processes}
        return frozenset(pid for pid in shown if self._group and _group_of(pid) == self._group)

    def _tell(self, refusal: Refusal) -> None:
        self.found = refusal
        self._stop.set(refusal.reason)


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def unknown_processes(proc: Path = Path("/proc")) -> int:
    """How many processes a GPU may show that can't be told from the probe's own: one in a PID namespace of our own."""
    try:
        return 0 if os.readlink(proc / "self" / "ns" / "pid") == HOST_PIDS else 1  # noqa: PTH115 - not a path: `pid:[N]`
    except OSError:
        return 1


def _against(situation: Situation) -> list[Refusal]:
    return list(work(situation, frozenset(), 0))


def _highest(gpu: GpuLoad, situations: list[Situation]) -> GpuLoad:
    """A GPU with the highest utilisation and memory of all polls, and all processes seen."""
    same = [other for one in situations for other in one.gpus or () if other.number == gpu.number]
    used = [other.utilisation for other in same if other.utilisation is not None]
    memory = [other.memory for other in same if other.memory is not None]
    processes = sorted({pid for other in same for pid in other.processes})
    return replace(
        gpu,
        utilisation=max(used, default=None),
        memory=max(memory, default=None),
        processes=tuple(processes),
        failure=next((other.failure for other in same if other.failure), ""),
    )


def _nic_loads(before: tuple[Port, ...], after: tuple[Port, ...], seconds: float) -> list[NicLoad]:
    """The busier direction of each port whose rate and counters are known."""
    earlier = {port.subject: port for port in before}
    found = []
    for port in after:
        known = earlier.get(port.subject)
        if known is None or not port.rate or seconds <= 0:
            continue
        moved = [
            change.amount
            for name in ("receive_bytes", "transmit_bytes")
            if (change := delta(known.counters.get(name), port.counters.get(name))).amount is not None
        ]
        if moved:
            found.append(NicLoad(port.subject, max(moved) / seconds / port.rate))
    return found
