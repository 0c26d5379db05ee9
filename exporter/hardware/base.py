"""What the checks may ask of the hardware: the seam. Its words are the hardware's, never the product's."""

from dataclasses import dataclass
from typing import Protocol

from exporter.model import CpuTimes, Ports


class PortSource(Protocol):
    """The RDMA ports of the node."""

    def read(self) -> Ports:
        """Every port, now. Raises Unavailable where there is no RDMA device, SourceError where none can be read."""


class HostSource(Protocol):
    """The host's processors."""

    def cpu_times(self) -> CpuTimes:
        """Seconds since boot. Raises SourceError."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """All sources of one node, real or simulated."""

    ports: PortSource
    host: HostSource
