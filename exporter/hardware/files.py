"""Small files read again and again: descriptors are held and re-read by pread(), while there is room for them.

Re-reading at offset 0 makes the kernel format a sysfs attribute anew
(https://docs.kernel.org/filesystems/sysfs.html). It saves the open() and the path walk, most of a read's cost.
"""

import errno
import os
import resource
import weakref
from collections.abc import Sequence

READ_SIZE = 4096
"""A sysfs attribute is at most one page."""
RESERVE = 256
"""Descriptors left for connections, logs and libraries."""
_GONE = {errno.ENODEV, errno.ESTALE, errno.EBADF, errno.ENXIO}


def raise_descriptor_limit() -> int:
    """Raise RLIMIT_NOFILE to its hard limit; returns how many files may be held open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # an infinite hard limit above the kernel's maximum: the soft one stays
    return max(0, soft - RESERVE) if soft != resource.RLIM_INFINITY else 1 << 16


class Files:
    """Reads files and lists directories under sysfs. Errors are OSError with the kernel's errno.

    `budget` is how many descriptors may be held; past it a file is opened, read and closed each time.
    """

    def __init__(self, budget: int = 0) -> None:
        self._budget = budget
        self._held: dict[str, int] = {}
        weakref.finalize(self, _close_all, self._held)

    def read(self, path: str) -> bytes:
        """The bytes of one file, at most a page."""
        descriptor = self._held.get(path)
        if descriptor is None:
            return self._first_read(path)
        try:
            return os.pread(descriptor, READ_SIZE, 0)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            self._drop(path)  # the device went away, or another has come under its name
            return self._first_read(path)

    def names(self, path: str) -> Sequence[str]:
        """The entries of a directory, sorted."""
        return sorted(os.listdir(path))  # noqa: PTH208 - Path objects cost more than the system call

    def identity(self, path: str) -> tuple[int, int, int]:
        """Changes when the file or directory at `path` is another one than before."""
        status = os.stat(path)  # noqa: PTH116 - as above
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def forget(self, prefix: str) -> None:
        """Close what is held of the directory `prefix`."""
        for path in [held for held in self._held if held.startswith(prefix + "/")]:
            self._drop(path)

    def release(self, path: str) -> None:
        """Close what is held of one file."""
        if path in self._held:
            self._drop(path)

    def close(self) -> None:
        """Close everything."""
        _close_all(self._held)

    @property
    def held(self) -> int:
        """How many descriptors are held."""
        return len(self._held)

    def _first_read(self, path: str) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            content = os.pread(descriptor, READ_SIZE, 0)
        except BaseException:
            os.close(descriptor)
            raise
        if len(self._held) < self._budget:
            self._held[path] = descriptor
        else:
            os.close(descriptor)
        return content

    def _drop(self, path: str) -> None:
        os.close(self._held.pop(path))


def _close_all(held: dict[str, int]) -> None:
    while held:
        os.close(held.popitem()[1])
