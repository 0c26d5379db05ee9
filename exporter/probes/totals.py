"""What all probes of this node have cost, whoever ran them: the daemon, a scheduler's hook, a hand. One small file in
the state folder, beside the journal since it is written at each refusal too.

Whoever holds the probes' lock adds to it. What a process counts without the lock (that another probe runs) or can't
write stays in its memory until it can: the daemon's is shown and written later, a hook's is lost with it.
"""

import json
import logging
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from exporter.probes.kept import LARGEST, is_count, is_number, is_word, load
from exporter.whole import read_whole, stamp, write_whole

FILE = "probes-totals.json"
VERSION = 1
MOST = 200
"""Kinds of runs and reasons; there are some dozens."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted: runs by scope, engine and result, refusals by reason. Nothing changes one."""

    runs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    preempted: int = 0
    seconds: float = 0.0
    bytes: int = 0

    def plus(self, more: "Tally") -> "Tally":
        """Both."""
        return Tally(
            self.runs + more.runs,
            self.skipped + more.skipped,
            self.preempted + more.preempted,
            self.seconds + more.seconds,
            self.bytes + more.bytes,
        )


def dump(tally: Tally) -> bytes:
    """As it is written."""
    content = {
        "version": VERSION,
        "runs": [[*labels, number] for labels, number in sorted(tally.runs.items())],
        "skipped": dict(sorted(tally.skipped.items())),
        "preempted": tally.preempted,
        "seconds": tally.seconds,
        "bytes": tally.bytes,
    }
    return json.dumps(content, allow_nan=False).encode()


def read(content: bytes) -> Tally:
    """What `dump` wrote. Raises ValueError where anything in it is not as it should be."""
    raw = load(content)
    runs, skipped = raw.get("runs"), raw.get("skipped")
    fits = (
        raw.get("version") == VERSION
        and isinstance(runs, list)
        and isinstance(skipped, dict)
        and len(runs) + len(skipped) <= MOST
        and all(map(_is_run, runs))
        and all(is_word(reason) and is_count(number) for reason, number in skipped.items())
        and is_count(raw.get("preempted"))
        and is_number(raw.get("seconds"))
        and is_count(raw.get("bytes"))
    )
    if not fits:
        raise ValueError("these are no totals")
    counted: Counter[tuple[str, str, str]] = Counter({(run[0], run[1], run[2]): run[3] for run in runs or ()})
    # a sum past all bounds would be refused the next time: better it starts anew
    seconds, moved = (raw[name] if raw[name] < LARGEST / 2 else 0 for name in ("seconds", "bytes"))
    return Tally(counted, Counter(skipped), raw["preempted"], float(seconds), moved)


def _is_run(raw: Any) -> bool:
    return isinstance(raw, list) and len(raw) == 4 and all(map(is_word, raw[:3])) and is_count(raw[3])


class Totals:
    """See the module; `folder` None: in memory alone. For any thread."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._guard = Lock()
        self._filed = Tally()
        self._unfiled = Tally()
        self._stamp: object = None
        self._readable = True
        self.refresh()

    @property
    def tally(self) -> Tally:
        """All that is known."""
        with self._guard:
            return self._filed.plus(self._unfiled)

    def refresh(self) -> None:
        """Read what another process has added; where the file is gone counting begins anew."""
        with self._guard:
            self._refresh()

    def add(self, more: Tally, locked: bool) -> None:
        """Count; written where the caller holds the probes' lock (`locked`)."""
        with self._guard:
            self._unfiled = self._unfiled.plus(more)
            if not locked or self._path is None:
                return
            self._refresh()
            if not self._readable:
                return
            total = self._filed.plus(self._unfiled)
            try:
                write_whole(self._path, dump(total))
                self._stamp = stamp(self._path)
            except OSError as error:
                # the journal says what is wrong with the folder, and nothing is probed then
                log.debug("%s: %s", self._path, error.strerror)
                return
            self._filed, self._unfiled = total, Tally()

    def inherit(self, before: "Totals") -> None:
        """Take over what an earlier one of this process could not write."""
        with self._guard:
            self._unfiled = self._unfiled.plus(before._unfiled)  # noqa: SLF001 - another object of this class

    def _refresh(self) -> None:
        if self._path is None:
            return
        try:
            found = stamp(self._path)
            if found == self._stamp:
                return
            content = read_whole(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self._filed, self._stamp, self._readable = Tally(), None, True
            return
        except OSError as error:
            if self._readable:
                log.warning("%s: %s; what probes cost is counted of this process alone", self._path, error.strerror)
            self._readable = False
            return
        self._stamp, self._readable = found, True
        try:
            self._filed = read(content)
        except ValueError as error:
            log.warning("%s: %s; counting begins anew", self._path, error)
            self._filed = Tally()
