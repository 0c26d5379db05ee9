"""What the GPUs and their NVLinks said, in plain frozen values. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.model import Fault

UP_STATES = frozenset({1, 2})
"""NVLink states that count as up: active, and asleep (it wakes by itself). 3 is trained but carries no traffic."""
FABRIC_COMPLETED = 3
"""`state` of a GPU that has joined its NVLink fabric; only then does `status` mean anything."""


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink of a GPU, as read in one poll; None, or not in a mapping, where the driver does not say.

    `state` is field 165, else nvmlDeviceGetNvLinkState: 0 inactive, 1 active, 2 asleep, 3 traffic disabled.
    `receive_bytes` and `transmit_bytes` are payload since the driver was loaded: fields 204/202, else 139/138 x
    1024. `speed` is the line rate of one direction in bytes/s: field 164 x 10^6. `errors` are counts by type
    (see hardware/nvml_codes.py), `bit_error_ratios` are fields 220 (effective) and 222 (symbol). The peer:
    `remote_type` is gpu, switch or ibmnpu, `remote_link` field 146.
    """

    number: int
    state: int | None = None
    receive_bytes: int | None = None
    transmit_bytes: int | None = None
    speed: float | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    bit_error_ratios: Mapping[str, float] = field(default_factory=dict)
    remote_type: str = ""
    remote_pci_address: str = ""
    remote_link: int | None = None

    @property
    def up(self) -> bool | None:
        """Whether it carries traffic, or would if there were any; None where unknown."""
        return None if self.state is None else self.state in UP_STATES


@dataclass(frozen=True, slots=True)
class Fabric:
    """nvmlDeviceGetGpuFabricInfoV, else ...Info: how far the GPU is in joining its NVLink fabric.

    `state`: 1 not started, 2 in progress, 3 completed. `status` is an nvmlReturn, None until completed.
    `conditions` says of each thing that the driver reports whether it is wrong; what it does not is not in it.
    """

    state: int
    status: int | None = None
    conditions: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pcie:
    """The GPU's own PCIe link: generation and lanes now, and the most that GPU and slot can do together.

    nvmlDeviceGet{Curr,Max}PcieLink{Generation,Width}, nvmlDeviceGetPcieReplayCounter. The generation falls while
    the GPU idles: that is no fault.
    """

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    replays: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `up` is False for one that was there before and does not answer now: then the rest is empty.

    `number` is NVML's index when the GPU was first seen, and stays with its UUID while the daemon runs.
    `link_count` is what the chip has (field 91), None where unknown. `throttle` is seconds by reason since the
    driver was loaded. `xids` counts errors by Xid since the daemon began to watch; it is None where the driver
    takes no registration. `mig` is whether Multi-Instance mode is on: NVML then calls every link down.
    """

    number: int
    uuid: str
    pci_address: str = ""
    model: str = ""
    driver_version: str = ""
    serial: str = ""
    numa_node: int | None = None
    up: bool = True
    mig: bool = False
    link_count: int | None = None
    links: tuple[NvLink, ...] = ()
    fabric: Fabric | None = None
    throttle: Mapping[str, float] = field(default_factory=dict)
    pcie: Pcie = Pcie()
    xids: Mapping[int, int] | None = None

    @property
    def subject(self) -> str:
        """The GPU in a finding or a message: `gpu3`."""
        return f"gpu{self.number}"


@dataclass(frozen=True, slots=True)
class XidLine:
    """An Xid as the kernel's log told it.

    `at` is seconds since boot (monotonic), `pci_address` without the function (`0000:d8:00`). `fatal` is what the
    line says of itself, None where it does not; `link` the NVLink, None where it names none.
    """

    at: float
    pci_address: str
    xid: int
    fatal: bool | None = None
    link: int | None = None


@dataclass(frozen=True, slots=True)
class Gpus:
    """Every GPU of the node by number, those that are lost included, and what could not be read."""

    gpus: tuple[Gpu, ...]
    faults: tuple[Fault, ...] = ()
