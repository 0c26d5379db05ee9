"""NVML let go for a while, so that a driver can be replaced or a GPU reset: the request, and that it was met.

A file in the state folder, since that is what a command beside the daemon shares with it, in a container too; it
outlives a restart of the daemon in the middle of the maintenance. A signal needs no file.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from exporter.model import UserError
from exporter.whole import read_whole, write_whole

FILE = "release.json"
LONGEST = 86_400.0
SLACK = 3600.0
"""Seconds by which a clock may have been set back since somebody asked."""
DEFAULT = 600.0
"""Seconds that the signal asks for."""
ANSWER_SECONDS = 20.0
POLL_SECONDS = 0.1


class Release:
    """The daemon's side; `folder` None: by signal alone. `wall` is Unix seconds."""

    def __init__(self, folder: Path | None, wall: Callable[[], float] = time.time) -> None:
        self._path = None if folder is None else folder / FILE
        self._wall = wall
        self._until = 0.0
        self._met = True

    def ask(self, seconds: float) -> None:
        """Ask without a file."""
        self._until, self._met = self._wall() + seconds, False

    def active(self) -> bool:
        """Whether NVML is to be left alone now."""
        return self._wall() < max(self._until, self._filed()[0])

    def unmet(self) -> bool:
        """Whether somebody asked and was not answered yet. A request that is over is cleared away."""
        until, closed = self._filed()
        if until and until <= self._wall() and self._path is not None:
            with suppress(OSError):
                self._path.unlink()
        return self.active() and not (self._met and (closed or not until))

    def met(self) -> None:
        """NVML is closed: say so."""
        self._met = True
        until, closed = self._filed()
        if self._path is not None and until and not closed:
            with suppress(OSError):  # a folder that can't be written: whoever asked is told after a while
                _write(self._path, until, closed=True)

    def _filed(self) -> tuple[float, bool]:
        return (0.0, False) if self._path is None else _read(self._path)


def ask(folder: Path, seconds: float) -> float:
    """The command's side: ask the daemon of this folder, wait until NVML is closed; the Unix time of the end.

    0 seconds end a release. Raises UserError where no daemon answers.
    """
    if not 0 <= seconds <= LONGEST:
        raise UserError("--for: at most 24h")
    if not _owned(folder):
        raise UserError(f"{folder}: no daemon owns it; one that keeps its state elsewhere is told by SIGUSR1")
    path, until = folder / FILE, time.time() + seconds
    try:
        if not seconds:
            path.unlink(missing_ok=True)
            return until
        _write(path, until, closed=False)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    end = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < end:
        if _read(path)[1]:
            return until
        time.sleep(POLL_SECONDS)
    raise UserError(f"NVML is not closed after {ANSWER_SECONDS:.0f} s: a call into the driver may hang; see the log")


def _owned(folder: Path) -> bool:
    """Whether a daemon holds the folder's lock (see state.py)."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(path: Path) -> tuple[float, bool]:
    """Until when, and whether NVML was closed; nothing where there is no such file, or nonsense in it."""
    try:
        content = json.loads(read_whole(path))
        until, closed = float(content["until"]), content["closed"] is True
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0.0, False
    return (until, closed) if 0 <= until <= time.time() + LONGEST + SLACK else (0.0, False)


def _write(path: Path, until: float, closed: bool) -> None:
    write_whole(path, json.dumps({"until": until, "closed": closed}).encode())
