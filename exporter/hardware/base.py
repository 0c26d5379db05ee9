"""What the checks may ask of the hardware: the seam. Its words are the hardware's, never the product's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from exporter.model import CpuTimes, Ports
from exporter.model_gpu import Gpus


class PortSource(Protocol):
    """The RDMA ports of the node."""

    def read(self) -> Ports:
        """Every port, now. Raises Unavailable where there is no RDMA device, SourceError where none can be read."""


class HostSource(Protocol):
    """The host's processors."""

    def cpu_times(self) -> CpuTimes:
        """Seconds since boot. Raises SourceError."""


class GpuSource(Protocol):
    """The GPUs of the node, with their NVLinks."""

    def read(self) -> Gpus:
        """Every GPU, now; asked twice within a second, the same reading.

        Raises Unavailable where there is no GPU, no driver, or NVML is released for maintenance; SourceError where
        the driver does not answer.
        """

    def numbers(self) -> Mapping[str, int]:
        """The number of each GPU that was read, by PCI address. Touches no hardware."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """All sources of one node, real or simulated."""

    ports: PortSource
    host: HostSource
    gpus: GpuSource
