"""What operators know of already: a file in the state folder, written by `eastwest ack`, read by the daemon.

A file of its own, as release.json, since the daemon owns the state file and a command can't write that.
"""

import json
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from exporter.health import Ack
from exporter.model import UserError
from exporter.whole import read_whole, stamp, write_whole

FILE = "acks.json"
MOST = 256
LONGEST_TEXT = 500
LATEST = 32_503_680_000.0
"""Unix time of the year 3000."""
log = logging.getLogger(__name__)


class Acks:
    """The daemon's side: reads the file again when it has changed. `folder` None: there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._seen: tuple[int, int, int] | None = None
        self._acks: tuple[Ack, ...] = ()

    def current(self) -> tuple[Ack, ...]:
        """What is acknowledged, expired ones included."""
        if self._path is None:
            return ()
        try:
            version = stamp(self._path)
        except OSError:
            self._seen, self._acks = None, ()
            return ()
        if version != self._seen:
            self._seen = version
            try:
                self._acks = tuple(read(self._path))
            except (OSError, ValueError) as error:
                log.warning("%s: %s; nothing is acknowledged", self._path, error)
                self._acks = ()
        return self._acks


def read(path: Path) -> Sequence[Ack]:
    """The file's content; empty where there is none. Raises OSError, and ValueError where it makes no sense."""
    try:
        content = json.loads(read_whole(path))
    except FileNotFoundError:
        return ()
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    try:
        found = [Ack(str(one["subject"]), str(one["reason"]), float(one["until"])) for one in content["acks"]]
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError("not a list of acknowledgements") from error
    if any(not 0 <= one.until <= LATEST for one in found):
        raise ValueError("an acknowledgement ends at no time that there is")
    return found


def acknowledge(folder: Path, subject: str, reason: str, seconds: float) -> Ack:
    """The command's side: add or renew one; 0 seconds take it back. Raises UserError."""
    subject = subject.strip()
    if not subject or len(subject) > LONGEST_TEXT or not subject.isprintable():
        raise UserError("SUBJECT: a subject of a finding is needed, such as mlx5_1/1, gpu0 or node")
    if any(mark in subject for mark in "*?"):
        raise UserError(f"SUBJECT: one subject as a finding names it, no pattern (got {subject!r})")
    if len(reason) > LONGEST_TEXT or not (reason.isprintable() or not reason):
        raise UserError(f"--reason: at most {LONGEST_TEXT} characters of plain text")
    path, now = folder / FILE, time.time()
    ack = Ack(subject, reason, now + seconds)
    try:
        kept = [one for one in read(path) if one.until > now and one.subject != subject]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}") from error
    if seconds:
        kept.append(ack)
    if len(kept) > MOST:
        raise UserError(f"{path}: {MOST} subjects are acknowledged already")
    try:
        _write(path, kept)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; is the daemon's state folder elsewhere (--config)?") from error
    return ack


def _write(path: Path, acks: Iterable[Ack]) -> None:
    content = {"acks": [{"subject": one.subject, "reason": one.reason, "until": one.until} for one in acks]}
    write_whole(path, json.dumps(content).encode())
