"""What is kept of this node's probes: results of 24 h, use of the last hour, what each link usually gives, and the
last few trials of each, by which it is judged.

A file in the state folder, since the daemon, a scheduler's hook and a command by hand all probe and all must know of
each other's; whoever holds the lock writes it, whole or not at all. Where the folder can't be written it is kept in
memory.
"""

import json
import logging
import socket
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from exporter.judge.trials import Trial, read_trial
from exporter.judge.trials import kept as kept_trials
from exporter.model import UserError
from exporter.whole import write_whole

FILE, PAUSE_FILE = "probes.json", "probes-pause.json"
VERSION = 1
DAY, HOUR = 86_400.0, 3_600.0
MAX_RECORDS = 500
LEARNT = 20
"""Values kept of each link."""
ENOUGH = 3
"""Values after the first, from which on a link's usual value is known."""
LONGEST_PAUSE = 30 * DAY
LOCK_NAME = "\0eastwest-probe"
Record = Mapping[str, Any]
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    last: float | None = None
    records: list[Record] = field(default_factory=list)
    learnt: dict[str, list[float]] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()


class Journal:
    """See the module; `folder` None: in memory alone."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._kept = _Kept()
        self._stamp: object = None
        self._said = False
        self.refresh()

    def refresh(self) -> None:
        """Read what another process has written meanwhile."""
        if self._path is None:
            return
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_mtime_ns)
            if stamp == self._stamp:
                return
            self._kept = _parse(json.loads(self._path.read_bytes()))
            self._stamp = stamp
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if not self._said:
                self._said = True
                log.warning("%s: %s; results of earlier probes are not known", self._path, error)

    def since_last(self, now: float) -> float | None:
        """Seconds since the last probe was launched, by the wall clock; None where there was none."""
        last = self._kept.last
        # a clock that was set back must not hold probes off for years
        return None if last is None else max(0.0, now - last) if last <= now + HOUR else None

    def used(self, now: float) -> tuple[float, int]:
        """Seconds and bytes of the probes of the last hour."""
        recent = [record for record in self._kept.records if now - record["time"] < HOUR]
        return sum(record["seconds"] for record in recent), sum(record["bytes"] for record in recent)

    def records(self, now: float) -> Sequence[Record]:
        """The results of the last 24 h, oldest first."""
        return [record for record in self._kept.records if now - record["time"] < DAY]

    @property
    def trials(self) -> Sequence[Trial]:
        """What is judged, oldest first; it may be older than the results that are shown."""
        return self._kept.trials

    def expected(self, key: str) -> float | None:
        """What a link usually gives: the median of what was learnt, the first value left out; None before enough."""
        values = self._kept.learnt.get(key, [])[1:]
        return statistics.median(values) if len(values) >= ENOUGH else None

    def recent(self, key: str) -> Sequence[float]:
        """The last values that were learnt, oldest first."""
        return self._kept.learnt.get(key, [])[-5:]

    def add(self, record: Record, learn: Mapping[str, float], trial: Trial | None = None) -> None:
        """Keep a result, what each link gave, and what of it is judged; the caller holds the lock."""
        kept = self._kept
        kept.last = float(record["time"])
        kept.records = [old for old in kept.records if kept.last - old["time"] < DAY][-(MAX_RECORDS - 1) :]
        kept.records.append(record)
        if trial is not None:
            kept.trials = kept_trials([*kept.trials, trial])
        for key, value in learn.items():
            values = kept.learnt.setdefault(key, [])
            # the very first stays in front: it is never learnt from (cold caches, a driver just loaded)
            kept.learnt[key] = values[:1] + values[1:][-(LEARNT - 1) :] + [value]
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        content = {"version": VERSION, "last": self._kept.last, "records": self._kept.records}
        trials = [asdict(trial) for trial in self._kept.trials]
        try:
            write_whole(self._path, json.dumps({**content, "learnt": self._kept.learnt, "trials": trials}).encode())
            status = self._path.stat()
            self._stamp = (status.st_ino, status.st_mtime_ns)
        except OSError as error:
            if not self._said:
                self._said = True
                log.warning("results of probes are kept in memory only: %s: %s", self._path, error.strerror)


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


def paused_until(folder: Path | None) -> float:
    """Unix time until which an operator wants no probes; 0 where nobody does."""
    if folder is None:
        return 0.0
    try:
        return float(json.loads((folder / PAUSE_FILE).read_bytes())["until"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def pause(folder: Path, seconds: float, now: float) -> float:
    """Want no probes for so long; 0 seconds end that. The Unix time of the end. Raises UserError."""
    if not 0 <= seconds <= LONGEST_PAUSE:
        raise UserError("--for: at most 30d")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if seconds:
            write_whole(folder / PAUSE_FILE, json.dumps({"until": now + seconds}).encode())
        else:
            (folder / PAUSE_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}") from error
    return now + seconds


def _parse(content: Any) -> _Kept:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']!r}, this program writes {VERSION}")
    records: list[Record] = [
        {**record, "time": float(record["time"]), "seconds": float(record["seconds"]), "bytes": int(record["bytes"])}
        for record in content["records"]
    ]
    learnt = {str(key): [float(value) for value in values] for key, values in content["learnt"].items()}
    last = content["last"]
    trials = tuple(read_trial(trial) for trial in content.get("trials", ()))
    return _Kept(None if last is None else float(last), records, learnt, trials)
