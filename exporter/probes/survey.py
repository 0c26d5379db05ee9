"""Looks at the node for the gate: several polls before a probe, one at a time while it runs, one after it."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Protocol

from exporter.hardware.base import PortSource
from exporter.hardware.gpu_load import GpuLoad, LoadSource
from exporter.history import delta
from exporter.model import Port, Ports, SourceError, Unavailable
from exporter.probes.asking import Questions, never
from exporter.probes.gate import Allocations, NicLoad, Refusal, Situation, work
from exporter.probes.launch import Stop

POLLS = 3
PAUSE = 1.0
"""Seconds between polls: NVML's utilisation is over the last one."""
SLICES = 10
"""Of a pause: in between it is looked whether the probe is still wanted."""
ANSWER_SECONDS = 11.0
"""For each source before a probe: a little more than NVML has for its first answer, so that it says why itself."""
WATCH_SECONDS = 0.4
WATCH_ANSWER_SECONDS = 0.5
"""For each source while a probe runs: a job that appears is seen within the two, whatever else hangs. What answers
later counts then.
"""
LAST_SECONDS = 1.5
"""For the look after a probe: NVML and kubelet have 1 s."""
DEAF_SECONDS = 3.0
"""How long a source may fail while a probe runs before that counts as work: opening a CUDA context can hold up NVML."""
HOST_PIDS = "pid:[4026531836]"
"""The PID namespace of the host is made with this number (PROC_PID_INIT_INO in include/linux/proc_ns.h)."""


class Scheduler(Protocol):
    """Who was given this node, or a GPU of it."""

    def holders(self) -> tuple[str, ...]:
        """Their names. Raises Unavailable where there is no such scheduler, SourceError where it can't be asked."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one source gave, or all of them together: `at` is when its ports were read."""

    situation: Situation = Situation()  # noqa: RUF009 - frozen
    ports: tuple[Port, ...] = ()
    at: float = 0.0


class Survey:
    """Asks the sources, side by side; `schedulers` by name. `pause` waits so many seconds; `wanted` picks the ports
    whose traffic counts.

    `unknown` is as in gate.work.
    """

    def __init__(  # noqa: PLR0913 - the sources, and what a test has otherwise
        self,
        schedulers: Mapping[str, Scheduler],
        load: LoadSource,
        ports: PortSource,
        pause: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        unknown: int = 0,
        wanted: Callable[[Ports], Sequence[Port]] = lambda reading: reading.ports,
    ) -> None:
        self.load = load
        self.ports = ports
        self.clock = clock
        self.unknown = unknown
        self._pause = pause
        self._wanted = wanted
        self._schedulers = tuple(schedulers)
        asked = {name: partial(_holders, name, scheduler) for name, scheduler in schedulers.items()}
        self._users = (*asked, "nvml")
        self._questions: Questions[_Look] = Questions({**asked, "nvml": self._gpus, "ports": self._ports})

    def idle(self, stopped: Callable[[], object] = never, until: float | None = None) -> Situation:
        """Everything, over several polls: as many as it takes to see something against a probe.

        Ends early once it is `stopped` or `until` (by the clock) has come; what it gives then is no proof of idleness.
        """

        def over() -> bool:
            return bool(stopped()) or (until is not None and self.clock() >= until)

        seen = [self._look(over)]
        while len(seen) < POLLS and _worth_another(seen[-1]):
            for _ in range(SLICES):
                if not over():
                    self._pause(PAUSE / SLICES)
            if over():
                break
            seen.append(self._look(over))
        first, last = seen[0], seen[-1]
        situations = [look.situation for look in seen]
        failures = {failure for situation in situations for failure in situation.failures}
        gpus = last.situation.gpus
        highest = None if gpus is None else tuple(_highest(gpu, situations) for gpu in gpus)
        nics = tuple(_nic_loads(first.ports, last.ports, last.at - first.at))
        return replace(last.situation, gpus=highest, nics=nics, failures=tuple(sorted(failures)))

    def now(self, seconds: float = ANSWER_SECONDS) -> Situation:
        """Who uses the node, once; the NICs are not looked at."""
        found = dict(self._questions.each(self._users, seconds))
        return self._together(self._users, found, seconds).situation

    def users(self, seconds: float, over: Callable[[], bool], since: float) -> Iterator[tuple[str, Situation]]:
        """The same by source and as they answer, for who can't wait for all; for the rest see Questions.each."""
        for name, look in self._questions.each(self._users, seconds, over, since):
            yield name, (look or self._silent(name, seconds)).situation

    def _look(self, over: Callable[[], bool]) -> _Look:
        names = (*self._users, "ports")
        began = time.monotonic()
        found = dict(self._questions.each(names, ANSWER_SECONDS, over))
        return self._together(names, found, time.monotonic() - began)

    def _together(self, names: Sequence[str], found: Mapping[str, _Look | None], seconds: float) -> _Look:
        looks = [found.get(name) or self._silent(name, seconds) for name in names]
        situations = [look.situation for look in looks]
        return _Look(
            Situation(
                tuple(said for situation in situations for said in situation.allocations),
                next((situation.gpus for situation in situations if situation.gpus is not None), None),
                failures=tuple(failure for situation in situations for failure in situation.failures),
            ),
            looks[-1].ports,
            looks[-1].at,
        )

    def _silent(self, name: str, seconds: float) -> _Look:
        why = f"no answer in {seconds:.1f} s"
        if name in self._schedulers:
            return _Look(Situation((Allocations(name, failure=why),)))
        return _Look(Situation(failures=((name, why),)))

    def _gpus(self) -> _Look:
        try:
            return _Look(Situation(gpus=self.load.read()))
        except Unavailable:
            return _Look()
        except SourceError as error:
            return _Look(Situation(failures=(("nvml", str(error)),)))

    def _ports(self) -> _Look:
        try:
            return _Look(ports=tuple(self._wanted(self.ports.read())), at=self.clock())
        except Unavailable:
            return _Look(at=self.clock())
        except SourceError as error:
            return _Look(Situation(failures=(("ports", str(error)),)), at=self.clock())


