"""An operator's wish that nothing of this node be probed for a while: a file in the state folder.

A pause that can't be read holds all the same: somebody wanted one, and to probe against that wish is the greater harm.
"""

import json
import logging
from pathlib import Path
from typing import Any

from exporter.model import UserError
from exporter.probes.kept import is_number, load
from exporter.whole import read_whole, write_whole

FILE = "probes-pause.json"
LONGEST = 30 * 86_400.0
END = "`eastwest probe pause --for 0s` ends it"
log = logging.getLogger(__name__)


def pause(folder: Path, seconds: float, now: float) -> float:
    """Want no probes for so long; 0 seconds end that. The Unix time of the end. Raises UserError."""
    if not 0 <= seconds <= LONGEST:
        raise UserError("--for: at most 30d")
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        if seconds:
            write_whole(path, json.dumps({"until": now + seconds}).encode())
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    return now + seconds


class Pause:
    """Whether one holds; `trouble` says why where that is not known from its file. `folder` None: never."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self.trouble = ""

    def holds(self, now: float) -> bool:
        """Whether nothing may be probed, at `now` in Unix time."""
        before, self.trouble = self.trouble, ""
        until = 0.0
        try:
            until = self._until()
        except OSError as error:
            self.trouble = f"{self._path} can't be read: {error.strerror}; {END}"
        except ValueError as error:
            self.trouble = f"{self._path} is no pause: {error}; {END}"
        if until > now + LONGEST + 3600:
            self.trouble = f"{self._path} names a time further off than any pause; {END}"
        if self.trouble:
            if self.trouble != before:
                log.warning("nothing is probed: %s", self.trouble)
            return True
        return now < until

    def _until(self) -> float:
        """Unix time of its end, 0 where nobody wants one. Raises OSError, ValueError."""
        if self._path is None:
            return 0.0
        try:
            until: Any = load(read_whole(self._path)).get("until")
        except (FileNotFoundError, NotADirectoryError):
            return 0.0
        if not is_number(until):
            raise ValueError("until when is no time")
        return float(until)
