"""Which devices and counters are read at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Selection:
    """Which devices and extra counters are read: globs on names, applied before anything is opened.

    An empty `include` takes all; `exclude` wins, as does `ignored` (the operator's rules).
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    vendor_counters: Sequence[str] = ()
    ignored: Callable[[str], bool] = lambda _name: False

    def device(self, name: str) -> bool:
        """Whether the device may be touched."""
        included = not self.include or _matches(name, self.include)
        return included and not _matches(name, self.exclude) and not self.ignored(name)

    def vendor(self, name: str) -> bool:
        """Whether the counter file is wanted."""
        return _matches(name, self.vendor_counters)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
