"""Programs that the package starts. The only importer of subprocess besides the demo.

A Child answers one line with one line and is kept running; a Group says what it has to say and ends. A Child has a
thread of its own that starts it, and lives as long as it does: the kernel sends PR_SET_PDEATHSIG when the *thread* that
started a process ends, and the threads of checks end after each run. Whoever starts a Group stays with it.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Condition, Thread

LINE_LIMIT = 16 << 20


def own(module: str, *arguments: str) -> tuple[str, ...]:
    """The argv of a module of the package.

    `-P`: the folder in which the command was given is not searched. Without it a `statistics.py` that lies there would
    run instead of Python's own, as root where root probes by hand.
    """
    return (sys.executable, "-P", "-m", module, *arguments)


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


class Group:
    """A program in a process group of its own, read line by line until it ends, and killed with all it started.

    For one thread. `keep` are descriptors that it inherits. `prepare` is for a worker's own programs: it runs in the
    new process before the program (only from a process without threads: it is a fork), which then belongs to the
    worker's group, and its standard error is read too.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        keep: Sequence[int] = (),
        prepare: Callable[[], object] | None = None,
    ) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - an argv of ours, no shell
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if prepare is None else subprocess.STDOUT,
                env=environment,
                pass_fds=tuple(keep),
                start_new_session=prepare is None,
                preexec_fn=prepare,  # noqa: PLW1509 - see above
                bufsize=0,
            )
        except OSError as error:
            raise ChildEndedError(f"{argv[0]}: {error.strerror}") from error
        self._buffer = b""
        self._leads = prepare is None

    @property
    def pid(self) -> int:
        """Of the program; of its process group too, where it has one."""
        return self._process.pid

    def line(self, seconds: float, wake: int | None = None) -> bytes | None:
        """The next line, without its end; None once there is no more. `wake` is a descriptor that ends the waiting.

        Raises TimeoutError after `seconds`, or when `wake` can be read.
        """
        output = self._process.stdout
        end = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if output is None or output.closed:
                return None
            watched = [output.fileno()] + ([] if wake is None else [wake])
            readable, _, _ = select.select(watched, [], [], max(0.0, end - time.monotonic()))
            if output.fileno() not in readable:
                raise TimeoutError
            piece = os.read(output.fileno(), 65536)
            if not piece or len(self._buffer) > LINE_LIMIT:
                output.close()
                self._buffer = b""
                return None
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def tell(self, line: bytes) -> None:
        """Write to its standard input; one that has ended hears nothing."""
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.write(line)

    def end(self, seconds: float, kill_after: float = 0.0) -> str | None:
        """Make an end of the whole group: how the program ended; None where it is not gone `seconds` after the kill.

        `kill_after` is how long it may take to end by itself, its standard input closed.
        """
        process = self._process
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        self._until(self._ended, kill_after)
        # before it is collected: its number, and so the group's, can't be another's yet
        with suppress(OSError):
            (os.killpg if self._leads else os.kill)(process.pid, signal.SIGKILL)
        gone = self._until(lambda: self._ended() and not (self._leads and members(process.pid)), seconds)
        if process.stdout is not None:
            process.stdout.close()
        return how(process.wait()) if gone else None

    def _ended(self) -> bool:
        """Whether the program has ended, without collecting it."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    @staticmethod
    def _until(what: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not (done := what()) and time.monotonic() < end:
            time.sleep(0.01)
        return done


def members(group: int) -> list[int]:
    """The processes of a group that have not ended, by /proc: zombies that nobody collects are none."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            state, _, belongs = stat.read_text().rpartition(")")[2].split()[:3]
            if int(belongs) == group and state not in "ZX":
                found.append(int(stat.parent.name))
    return found


def how(status: int) -> str:
    """`ended by SIGSEGV`, `ended with status 2`."""
    if status >= 0:
        return f"ended with status {status}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-status).name}"
    return f"ended by signal {-status}"