class Watch:
    """Looks for work while a probe runs, in a thread of its own, and stops the probe when there is some.

    `unwanted` is what the operator's limits have against it by now: that stops it too, and is no work.
    """

    def __init__(self, survey: Survey, stop: Stop, unwanted: Callable[[], Sequence[Refusal]] = tuple) -> None:
        self._survey = survey
        self._stop = stop
        self._unwanted = unwanted
        self._over = Event()
        self._group = 0
        self._ours: frozenset[int] = frozenset()
        self._deaf_since: dict[str, float] = {}
        self.found: Refusal | None = None
        self._thread = Thread(target=self._run, name="probe-watch", daemon=True)
        self._thread.start()

    def follow(self, group: int) -> None:
        """The processes of this group are the probe's own."""
        self._group = group

    def end(self) -> Refusal | None:
        """Stop looking, look once more (unless the probe was stopped for another reason), and say what was found."""
        self._over.set()
        self._thread.join(WATCH_ANSWER_SECONDS + 1.0)
        if self.found is None and not self._stop.reason:
            self.found = next(work(self._survey.now(LAST_SECONDS), self._ours, self._survey.unknown), None)
        return self.found

    def _run(self) -> None:
        since = time.monotonic()
        while not self._over.wait(WATCH_SECONDS):
            if against := self._unwanted():
                self._stop.set(against[0].reason)
                return
            for source, situation in self._survey.users(WATCH_ANSWER_SECONDS, self._over.is_set, since):
                if self._over.is_set() or self._speaks_against(source, situation):
                    return

    def _speaks_against(self, source: str, situation: Situation) -> bool:
        """Whether there is work, or the source has been deaf for too long: then the probe was told to stop."""
        self._ours |= self._own(situation)
        reasons = list(work(situation, self._ours, self._survey.unknown))
        heard = [reason for reason in reasons if not reason.reason.endswith("_unreadable")]
        if not reasons:
            self._deaf_since.pop(source, None)
            return False
        now = self._survey.clock()
        if not heard and now - self._deaf_since.setdefault(source, now) < DEAF_SECONDS:
            return False
        self.found = (heard or reasons)[0]
        self._stop.set(self.found.reason)
        return True

    def _own(self, situation: Situation) -> frozenset[int]:
        """Those of the processes on the GPUs that belong to the probe's group."""
        shown = {pid for gpu in situation.gpus or () for pid in gpu.processes}
        return frozenset(pid for pid in shown if self._group and _group_of(pid) == self._group)


def _holders(name: str, scheduler: Scheduler) -> _Look:
    try:
        return _Look(Situation((Allocations(name, scheduler.holders()),)))
    except Unavailable:
        return _Look()
    except SourceError as error:
        return _Look(Situation((Allocations(name, failure=str(error)),)))


def _worth_another(look: _Look) -> bool:
    """Whether another poll may tell something: nothing speaks against a probe yet, and there is something to ask."""
    there = look.situation.gpus is not None or look.ports
    return bool(there) and not any(work(look.situation, frozenset(), 0))


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
