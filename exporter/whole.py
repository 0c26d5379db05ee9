"""Files that are written whole or not at all, and what a user names as output. Standard library only."""

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 64 << 20


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename it over: a reader sees the old file or the new one, never a part.

    Anybody may read it: a daemon of another user does, and node_exporter. A symbolic link is replaced, never followed:
    root writes into the daemon's state folder too, and what lies there must not lead it elsewhere. What is neither file
    nor link stays as it is. Raises OSError, and leaves nothing then.
    """
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
            raise _refused(mode)
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        Path(beside).replace(path)
    except BaseException:  # SIGTERM unwinds by an exception of its own
        with suppress(OSError):
            Path(beside).unlink()
        raise


def stamp(path: Path) -> tuple[int, int, int]:
    """Changes when the file at `path` is another one, or was written to. Raises OSError."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def read_whole(path: Path, most: int = MOST_BYTES) -> bytes:
    """All of a file of ours. Raises OSError; also for a pipe or device of that name, which could be read for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        if status.st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return file.read(most)


def write_named(path: Path, content: bytes) -> None:
    """Write to what a user named, as a shell would: links are followed, pipes and terminals are written to.

    A file is written whole, beside its real place. Raises OSError, for folders, sockets and disks among others.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        write_whole(Path(os.path.realpath(path)), content)
        return
    for descriptor in (1, 2):
        # /dev/stdout: by the descriptor, so that `>> file` is added to, and a file that has no name any more is written
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(descriptor)):
                _write_all(os.dup(descriptor), content)
                return
    if stat.S_ISREG(found.st_mode):
        write_whole(Path(os.path.realpath(path)), content)
    elif stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode):
        _write_all(os.open(path, os.O_WRONLY | os.O_NOCTTY), content)
    else:
        raise _refused(found.st_mode)


def _refused(mode: int) -> OSError:
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return OSError(errno.EINVAL, "not a file, and left as it is")


def _write_all(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
