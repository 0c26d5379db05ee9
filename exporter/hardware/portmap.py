"""Which RDMA ports the node has and where their values are: what stands still, found anew once a minute.

For readers beside sysfs.py that share no state with it: each runs on a thread of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from exporter.hardware.device import PortLayout, device, port_layout, port_numbers
from exporter.hardware.files import Files
from exporter.hardware.gathered import errno_name
from exporter.hardware.selection import Selection
from exporter.hardware.sysfs import MAX_PORTS, REFRESH_SECONDS
from exporter.model import Device, SourceError, Unavailable


@dataclass(frozen=True, slots=True)
class KnownPort:
    """A port that the map found; `alone` says that its device has no other."""

    device: Device
    number: int
    alone: bool
    layout: PortLayout

    @property
    def subject(self) -> str:
        """The port in a fault: `mlx5_1/1`."""
        return f"{self.device.name}/{self.number}"


class PortMap:
    """Looks at `<root>/class/infiniband`; `clock` is monotonic seconds. Opens nothing that `selection` leaves out."""

    def __init__(self, root: Path, selection: Selection, files: Files, clock: Callable[[], float]) -> None:
        self._root = str(root)
        self._selection = selection
        self._files = files
        self._clock = clock
        self._found: tuple[KnownPort, ...] = ()
        self._found_at: float | None = None

    def ports(self) -> tuple[KnownPort, ...]:
        """Every port, as found at most a minute ago.

        Raises Unavailable where there is no RDMA device, SourceError where they can't be listed.
        """
        if self._found_at is None or self._clock() - self._found_at >= REFRESH_SECONDS:
            self._found_at = None
            self._found = tuple(port for name in self._names() for port in self._device(name))
            self._found_at = self._clock()
        return self._found

    @property
    def age(self) -> float:
        """Seconds since the map was made."""
        return 0.0 if self._found_at is None else self._clock() - self._found_at

    def _names(self) -> list[str]:
        base = f"{self._root}/class/infiniband"
        try:
            found = [name for name in self._files.names(base) if self._selection.device(name)]
        except (FileNotFoundError, NotADirectoryError):
            found = []
        except OSError as error:
            raise SourceError(errno_name(error), f"{base}: {error.strerror}") from error
        if not found:
            raise Unavailable(f"{base}: no RDMA device")
        return found

    def _device(self, name: str) -> list[KnownPort]:
        path = f"{self._root}/class/infiniband/{name}"
        try:
            numbers = port_numbers(self._files, path)
        except OSError:
            return []  # the infiniband check says so
        known = device(self._files, path)
        alone = len(numbers) == 1
        return [
            KnownPort(
                known,
                number,
                alone,
                port_layout(self._files, self._root, path, number, known, alone, lambda _name: False),
            )
            for number in numbers[:MAX_PORTS]
        ]
