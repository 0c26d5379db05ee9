"""Files that answer EINVAL for good: asked three times, then once an hour.

A port that belongs to the Fabric Manager refuses every counter, and the driver writes a line to the kernel log
for each refusal (node_exporter#3434, procfs#854, gpud#1167): reading on at every poll floods it.
"""

from collections.abc import Callable

TRIES = 3
RETRY_SECONDS = 3600.0


class Refusals:
    """Remembers refusals by path; `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}

    def skip(self, path: str) -> bool:
        """Whether `path` has refused often enough not to be asked now."""
        known = self._known.get(path)
        return known is not None and known[0] >= TRIES and self._clock() < known[1]

    def note(self, path: str) -> None:
        """`path` refused once more."""
        count, _ = self._known.get(path, (0, 0.0))
        self._known[path] = (count + 1, self._clock() + RETRY_SECONDS)

    def clear(self, path: str) -> None:
        """`path` answered."""
        self._known.pop(path, None)

    def forget(self, prefix: str) -> None:
        """The device in the directory `prefix` is another one now."""
        self._known = {path: known for path, known in self._known.items() if not path.startswith(f"{prefix}/")}

    def __bool__(self) -> bool:
        return bool(self._known)
