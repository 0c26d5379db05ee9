"""What the port check tells the others, since one check's reading is another's evidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from exporter.model import Role


@dataclass(frozen=True, slots=True)
class PortView:
    """What one check tells the others of a port: rate in bytes/s, `used` the busier direction's share of it."""

    device: str
    role: Role
    rail: int | None
    rate: float | None
    used: float | None


class PortViews:
    """What the port check said last, by subject; told by one thread and read by others."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._views: Mapping[str, PortView] = {}

    def tell(self, views: Mapping[str, PortView]) -> None:
        """Replace what is known."""
        with self._lock:
            self._views = views

    def look(self) -> Mapping[str, PortView]:
        """What is known; empty before the port check ran."""
        with self._lock:
            return self._views
