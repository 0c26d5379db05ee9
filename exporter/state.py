"""What outlives a restart: one JSON file with a version, written whole or not at all. The only file written.

A second process on the same folder (a one-shot command beside the daemon) only reads.
"""

import fcntl
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.model import Role
from exporter.rails import Memory, Remembered

VERSION = 1
FILE = "state.json"
LIMIT = 4096
"""Ports remembered at most: a node has dozens, and the file must not grow without end."""
log = logging.getLogger(__name__)


class State:
    """The remembered rails of this node; kept in memory alone where `folder` is None or can't be written.

    The daemon makes the folder (`create`); a one-shot command uses it where it is and writable, and is quiet
    where it is not.
    """

    def __init__(self, folder: Path | None, create: bool = False) -> None:
        self._folder = folder
        self._lock: int | None = None
        self._rails: Memory = {}
        if folder is not None:
            self._lock = _take(folder, create)
            self._rails = _load(folder / FILE, owned=self._lock is not None)

    @property
    def rails(self) -> Memory:
        """What is remembered of each port."""
        return self._rails

    def remember(self, rails: Memory) -> None:
        """Keep `rails`, and write them if they changed and this process owns the folder."""
        if rails == self._rails:
            return
        self._rails = dict(list(rails.items())[:LIMIT])
        if self._folder is not None and self._lock is not None:
            try:
                _save(self._folder / FILE, {"version": VERSION, "rails": _dump(self._rails)})
            except OSError as error:
                log.warning("state is kept in memory only: %s: %s", self._folder, error.strerror)
                self.close()

    def close(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take(folder: Path, create: bool) -> int | None:
    """Own the folder by an advisory lock; None where it can't be written or is owned already."""
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        log.log(
            logging.WARNING if create else logging.DEBUG,
            "state is kept in memory only: %s: %s",
            folder,
            error.strerror,
        )
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        log.info("another eastwest owns %s: reading only", folder)
        return None
    return descriptor


def _load(path: Path, owned: bool) -> Memory:
    """The file's content; one that is corrupt or from a later version is set aside, and said."""
    try:
        return _parse(json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        # A folder that this process does not own was said to be unusable when it could not be taken.
        log.log(logging.WARNING if owned else logging.DEBUG, "%s: %s; starting anew", path, error.strerror)
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        aside = path.with_suffix(".unreadable")
        log.warning("%s: %s; set aside as %s, starting anew", path, str(error) or type(error).__name__, aside.name)
        if not owned:
            return {}
        try:
            path.replace(aside)
        except OSError:
            log.warning("%s: could not be set aside", path)
        return {}


def _parse(content: Any) -> Memory:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']!r}, this program writes {VERSION}")
    return {
        str(name): Remembered(Role(entry["role"]), _rail(entry.get("rail"))) for name, entry in content["rails"].items()
    }


def _rail(value: Any) -> int | None:
    """A rail as `_dump` writes it; nothing is converted, since int() of JSON's 1e999 is no ValueError."""
    if value is not None and (type(value) is not int or not 0 <= value < LIMIT):
        raise ValueError("a rail that is no number of one")
    return value


def _dump(rails: Memory) -> Mapping[str, Mapping[str, str | int | None]]:
    return {name: {"role": known.role.value, "rail": known.rail} for name, known in sorted(rails.items())}


def _save(path: Path, content: Mapping[str, Any]) -> None:
    """Write beside the file, flush to disk, rename over it: a crash leaves the old file or the new one."""
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
