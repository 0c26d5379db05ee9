"""What the checks may ask of the hardware: the seam. Its words are the hardware's, never the product's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from exporter.model import BurstReading, CpuTimes, Device, PortDetails, Ports
from exporter.model_gpu import Gpus, XidLine
from exporter.model_verbs import VerbsReading


class PortSource(Protocol):
    """The RDMA ports of the node."""

    def read(self) -> Ports:
        """Every port, now. Raises Unavailable where there is no RDMA device, SourceError where none can be read."""


class HostSource(Protocol):
    """The host's processors."""

    def cpu_times(self) -> CpuTimes:
        """Seconds since boot. Raises SourceError."""


class EthtoolSource(Protocol):
    """The netdevs, at the level of the ioctl: the decoder lies above."""

    def ioctl(self, netdev: str, request: bytearray) -> None:
        """SIOCETHTOOL: `request` is a command's structure, and holds the answer after. Raises OSError."""


class PortDetailSource(Protocol):
    """What the drivers of the ports count beside sysfs, and the PCIe under the devices."""

    def read(self) -> PortDetails:
        """Every port, now. Raises Unavailable where there is no RDMA device, SourceError where none can be read."""


class BurstSource(Protocol):
    """Byte counters of ports, sampled many times a second by a thread of their own."""

    def read(self, wanted: Callable[[Device, int], bool]) -> tuple[BurstReading, ...]:
        """What was sampled of the ports that `wanted` takes; sampling begins with the first call.

        Ends by itself when nobody reads any more. Raises Unavailable and SourceError like PortSource.
        """


class GpuSource(Protocol):
    """The GPUs of the node, with their NVLinks."""

    def read(self) -> Gpus:
        """Every GPU, now; asked twice within a second, the same reading.

        Raises Unavailable where there is no GPU or no driver, Released where NVML is given back for maintenance,
        SourceError where the driver does not answer.
        """

    def numbers(self) -> Mapping[str, int]:
        """The number of each GPU that was read, by PCI address. Touches no hardware."""


class VerbsSource(Protocol):
    """RDMA as programs see it, by libibverbs."""

    def read(self) -> VerbsReading:
        """Every device, now. Raises Unavailable where there is none, or no pyverbs; SourceError where it hangs."""


class XidSource(Protocol):
    """The kernel's log."""

    def read(self) -> tuple[XidLine, ...]:
        """The Xid errors that came since it was last asked, the first time since boot; empty where it can't be read."""


class NoXids:
    """A log that says nothing."""

    def read(self) -> tuple[XidLine, ...]:
        """See XidSource."""
        return ()


@dataclass(frozen=True, slots=True)
class Hardware:
    """All sources of one node, real or simulated."""

    ports: PortSource
    host: HostSource
    detail: PortDetailSource
    burst: BurstSource
    gpus: GpuSource
    verbs: VerbsSource
    xids: XidSource = field(default_factory=NoXids)
