"""The worker's side of the protocol: where the probe is, how long that may take, and whether it is to stop."""

import os
import select
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from exporter.probes.protocol import Deadlines, Flow, Phase, event


class Aborted(Exception):  # noqa: N818 - nothing went wrong
    """The daemon told the worker to stop, or is gone."""


class TimedOut(Exception):  # noqa: N818 - told as a result
    """The present phase took longer than it may."""


class Control:
    """Writes events to `out`; any of `told` that can be read means that the probe is to stop."""

    def __init__(self, out: int, told: Sequence[int], deadlines: Deadlines) -> None:
        self.deadlines = deadlines
        self.phase: Phase = "start"
        self._out = out
        self._told = told
        self._until = time.monotonic() + deadlines.start

    def enter(self, phase: Phase) -> None:
        """Begin a phase; the daemon is told."""
        self.phase = phase
        self._until = time.monotonic() + self.deadlines.of(phase)
        self.say(event("phase", phase=phase))

    def flow(self, flow: Flow) -> None:
        """Tell what was measured: it stands, whatever comes after."""
        self.say(
            event(
                "flow",
                kind=flow.kind,
                size=flow.size,
                seconds=flow.seconds,
                source=flow.source,
                target=flow.target,
                factor=flow.factor,
                transport=flow.transport,
                moved=flow.moved,
            )
        )

    def facts(self, **facts: str) -> None:
        """Tell what is worth keeping beside the numbers."""
        self.say(event("facts", facts=facts))

    def say(self, line: bytes) -> None:
        """Write a line to the daemon; one that is gone ends the probe."""
        try:
            while line:
                line = line[os.write(self._out, line) :]
        except OSError as error:
            raise Aborted from error

    @property
    def remaining(self) -> float:
        """Seconds until the phase is late."""
        return max(0.0, self._until - time.monotonic())

    def wait(self, descriptors: Iterable[int], seconds: float | None = None) -> list[int]:
        """Those that can be read; none after `seconds`. Raises Aborted, and TimedOut past the phase's deadline."""
        longest = self.remaining if seconds is None else min(seconds, self.remaining)
        readable, _, _ = select.select([*self._told, *descriptors], [], [], longest)
        if not set(self._told).isdisjoint(readable):
            # one word is all that is ever said, and the end of the file says the same
            raise Aborted
        if not readable and not self.remaining:
            raise TimedOut
        return readable


def stop_on_signals() -> int:
    """A descriptor that can be read once SIGTERM has come (also sent by the kernel when the daemon dies).

    The signal raises nothing: it often comes just after the end of the input, while ranks are being given the time to
    abort, and an exception there would leave them behind.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def told(_number: int, _frame: object) -> None:
        with suppress(OSError):
            os.write(writer, b"x")

    signal.signal(signal.SIGTERM, told)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us, who then tells us
    return reader
