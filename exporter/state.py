"""What outlives a restart: one JSON file with a version, written whole or not at all. The only file written.

A second process on the same folder (a one-shot command beside the daemon) only reads.
"""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from exporter.clock import Clock
from exporter.model import Role
from exporter.rails import Memory, Remembered
from exporter.whole import read_whole

VERSION = 2
"""1 held rails alone."""
FILE = "state.json"
LIMIT = 4096
"""Ports remembered at most: a node has dozens, and the file must not grow without end."""
log = logging.getLogger(__name__)


KEPT_EVERY, WRITTEN_EVERY = 60.0, 300.0
"""Seconds between what a check gives to be kept, and between writes, where nothing is urgent."""
UNUSABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
"""What unpacking a file that is not ours may raise."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a state belongs to: the sysfs tree that was read, and the boot (empty where unknown)."""

    sysfs: str = ""
    boot_id: str = ""


@dataclass(slots=True)
class _Content:
    rails: Memory = field(default_factory=dict)
    parts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    boot_id: str = ""


class State:
    """What is remembered of this node; kept in memory alone where `folder` is None or can't be written.

    The rails, and what each check keeps (see checks.base.Keeper). A state of another sysfs tree is left alone.

    The daemon makes the folder (`create`); a one-shot command uses it where it is and writable, and is quiet
    where it is not.
    """

    def __init__(
        self, folder: Path | None, create: bool = False, origin: Origin | None = None, clock: Clock | None = None
    ) -> None:
        self._folder = folder
        self._origin = origin or Origin()
        self._clock = clock or Clock()
        self._guard = Lock()
        self._lock: int | None = None
        self._content = _Content()
        self._kept: dict[str, float] = {}
        self._written = self._clock.monotonic()
        self._dirty = False
        if folder is not None:
            self._lock = _take(folder, create)
            found = _load(folder / FILE, self._origin, owned=self._lock is not None)
            if found is None and not create:
                self.close()
                self._folder = None
            self._content = found or _Content()

    @property
    def rails(self) -> Memory:
        """What is remembered of each port."""
        return self._content.rails

    def remember(self, rails: Memory) -> None:
        """Keep `rails`, and write them if they changed and this process owns the folder."""
        with self._guard:
            if rails == self._content.rails:
                return
            self._content.rails = dict(list(rails.items())[:LIMIT])
            self._write()

    def recall(self, name: str, load: Callable[[Mapping[str, Any], float, float, bool], None]) -> None:
        """See checks.base.Keeper."""
        content = self._content.parts.get(name)
        if content is None:
            return
        now = self._clock.monotonic()
        try:
            load(content, now, self._clock.wall() - now, self._content.boot_id == self._origin.boot_id)
        except UNUSABLE as error:
            log.warning(
                "what was kept of %s can't be used: %s; starting anew", name, str(error) or type(error).__name__
            )

    def keep(self, name: str, dump: Callable[[float], Mapping[str, Any]], urgent: bool) -> None:
        """See checks.base.Keeper."""
        with self._guard:
            now = self._clock.monotonic()
            if not urgent and now - self._kept.get(name, -KEPT_EVERY) < KEPT_EVERY:
                return
            self._content.parts[name] = dump(self._clock.wall() - now)
            self._kept[name] = now
            self._dirty = True
            if urgent or now - self._written >= WRITTEN_EVERY:
                self._write()

    def close(self) -> None:
        """Write what is not yet written, and give the folder back."""
        with self._guard:
            if self._dirty:
                self._write()
            self._let_go()

    def _write(self) -> None:
        """Write the file; a folder that can't be written is said once, and given back."""
        if self._folder is None or self._lock is None:
            return
        content = {
            "version": VERSION,
            "sysfs": self._origin.sysfs,
            "boot_id": self._origin.boot_id,
            "rails": _dump(self._content.rails),
            "parts": self._content.parts,
        }
        self._written, self._dirty = self._clock.monotonic(), False
        try:
            _save(self._folder / FILE, content)
        except OSError as error:
            log.warning("state is kept in memory only: %s: %s", self._folder, error.strerror)
            with suppress(OSError):  # on a file system that has become read-only even this is refused
                (self._folder / FILE).with_suffix(".new").unlink()
            self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take(folder: Path, create: bool) -> int | None:
    """Own the folder by an advisory lock; None where it can't be written or is owned already."""
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
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


def _load(path: Path, origin: Origin, owned: bool) -> _Content | None:
    """The file's content; one that is corrupt or from a later version is set aside, and said.

    None where it belongs to another tree.
    """
    try:
        return _parse(json.loads(read_whole(path)), origin)
    except (FileNotFoundError, NotADirectoryError):
        return _Content()
    except OSError as error:
        # A folder that this process does not own was said to be unusable when it could not be taken.
        log.log(logging.WARNING if owned else logging.DEBUG, "%s: %s; starting anew", path, error.strerror)
        return _Content()
    except UNUSABLE as error:
        aside = path.with_suffix(".unreadable")
        log.warning("%s: %s; set aside as %s, starting anew", path, str(error) or type(error).__name__, aside.name)
        if not owned:
            return _Content()
        try:
            path.replace(aside)
        except OSError:
            log.warning("%s: could not be set aside", path)
        return _Content()


def _parse(content: Any, origin: Origin) -> _Content | None:
    if content["version"] not in (1, VERSION):
        raise ValueError(f"version {content['version']!r}, this program writes {VERSION}")
    sysfs = content.get("sysfs", origin.sysfs)
    if sysfs != origin.sysfs:
        log.info("the state in use is of %s, this is %s: left alone", sysfs, origin.sysfs)
        return None
    rails = {
        str(name): Remembered(Role(entry["role"]), _rail(entry.get("rail")), entry.get("given") is True)
        for name, entry in content["rails"].items()
    }
    parts: dict[str, Mapping[str, Any]] = {str(name): dict(part) for name, part in content.get("parts", {}).items()}
    return _Content(rails, parts, str(content.get("boot_id", "")))


def _rail(value: Any) -> int | None:
    """A rail as `_dump` writes it; nothing is converted, since int() of JSON's 1e999 is no ValueError."""
    if value is not None and (type(value) is not int or not 0 <= value < LIMIT):
        raise ValueError("a rail that is no number of one")
    return value


def _dump(rails: Memory) -> Mapping[str, Mapping[str, str | int | None]]:
    return {
        name: {"role": known.role.value, "rail": known.rail, **({"given": True} if known.given else {})}
        for name, known in sorted(rails.items())
    }


def _save(path: Path, content: Mapping[str, Any]) -> None:
    """Write beside the file, flush to disk, rename over it: a crash leaves the old file or the new one."""
    beside = path.with_suffix(".new")
    # Made anew: a link that lies there must not lead root, who runs commands on this folder too, elsewhere.
    beside.unlink(missing_ok=True)
    with beside.open("x", encoding="utf-8") as file:
        json.dump(content, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
