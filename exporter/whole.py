"""Files that are written whole or not at all. Standard library only."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename it over: a reader sees the old file or the new one, never a part.

    Anybody may read it: a daemon of another user does, and node_exporter. Raises OSError, and leaves nothing then.
    """
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        Path(beside).replace(path)
    except OSError:
        with suppress(OSError):
            Path(beside).unlink()
        raise
