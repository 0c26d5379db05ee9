"""The ranks of a probe: processes forked from the worker, each with its own environment, tended without threads.

A process for each rank, since NCCL reads its environment once a process, and each rank of a loopback probe has a NIC of
its own; forked, since the worker is a small process without threads and without any library that minds. None outlives
the worker: the kernel kills it, and the worker's process group is killed as a whole.
"""

import ctypes
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from exporter.hardware.child import how
from exporter.probes.control import Control
from exporter.probes.protocol import PHASES, RANK_KILL_SECONDS, Failed, Phase, Refused

PR_SET_PDEATHSIG = 1
SETTLE = 0.3
"""Seconds in which the other ranks may tell more of a failure: which one died, not only who noticed."""
LINE_LIMIT = 1 << 20
Message = Mapping[str, Any]
Body = Callable[[int, socket.socket], None]
"""What a rank does: its number, and its line to the worker."""
_WEIGHT = {"rank_died": 1, "remote_error": 3}


@dataclass(slots=True)
class _Rank:
    number: int
    pid: int
    line: socket.socket
    buffer: bytes = b""
    status: int | None = None
    phases: list[str] = field(default_factory=list)


class Ranks:
    """Started at once; `close` must be called."""

    def __init__(self, environments: Sequence[Mapping[str, str]], body: Body, control: Control) -> None:
        self._control = control
        self._ranks: list[_Rank] = []
        # held back meanwhile: the worker's way of being stopped is not a rank's
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            for number, environment in enumerate(environments):
                ours, theirs = socket.socketpair()
                pid = os.fork()
                if pid == 0:
                    ours.close()
                    _be(number, environment, theirs, body, [rank.line for rank in self._ranks])
                theirs.close()
                self._ranks.append(_Rank(number, pid, ours))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def tell(self, message: Message, rank: int | None = None) -> None:
        """A line to one rank, or to each; one that has ended hears nothing."""
        for each in self._ranks:
            if rank in (None, each.number):
                with suppress(OSError):
                    each.line.sendall(json.dumps(message).encode() + b"\n")

    def gather(self, key: str) -> list[Message]:
        """The next message with `key` of every rank, in their order; the phase goes on when all ranks have.

        Raises Failed where a rank fails or ends, Refused where one can't run here, TimedOut, Aborted.
        """
        found: dict[int, Message] = {}
        while len(found) < len(self._ranks):
            lines = {rank.line.fileno(): rank for rank in self._ranks if rank.number not in found}
            for readable in self._control.wait(lines):
                rank = lines[readable]
                for message in self._read(rank):
                    if "error" in message:
                        raise self._worst(message)
                    if "phase" in message:
                        self._advance(rank, message["phase"])
                    if key in message:
                        found[rank.number] = message
        return [found[rank.number] for rank in self._ranks]

    def close(self, grace: float) -> int:
        """Ask those that still run to abort, kill them after `grace` seconds; how many had to be killed.

        No signal interrupts it (see control.stop_on_signals).
        """
        end = time.monotonic() + grace
        asked = [rank for rank in self._ranks if self._status(rank) is None]
        for rank in asked:
            with suppress(OSError):
                os.kill(rank.pid, signal.SIGTERM)
        while time.monotonic() < end and any(self._status(rank) is None for rank in asked):
            time.sleep(0.005)
        killed = [rank for rank in asked if self._status(rank) is None]
        for rank in killed:
            with suppress(OSError):
                os.kill(rank.pid, signal.SIGKILL)
        end = time.monotonic() + RANK_KILL_SECONDS
        while time.monotonic() < end and any(self._status(rank) is None for rank in killed):
            time.sleep(0.005)
        for rank in self._ranks:
            rank.line.close()
        return len(killed)

    def _read(self, rank: _Rank) -> Iterator[Message]:
        """The messages that have come from one rank; its end is a message too."""
        try:
            piece = rank.line.recv(65536)
        except OSError:
            piece = b""
        if not piece or len(rank.buffer) > LINE_LIMIT:
            yield {"error": "rank_died", "message": f"rank {rank.number} {self._ending(rank)}"}
            return
        *lines, rank.buffer = (rank.buffer + piece).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def _advance(self, rank: _Rank, phase: Phase) -> None:
        rank.phases.append(phase)
        position = len(rank.phases)
        if phase in PHASES and all(len(each.phases) >= position for each in self._ranks):
            self._control.enter(phase)

    def _worst(self, first: Message) -> Failed | Refused:
        """What is closest to the cause, of all that the ranks tell within a moment."""
        told, end = [first], time.monotonic() + SETTLE
        lines = {rank.line.fileno(): rank for rank in self._ranks}
        while lines and time.monotonic() < end:
            for readable in select.select(lines, [], [], max(0.0, end - time.monotonic()))[0]:
                messages = [message for message in self._read(lines[readable]) if "error" in message]
                told += messages
                if messages:
                    del lines[readable]
        worst = min(told, key=lambda message: 0 if message.get("refused") else _WEIGHT.get(message["error"], 2))
        kind = Refused if worst.get("refused") else Failed
        return kind(str(worst["error"]), str(worst["message"]))

    def _ending(self, rank: _Rank) -> str:
        end = time.monotonic() + 0.2
        while (status := self._status(rank)) is None and time.monotonic() < end:
            time.sleep(0.005)
        return "closed its line" if status is None else how(status)

    @staticmethod
    def _status(rank: _Rank) -> int | None:
        if rank.status is None:
            try:
                pid, status = os.waitpid(rank.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = rank.pid, 0
            if pid:
                rank.status = os.waitstatus_to_exitcode(status)
        return rank.status


def _be(
    number: int, environment: Mapping[str, str], line: socket.socket, body: Body, others: Sequence[socket.socket]
) -> NoReturn:
    """The rank's life, in the forked process."""
    status = 70
    try:
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(71)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        for other in others:
            other.close()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.environ.clear()
        os.environ.update(environment)
        body(number, line)
        status = 0
    except Exception as bug:  # noqa: BLE001 - a rank has nobody above it who could say so
        with suppress(OSError):
            line.sendall(json.dumps({"error": "bug", "message": f"{type(bug).__name__}: {bug}"}).encode() + b"\n")
    finally:
        os._exit(status)
