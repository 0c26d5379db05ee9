"""What the hardware said, in plain frozen values; and the two errors that are not bugs. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class UserError(Exception):
    """What an operator did wrong: lines that say what and where; the command exits 2."""


class Unavailable(Exception):  # noqa: N818 - absence is not an error
    """This node has no such hardware. Quiet, unless the check was declared `enabled: true`."""


class Released(Unavailable):
    """Let go of for maintenance, because an operator asked for it: what is not seen now is not missed."""


class SourceError(Exception):
    """A whole source is there and could not be read; `reason` becomes a label value."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that should have answered and did not: the rest of the reading stands.

    `reason` is an errno name in lower case (`einval`, `eio`, `enoent`), or `not_a_number`, `too_many_ports`,
    `too_many_series`; `subject` is a device, or a device and port (`mlx5_1/1`); `detail` names the file.
    """

    source: str
    subject: str
    reason: str
    detail: str


class Severity(StrEnum):
    """How bad a finding is. `info` counts for nothing in the verdict; `unknown` is never healthy."""

    INFO = "info"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"
    CRITICAL = "critical"


Evidence = Mapping[str, str | int | float | bool | tuple[str, ...] | None]
"""What a finding rests on, by name; base units (bytes/s, seconds, ratios)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that people should know of.

    `subject` is `mlx5_1/1`, `mlx5_1/pcie`, `gpu0`, `gpu0/link03`, `gpu0/gpu3` (two that talk to each other) or `node`;
    `reason` a name of exporter/reasons; `message` a sentence without its full stop, that begins after the subject:
    "runs at 100 Gbit/s".
    """

    check: str
    subject: str
    severity: Severity
    reason: str
    message: str
    evidence: Evidence = field(default_factory=dict)


class Role(StrEnum):
    """What a NIC is for. East-West traffic is `compute`; the rest is North-South."""

    COMPUTE = "compute"
    STORAGE = "storage"
    MANAGEMENT = "management"
    IGNORE = "ignore"


ACTIVE = 4
"""`ports/N/state` of a port that carries data (IBTA PortState)."""

STATES: Mapping[int, str] = {0: "NOP", 1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
PHYSICAL_STATES: Mapping[int, str] = {
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "Phy Test",
}


@dataclass(frozen=True, slots=True)
class Device:
    """An RDMA device; empty or None where the driver does not say.

    Sources: `/sys/class/infiniband/<name>/{fw_ver,board_id,hca_type,node_guid}`; `driver` is DRIVER= of
    `device/uevent` (never guessed from the name); `pci_address` is the last part of the resolved `device`
    link; `numa_node` is `device/numa_node` where it is not -1; `virtual` is True for an SR-IOV virtual function
    (`device/physfn` exists) and for a software device (no `device` link: rxe, siw); `near_gpus` are the PCI
    addresses of the NVIDIA GPUs nearest to it in its root complex, by the resolved paths.
    """

    name: str
    driver: str = ""
    pci_address: str = ""
    numa_node: int | None = None
    board_id: str = ""
    hca_type: str = ""
    firmware_version: str = ""
    node_guid: str = ""
    virtual: bool = False
    near_gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VendorCounter:
    """A counter file outside the table, chosen by `vendor_counters`: its directory, file name and raw value."""

    group: str
    file: str
    value: int


@dataclass(frozen=True, slots=True)
class Port:
    """One port of an RDMA device, as read in one poll.

    `state` and `physical_state` are the kernel's numbers. `rate` is bytes/s, None unless the port is ACTIVE and
    says a rate: `ports/N/rate` x 125,000,000, or for Ethernet the netdev's `speed` x 125,000 where that is
    positive. `width` is lanes (4 for 4X), `speed` the signalling name (`NDR`). `counters` maps a canonical name
    (`receive_bytes`, `symbol_errors`, see hardware/counters.py) to its value in base units; what could not be
    read is not in it. `saturated` lists the counters, by file name, that stand at their ceiling. `slaves` are
    the netdevs under a bond.
    """

    device: Device
    number: int
    link_layer: str = ""
    state: int | None = None
    physical_state: int | None = None
    rate: float | None = None
    width: int | None = None
    speed: str = ""
    netdev: str = ""
    slaves: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    saturated: tuple[str, ...] = ()
    vendor: tuple[VendorCounter, ...] = ()

    @property
    def subject(self) -> str:
        """The port in a finding or a message: `mlx5_1/1`."""
        return f"{self.device.name}/{self.number}"

    @property
    def active(self) -> bool:
        """Whether the port carries data."""
        return self.state == ACTIVE


@dataclass(frozen=True, slots=True)
class Ports:
    """Every port of the node, in the order of device names, and what could not be read.

    `default_route` holds the netdevs of the default routes (`/proc/net/route`, `/proc/net/ipv6_route`).
    """

    ports: tuple[Port, ...]
    faults: tuple[Fault, ...] = ()
    default_route: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds all CPUs of the host spent since boot, from `/proc/stat`: in all, stolen, and in soft interrupts."""

    total: float
    steal: float
    softirq: float


@dataclass(frozen=True, slots=True)
class PortDetail:
    """What a port's driver counts beside sysfs; what it does not name or could not say is not in it.

    `counters` and `gauges` map a canonical name and the value of its further label (a priority, a severity, or
    '') to base units: `("pfc_pause_received_seconds", "3")` (see hardware/nic_counters.py). Under a bond the
    counters of the slaves are added, and of gauges the worst is taken. `temperature` is the module's, in Celsius.
    """

    device: Device
    number: int
    counters: Mapping[tuple[str, str], float] = field(default_factory=dict)
    gauges: Mapping[tuple[str, str], float] = field(default_factory=dict)
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class PciePath:
    """The PCIe path under a device: usable bytes/s of its slowest link, each way; None where unknown."""

    device: str
    current: float | None
    maximum: float | None


@dataclass(frozen=True, slots=True)
class PortDetails:
    """Every port and device, and what could not be read."""

    ports: tuple[PortDetail, ...]
    paths: tuple[PciePath, ...]
    faults: tuple[Fault, ...] = ()


BURST_BOUNDS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
"""Upper bounds of the buckets of utilisation."""


@dataclass(frozen=True, slots=True)
class BurstDirection:
    """One direction of a port since sampling began.

    `counts` are the samples in each bucket of utilisation (BURST_BOUNDS; not cumulative; the last one is above
    every bound) and `total` is the sum of their utilisations; no sample is counted while the port's rate is not
    known. `peak` is the highest bytes/s of one sample since the last reading, None where there was none.
    """

    counts: tuple[int, ...]
    total: float
    peak: float | None


@dataclass(frozen=True, slots=True)
class BurstReading:
    """The samples of one port; `interval` is how far apart the last two were, in seconds."""

    device: str
    number: int
    receive: BurstDirection
    transmit: BurstDirection
    interval: float | None
