"""The daemon's side of a probe: start the worker, follow it, hold it to its deadlines, and leave nothing behind."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, get_args

from exporter.hardware.child import ChildEndedError, Group, own
from exporter.probes.protocol import ABORT, PHASES, Flow, Outcome, Phase, Spec, Verdict, read_flow

WORKER = own("exporter.probes.worker")
KILL_SECONDS = 3.0
"""Seconds for a killed group to be gone; one that is stuck in the kernel stays longer."""
PASSED = ("PATH", "HOME", "LD_LIBRARY_PATH", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")
"""What a worker has of the daemon's environment: nothing of NCCL's, CUDA's or a scheduler's."""
MAX_FLOWS = 4096
Progress = Callable[[Phase], None]


class Stop:
    """Told once, from any thread, that a probe is to end; `reason` says why. Close it after."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._lock = RLock()  # a signal's handler may come while it is held
        self._closed = False
        self.reason = ""

    @property
    def descriptor(self) -> int:
        """Can be read once it was told."""
        return self._reader

    def set(self, reason: str) -> None:
        """End the probe."""
        with self._lock:
            if not self.reason and not self._closed:
                self.reason = reason
                os.write(self._writer, b"x")

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            self._closed = True
            os.close(self._reader)
            os.close(self._writer)


@dataclass(slots=True)
class _Seen:
    """What the worker has told so far."""

    phase: Phase = "start"
    entered: bool = False
    phases: dict[str, float] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    end: tuple[Verdict, str, str] | None = None
    drained: bool = False


@contextmanager
def interrupts_held(stop: Stop) -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM are an order to stop, and take their usual way after: a probe that one of them ends is
    aborted in order, and kept as what it was. A second one is not held. In another thread than the main one, which
    alone has signals, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in found.items() if handler not in (None, signal.SIG_IGN)}
    held: list[int] = []

    def told(number: int, _frame: object) -> None:
        held.append(number)
        stop.set("interrupted")
        if len(held) > 1:
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, told)
    try:
        yield
    finally:
        restore()
    if held:
        signal.raise_signal(held[0])


def environment(inherited: Mapping[str, str]) -> Mapping[str, str]:
    """The worker's environment."""
    return {name: inherited[name] for name in PASSED if name in inherited}


def measure(  # noqa: PLR0913 - `keep`, `started` and `argv` are seldom given
    spec: Spec,
    stop: Stop,
    progress: Progress = lambda _: None,
    keep: Sequence[int] = (),
    started: Callable[[int], None] = lambda _: None,
    argv: Sequence[str] = WORKER,
) -> Outcome:
    """Run one probe to its end, in this thread. Never raises for what the worker does.

    `keep` are descriptors that the worker holds while it lives, `started` is given its process group.
    """
    began, clock = time.time(), time.monotonic()
    seen = _Seen()
    outcome = Outcome(spec, "error", began=began)
    try:
        group = Group((*argv, spec.dump()), environment(os.environ), keep)
    except ChildEndedError as error:
        return replace(outcome, reason="no_worker", message=str(error))
    left = 0
    try:
        started(group.pid)
        result, reason, message = _follow(group, spec, stop, seen, progress)
    finally:
        # whatever cut it short, SIGKILL comes after the abort was given its time: input that closes asks for it
        patience = 0.0 if seen.drained else spec.deadlines.stopping
        how = group.end(KILL_SECONDS, kill_after=0.2 if seen.end else patience)
        left = group.pid if how is None else 0
    if result == "error" and not reason:
        reason, message = "worker_died", f"the worker {how or 'does not end'}"
    return replace(
        outcome,
        result=result,
        reason=reason,
        message=message,
        phase=seen.phase,
        flows=tuple(seen.flows),
        facts=seen.facts,
        phases=seen.phases,
        seconds=time.monotonic() - clock,
        left=left,
    )


def _follow(group: Group, spec: Spec, stop: Stop, seen: _Seen, progress: Progress) -> tuple[Verdict, str, str]:
    """Read events until the last one; the result, its reason and message ('' where the worker just ended)."""
    entered = time.monotonic()
    while True:
        late = entered + spec.deadlines.silence(seen.phase)
        try:
            line = group.line(max(0.0, late - time.monotonic()), stop.descriptor)
        except TimeoutError:
            group.tell(ABORT)
            _drain(group, seen, spec.deadlines.stopping)
            if stop.reason:
                return "aborted", stop.reason, f"stopped: {stop.reason}"
            return "timeout", f"{seen.phase}_timeout", f"no word from the worker in {seen.phase}"
        if line is None:
            return "error", "", ""
        before, seen.entered = seen.phase, False
        if not _take(line, seen):
            return "error", "bad_worker", "the worker said nonsense"
        if seen.entered or seen.end:
            now = time.monotonic()
            seen.phases[before] = seen.phases.get(before, 0.0) + now - entered
            entered = now
            progress(seen.phase)
        if seen.end:
            return seen.end


def _drain(group: Group, seen: _Seen, seconds: float) -> None:
    """What it still says after it was told to end: flows that were whole stand."""
    end = time.monotonic() + seconds
    try:
        while (line := group.line(max(0.0, end - time.monotonic()))) is not None:
            _take(line, seen)
    except TimeoutError:
        pass
    seen.drained = True


def _take(line: bytes, seen: _Seen) -> bool:
    """Take one event in; whether it was one."""
    try:
        raw: dict[str, Any] = json.loads(line)
        kind = raw.pop("event")
        if kind == "phase" and raw["phase"] in PHASES:
            seen.phase, seen.entered = raw["phase"], True
        elif kind == "flow" and len(seen.flows) < MAX_FLOWS:
            seen.flows.append(read_flow(raw))
        elif kind == "facts":
            seen.facts.update({str(name): str(value)[:512] for name, value in raw["facts"].items()})
        elif kind == "end" and raw["result"] in get_args(Verdict):
            seen.end = raw["result"], str(raw["reason"]), str(raw["message"])[:1000]
        else:
            return False
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return True
