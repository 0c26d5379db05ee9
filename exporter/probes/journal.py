"""What is kept of this node's probes: results of 24 h, use of the last hour, what each link usually gives, and the
last few trials of each, by which it is judged.

A file in the state folder, since the daemon, a scheduler's hook and a command by hand all probe and all must know of
each other's; whoever holds the lock writes it, whole or not at all. It is written before a probe is launched, too:
where that fails, neither min_gap nor the budget can be kept, and nothing is probed but by hand.
"""

import logging
import socket
import statistics
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exporter.judge.trials import Trial
from exporter.judge.trials import kept as kept_trials
from exporter.probes.kept import LEARNT, RECENT, Kept, dump, is_record, read
from exporter.whole import read_whole, stamp, write_whole

FILE = "probes.json"
DAY, HOUR = 86_400.0, 3_600.0
MAX_RECORDS = 500
MAX_BYTES = 64 << 20
"""What is longer was not written by this program."""
ROOM = 128 << 10
"""Bytes of blanks written before a launch: as much as any result needs, so that it can be written after it."""
ENOUGH = 3
"""Values after the first, from which on a link's usual value is known."""
LOCK_NAME = "\0eastwest-probe"
Record = Mapping[str, Any]
log = logging.getLogger(__name__)


def _within(records: Sequence[Record], now: float, seconds: float) -> list[Record]:
    """Those so old at most; what is of tomorrow, since the clock was set back, is none."""
    return [record for record in records if -HOUR < now - record["time"] < seconds]


class Journal:
    """See the module; `folder` None: in memory alone, which serves this process.

    `trouble` is why the file can't be read, `unkept` why what was last to be written is not in it; '' where it is.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._guard = threading.Lock()
        self._kept = Kept()
        self._before: float | None = None
        self._stamp: object = None
        self._foreign = False
        self._said: set[str] = set()
        self.trouble = ""
        self.unkept = ""
        self.refresh()

    def refresh(self) -> None:
        """Read what another process has written meanwhile; where an operator has removed the file, begin anew."""
        with self._guard:
            if self._path is None:
                return
            try:
                self._read(self._path)
            except FileNotFoundError:
                self.trouble = ""
                if self._stamp is not None:
                    self._kept, self._stamp, self._foreign = Kept(), None, False
            except OSError as error:
                self.trouble = f"{self._path}: {error.strerror}"
                self._say(f"{self.trouble}; results of earlier probes are not known, nothing is probed")

    def begin(self, now: float) -> str:
        """Note, before it is launched, that a probe is: should this process be killed, min_gap holds all the same.

        Why that could not be written, or ''. The caller holds the lock, and calls `add` or `withdraw` after.
        """
        with self._guard:
            self._before, self._kept.last = self._kept.last, now
            self._write(ROOM)
            if self.unkept:
                self._kept.last = self._before
            return self.unkept

    def withdraw(self) -> None:
        """The probe that began was none: the engine can't run here."""
        with self._guard:
            self._kept.last = self._before
            self._write()

    def add(
        self,
        record: Record,
        learn: Mapping[str, float],
        trial: Trial | None = None,
        ran: Mapping[str, float] | None = None,
    ) -> None:
        """Keep a result, what each link gave (`ran`) and what of that is usual, and what is judged; the caller holds
        the lock. Raises ValueError for what could not be read again.
        """
        if not is_record(record):
            raise ValueError("no result that can be kept")
        with self._guard:
            kept = self._kept
            kept.last = float(record["time"])
            kept.records = [*_within(kept.records, kept.last, DAY)[-(MAX_RECORDS - 1) :], record]
            if trial is not None:
                kept.trials = kept_trials([*kept.trials, trial])
            for key, value in learn.items():
                values = kept.learnt.setdefault(key, [])
                # the very first stays in front: it is never learnt from (cold caches, a driver just loaded)
                kept.learnt[key] = values[:1] + values[1:][-(LEARNT - 1) :] + [value]
            for key, value in (ran or {}).items():
                kept.ran[key] = [*kept.ran.get(key, []), value][-RECENT:]
            self._write()

    def since_last(self, now: float) -> float | None:
        """Seconds since the last probe was launched, by the wall clock; None where there was none."""
        last = self._kept.last
        # a clock that was set back must not hold probes off for years
        return None if last is None else max(0.0, now - last) if last <= now + HOUR else None

    def used(self, now: float) -> tuple[float, int]:
        """Seconds and bytes of the probes of the last hour."""
        recent = _within(self._kept.records, now, HOUR)
        return sum(record["seconds"] for record in recent), sum(record["bytes"] for record in recent)

    def records(self, now: float) -> Sequence[Record]:
        """The results of the last 24 h, oldest first."""
        return _within(self._kept.records, now, DAY)

    @property
    def trials(self) -> Sequence[Trial]:
        """What is judged, oldest first; it may be older than the results that are shown."""
        return self._kept.trials

    def expected(self, key: str) -> float | None:
        """What a link usually gives: the median of what was learnt, the first value left out; None before enough."""
        values = self._kept.learnt.get(key, [])[1:]
        return statistics.median(values) if len(values) >= ENOUGH else None

    def recent(self, key: str) -> Sequence[float]:
        """What a link gave in its last runs, slow ones too, oldest first."""
        return self._kept.ran.get(key, [])

    def _read(self, path: Path) -> None:
        found = stamp(path)
        if found == self._stamp:
            return
        content = read_whole(path) if found[-1] <= MAX_BYTES else b""
        self.trouble, self._stamp = "", found
        try:
            self._kept, dropped = read(content)
            self._foreign = False
        except ValueError as error:
            self._kept, self._foreign = Kept(), True
            self._say(f"{path}: {error}; it is set aside when the next probe begins, and all learnt anew")
        else:
            if dropped:
                self._say(f"{path}: {dropped} entries are not as they should be and left out")

    def _write(self, room: int = 0) -> None:
        """Write the file; what can't be read is not written over, what is not ours is set aside first."""
        path = self._path
        self.unkept = self.trouble
        if path is None or self.trouble:
            return
        try:
            if self._foreign:
                path.replace(path.with_suffix(".unreadable"))
                self._foreign = False
            write_whole(path, dump(self._kept) + b" " * room)
            self._stamp = stamp(path)
        except OSError as error:
            self.unkept = f"{path}: {error.strerror}"
            self._say(f"results of probes can't be kept: {self.unkept}")

    def _say(self, what: str) -> None:
        """Once each."""
        if what not in self._said and len(self._said) < 100:
            self._said.add(what)
            log.warning("%s", what)


class Lock:
    """One probe at a time on a node: a name in Linux's abstract socket namespace, which no file must be written for.

    A worker inherits the descriptor, so that a probe whose daemon was killed holds the lock to its own end. The name
    is known in one network namespace: the daemon of a container needs the host's, as its ports do anyway.
    """

    def __init__(self, name: str = LOCK_NAME) -> None:
        self._name = name
        self._socket: socket.socket | None = None

    def take(self) -> bool:
        """Whether it is ours now."""
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            holder.bind(self._name)
        except OSError:
            holder.close()
            return False
        self._socket = holder
        return True

    def give(self) -> None:
        """Let another have it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def descriptors(self) -> list[int]:
        """For a worker to hold."""
        return [] if self._socket is None else [self._socket.fileno()]
