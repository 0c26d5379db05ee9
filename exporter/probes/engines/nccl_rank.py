"""One rank of an NCCL probe: a process that loads NCCL and CUDA, joins, and does what the worker tells it.

It reports each phase, and after each step its batches' seconds; it leaves by `end`, aborts on SIGTERM, and never waits
for NCCL in a way that this could not interrupt.
"""

import json
import os
import pwd
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

from exporter.probes.engines import nccl_api as api
from exporter.probes.engines import nccl_env
from exporter.probes.protocol import SMALL, Failed, Refused, Spec

RESERVE = 3 << 30
"""Bytes of GPU memory that NCCL's own buffers and a context may take (NVIDIA/nccl#864 and others)."""
WARM_UP = 2
SMALL_ITERATIONS = 50
PAIR_ITERATIONS = 2
"""Of a pair of GPUs: eight have 56 of them, and all stay within an hour's budget (59 of 64 GiB at 64 MiB)."""
BARRIERS: Mapping[str, str] = {"allreduce": "latency", "sendrecv": "pingpong"}
"""The small step that brings the ranks of another together."""


class Rank:
    """See the module. `log` is the descriptor of NCCL's messages, a file in memory."""

    def __init__(self, spec: Spec, number: int, ranks: int, line: socket.socket, log: int) -> None:
        self._spec = spec
        self._number = number
        self._ranks = ranks
        self._line = line
        self._log = log
        self._stopping = False
        self._comm: api.Communicator | None = None

    def live(self) -> None:
        """From start to end. Raises nothing: what went wrong is told."""
        signal.signal(signal.SIGTERM, self._told_to_stop)
        try:
            self._work()
        except (Failed, Refused) as why:
            reason, said = nccl_env.complaint(self._logged()) if isinstance(why, Failed) else ("", "")
            message = f"rank {self._number}: {why}" + (f" ({said})" if said else "")
            self._tell(error=reason or why.reason, message=message, refused=isinstance(why, Refused))
            signal.pause()  # the worker decides what the others do, then stops this one
            self._leave()

    def _work(self) -> None:
        cuda = api.Cuda(self._number)
        library = api.load_nccl()
        code = api.version_code(library)
        free, needed = cuda.free_memory(), 2 * self._spec.size + RESERVE
        if free < needed:
            raise Refused("gpu_memory", f"GPU {self._number} has {free >> 20} MiB free, {needed >> 20} MiB are needed")
        send, receive = cuda.allocate(self._spec.size), cuda.allocate(self._spec.size)
        facts = {"nccl": api.version(code), "cuda_driver": f"{cuda.version() // 1000}.{cuda.version() % 1000 // 10}"}
        if settings := nccl_env.not_kept_out(code, _home()):
            facts["settings"] = settings
        self._tell(ready=facts, unique=api.unique_id(library).hex() if self._number == 0 else "")
        comm = self._comm = api.Communicator(library, self._look)
        for told in self._lines():
            if "join" in told:
                comm.join(bytes.fromhex(told["join"]), self._number, self._ranks)
                self._tell(joined=True)
            elif "step" in told:
                seconds = self._step(cuda, comm, told, send, receive)
                self._tell(done=seconds, transports=nccl_env.transports(self._logged()))
            else:
                break
        if comm.handle.value:
            comm.call("ncclCommFinalize", comm.handle)
            library.ncclCommDestroy(comm.handle)
        self._tell(left=True)

    def _step(
        self, cuda: api.Cuda, comm: api.Communicator, told: Mapping[str, Any], send: int, receive: int
    ) -> list[float]:
        """Warm up, then time the batches of one operation: seconds per operation, none where this rank is idle."""
        operation = self._operation(cuda, comm, told, send, receive)
        together = self._operation(
            cuda, comm, {**told, "step": BARRIERS.get(told["step"], told["step"])}, send, receive
        )
        self._tell(phase="connect")
        if operation is None or together is None:
            self._tell(phase="run")
            return []
        first, last = cuda.event(), cuda.event()
        for _ in range(WARM_UP):
            together()
            operation()
        self._reach(cuda, comm, last)
        self._tell(phase="run")
        iterations = iterations_of(self._spec, told["step"])
        seconds = []
        for _ in range(self._spec.batches):
            # An event is stamped when the stream comes to it, and an empty stream is there at once: the rank that saw
            # the last batch's end first would start its clock before the others join, by up to POLL_SECONDS of a batch
            # of 1.3 ms. Behind a small operation of the same ranks all clocks start within microseconds.
            together()
            cuda.record(first)
            for _ in range(iterations):
                operation()
            self._reach(cuda, comm, last)
            seconds.append(cuda.seconds(first, last) / iterations)
        return [each / 2 for each in seconds] if told["step"] == "pingpong" else seconds

    def _operation(
        self, cuda: api.Cuda, comm: api.Communicator, told: Mapping[str, Any], send: int, receive: int
    ) -> Callable[[], None] | None:
        """What this rank does in a step; None where it only waits for the others."""
        handle, stream, kind = comm.handle, cuda.stream, told["step"]
        count = (SMALL if kind in ("latency", "pingpong") else self._spec.size) // 4
        if kind in ("allreduce", "latency"):
            return lambda: comm.call("ncclAllReduce", send, receive, count, api.FLOAT32, api.SUM, handle, stream)
        for source, target in told["pairs"]:
            if self._number in (source, target):
                peer = target if self._number == source else source
                out = ("ncclSend", send, count, api.FLOAT32, peer, handle, stream)
                back = ("ncclRecv", receive, count, api.FLOAT32, peer, handle, stream)
                calls = [out, back] if self._number == source else [back, out]
                return partial(_in_order, comm, calls if kind == "pingpong" else calls[:1])
        return None

    def _reach(self, cuda: api.Cuda, comm: api.Communicator, mark: Any) -> None:
        """Wait for the end of what is on the stream, and look at the communicator meanwhile."""
        cuda.record(mark)
        while not cuda.passed(mark):
            comm.settle(api.SUCCESS, "ncclCommGetAsyncError")
            time.sleep(api.POLL_SECONDS)

    def _lines(self) -> Iterator[Mapping[str, Any]]:
        """What the worker tells; its end, too, is an order to stop."""
        buffer = b""
        while True:
            piece = self._line.recv(65536)
            self._look()
            if not piece:
                self._leave()
            *lines, buffer = (buffer + piece).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _tell(self, **message: object) -> None:
        self._line.sendall(json.dumps(message).encode() + b"\n")

    def _logged(self) -> str:
        size = os.fstat(self._log).st_size
        return os.pread(self._log, min(size, 4 << 20), 0).decode(errors="replace")

    def _told_to_stop(self, _number: int, _frame: object) -> None:
        self._leave()

    def _look(self) -> None:
        """Called while something is waited for: the signal's handler does the rest."""

    def _leave(self) -> NoReturn:
        """Abort the communicator and end. The abort may hang (NVIDIA/nccl#863): the worker then kills this process."""
        comm = self._comm
        if comm is not None and comm.handle.value and not self._stopping:
            self._stopping = True
            helper = Thread(target=comm.library.ncclCommAbort, args=(comm.handle,), daemon=True)
            helper.start()
            helper.join()
        sys.stderr.flush()
        os._exit(0)


def iterations_of(spec: Spec, step: str) -> int:
    """Operations in a batch of this step, or of this kind of flow."""
    if step in ("latency", "pingpong"):
        return SMALL_ITERATIONS
    return min(PAIR_ITERATIONS, spec.iterations) if step == "sendrecv" and not spec.nics else spec.iterations


def _in_order(comm: api.Communicator, calls: Sequence[tuple[Any, ...]]) -> None:
    for call in calls:
        comm.call(*call)


def _home() -> Path | None:
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def log_file() -> tuple[int, str]:
    """A file in memory for NCCL's messages: its descriptor, and the path by which a rank opens it."""
    descriptor = os.memfd_create("nccl-log", 0)
    return descriptor, str(Path("/proc/self/fd") / str(descriptor))
