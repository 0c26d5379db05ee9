"""A program that answers one line with one line, kept running. The only importer of subprocess besides the demo.

One thread of its own starts it, and lives as long as it does: the kernel sends PR_SET_PDEATHSIG when the *thread*
that started a process ends, and the threads of checks end after each run.
"""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Condition, Thread

LINE_LIMIT = 16 << 20


class ChildEndedError(Exception):
    """The program has ended, or could not be started; the message says how."""


class Child:
    """Started at once, ended by `close()`. Several threads may use it, one `ask` at a time."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._argv = argv
        self._environment = environment
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._changed = Condition()
        self._waiting = False
        self._answer: bytes | None = None
        self._ended = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._tend, name=f"child-{argv[-1]}", daemon=True)
        self._thread.start()

    def ask(self, request: bytes, seconds: float) -> bytes:
        """The answer to a line; while an earlier one is not answered, that answer instead.

        Raises TimeoutError after `seconds` (the question stands), ChildEndedError.
        """
        with self._changed:
            if not self._waiting:
                self._answer, self._waiting = None, True
                self._requests.put(request)
            if not self._changed.wait_for(lambda: self._ended or not self._waiting, seconds):
                raise TimeoutError
            if self._answer is None:
                raise ChildEndedError(self._ended)
            answer, self._answer = self._answer, None
            return answer

    def close(self, seconds: float = 0.0) -> bool:
        """Close its input, which tells it to end, and wait that long for it; whether it has ended.

        One that does not end is left to itself: a SIGKILL inside a driver's call can freeze a GPU
        (NVIDIA/dcgm-exporter#84).
        """
        self._requests.put(None)
        with self._changed:
            process, waiting = self._process, self._waiting
        if waiting and process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        """Whether it may still run."""
        return self._thread.is_alive()

    @property
    def pid(self) -> int | None:
        """Its process id, once it was started."""
        return self._process.pid if self._process is not None else None

    def _tend(self) -> None:
        try:
            process = subprocess.Popen(  # noqa: S603 - an argv of ours, no shell
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment
            )
        except OSError as error:
            self._end(f"{self._argv[0]}: {error.strerror}")
            return
        with process:
            with self._changed:
                self._process = process
            with suppress(OSError, ValueError):  # its pipe broke, or was closed under us
                self._serve(process)
            with suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
        self._end(how(process.returncode))

    def _serve(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin is None or process.stdout is None:
            return
        while (request := self._requests.get()) is not None:
            process.stdin.write(request)
            process.stdin.flush()
            line = process.stdout.readline(LINE_LIMIT)
            if not line.endswith(b"\n"):
                return
            with self._changed:
                self._answer, self._waiting = line, False
                self._changed.notify_all()

    def _end(self, message: str) -> None:
        with self._changed:
            self._ended = message
            self._changed.notify_all()


def how(status: int) -> str:
    """`ended by SIGSEGV`, `ended with status 2`."""
    if status >= 0:
        return f"ended with status {status}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-status).name}"
    return f"ended by signal {-status}"
