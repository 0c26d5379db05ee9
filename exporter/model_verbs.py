"""What user-space RDMA says of devices and ports. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class VerbsPort:
    """A port by ibv_query_port: path MTUs in bytes, `rate` (lanes x speed of a lane) in bytes/s; None where unknown."""

    active_mtu: int | None
    max_mtu: int | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class VerbsDevice:
    """A device: why this process could not open it ('' where it could), and its ports by number."""

    name: str
    error: str = ""
    ports: Mapping[int, VerbsPort] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerbsReading:
    """Every device; `exclusive` is the kernel's RDMA namespace mode (ib_core's netns_mode), None where unknown."""

    devices: tuple[VerbsDevice, ...]
    exclusive: bool | None
