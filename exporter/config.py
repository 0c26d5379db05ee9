"""The configuration: strict, frozen models of one YAML file. What is not known is an error, everything optional."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from exporter.checks import CHECKS
from exporter.model import Role
from exporter.quantities import Address, Duration, Quiet, Rate, Size, address, between, size
from exporter.strict import FilePath, Model, read_model

MAX_TIMEOUT = 5.0
_GLOB = re.compile(r"(?:[\w.:,@+*?-]|\[!?[\w.:,@+*?-]+\])+")


def _glob(value: Any) -> str:
    if not isinstance(value, str) or not _GLOB.fullmatch(value):
        raise ValueError("a glob on names is needed, such as mlx5_* or mlx5_[0-7]")
    return value


def _switch(value: Any) -> Any:
    if value not in (True, False, "auto") or isinstance(value, int) != isinstance(value, bool):
        raise ValueError("true, false or auto is needed")
    return value


def _yes_or_no(value: Any) -> Any:
    if value is True or value is False:
        return value
    raise ValueError("true or false is needed")


def _probe_size(value: int) -> int:
    if not size("1MiB") <= value <= size("4GiB"):
        raise ValueError("a size from 1MiB to 4GiB is needed")
    return value


def _list(value: Any) -> Any:
    """A list whose entries are all commented out reads as null."""
    return () if value is None else value


Glob = Annotated[str, BeforeValidator(_glob)]
Name = Annotated[str, Field(min_length=1, max_length=128)]
Switch = Annotated[bool | Literal["auto"], BeforeValidator(_switch)]
Interval = Annotated[Duration, AfterValidator(between("1s", "1h"))]
Timeout = Annotated[Duration, AfterValidator(between("1ms", "60s"))]


class NodeConfig(Model):
    """What this node is called."""

    name: Name | None = None
    """Default: the host name."""
    labels: dict[Name, Name] = Field(default_factory=dict)
    """`rack` is shown in eastwest_node_info."""

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        if unknown := sorted(set(self.labels) - {"rack"}):
            raise ValueError(f"labels: only rack is known, not {', '.join(unknown)}")
        return self


class NicConfig(Model):
    """What the operator says of NICs; the first entry that matches a device counts."""

    match: Glob
    """A glob on device names."""
    role: Annotated[Role, Field(strict=False)]
    """compute (East-West), storage, management, or ignore (never opened)."""
    rail: int | None = Field(default=None, ge=0, le=255)
    """The rail of a compute NIC; default: numbered in PCI order, and remembered."""
    leaf: Name | None = None
    """The leaf switch it hangs on."""
    cage: Name | None = None
    """The transceiver cage it shares with a twin port."""

    @model_validator(mode="after")
    def _one_rail(self) -> Self:
        if self.rail is not None and self.role is not Role.COMPUTE:
            raise ValueError("rail: only a compute NIC has a rail")
        return self


class PathsConfig(Model):
    """Where the machine is read, and what outlives a restart is kept."""

    sysfs: FilePath = Path("/sys")
    """A container shows the host's where it is mounted; a recorded tree works as well."""
    proc: FilePath = Path("/proc")
    state: FilePath = Path("/var/lib/eastwest")
    """If it can't be written, that is said once, the state is kept in memory, and no probe runs but by hand."""


class LogConfig(Model):
    """What is said on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning or error."""
    format: Literal["text", "json"] = "text"
    """text or json: one line an event either way."""


class WebConfig(Model):
    """Where the daemon is asked."""

    listen: Address = address("0.0.0.0:10428")
    """`host:port`; port 0 takes a free one and logs it."""
    config_file: FilePath | None = None
    """TLS and passwords, as in other exporters' web.yml; see docs/serving.md."""


class CheckConfig(Model):
    """One check."""

    enabled: Switch = "auto"
    """auto: where there is such hardware; true: and it is a failure where there is none."""
    interval: Interval = 15.0
    """From 1s to 1h."""
    timeout: Timeout | None = None
    """A run that takes longer has failed; default: the interval, at most 5s."""

    @property
    def deadline(self) -> float:
        """Seconds a run may take."""
        return self.timeout if self.timeout is not None else min(self.interval, MAX_TIMEOUT)


class InfinibandConfig(CheckConfig):
    """Ports of RDMA devices."""

    interval: Interval = 5.0
    """From 1s to 1h."""
    include: tuple[Glob, ...] = Field(default=(), strict=False)
    """Globs on device names; empty: all. Applied before anything is opened."""
    exclude: tuple[Glob, ...] = Field(default=(), strict=False)
    """Globs on device names that are never opened; wins over include."""
    vendor_counters: tuple[Glob, ...] = Field(default=(), strict=False)
    """Globs on the names of counter files that have no metric of their own."""


class BurstConfig(CheckConfig):
    """Byte counters of compute ports many times a second; reads take at most 1 % of the time."""

    enabled: Switch = False
    """true: it is a failure where there is no such hardware; auto: where there is."""
    sample_interval: Annotated[Duration, AfterValidator(between("10ms", "1s"))] = 0.1
    """From 10ms to 1s."""


class GpuConfig(CheckConfig):
    """GPUs, by NVML: presence, fabric, PCIe link, throttling, Xid errors."""

    interval: Interval = 10.0
    """From 1s to 1h."""


class NvlinkConfig(CheckConfig):
    """NVLinks, by NVML."""

    interval: Interval = 10.0
    """From 1s to 1h."""
    per_link: Literal["none", "basic", "all"] = "basic"
    """Series of each link: none, basic (up, bytes), all (errors, bit error ratios, speed, peer as well)."""


class VerbsConfig(CheckConfig):
    """RDMA as programs see it, by the distribution's pyverbs where it is installed: active MTU, devices that open."""

    interval: Interval = 300.0
    """From 1s to 1h; each run starts a process, and each port answers by its firmware."""
    timeout: Timeout | None = 20.0
    """A run that takes longer has failed; a busy node needs seconds to start a process."""


class ChecksConfig(Model):
    """Every check."""

    infiniband: InfinibandConfig = InfinibandConfig()
    host: CheckConfig = CheckConfig()
    roce: CheckConfig = CheckConfig()
    burst: BurstConfig = BurstConfig()
    gpu: GpuConfig = GpuConfig()
    nvlink: NvlinkConfig = NvlinkConfig()
    verbs: VerbsConfig = VerbsConfig()

    def named(self) -> dict[str, CheckConfig]:
        """The checks by name, in the order of the table."""
        return {name: getattr(self, name) for name in CHECKS}


class ExpectConfig(Model):
    """What the node should have; null: learnt from like devices."""

    ports: int | None = Field(default=None, ge=0, le=256)
    """ACTIVE ports of this role; default: those that have been up before."""
    rate: Rate | None = None
    """Of every port of this role."""


class ExpectationsConfig(Model):
    """What the node should have, by role."""

    compute: ExpectConfig = ExpectConfig()
    storage: ExpectConfig = ExpectConfig()
    gpus: int | None = Field(default=None, ge=0, le=256)
    """GPUs that answer; default: those that have answered before."""
    nvlinks_per_gpu: int | None = Field(default=None, ge=0, le=36)
    """Active NVLinks of every GPU; default: what most GPUs of the same model have."""


class HealthConfig(Model):
    """How findings become a verdict."""

    severity_cap: Literal["info", "degraded"] | None = None
    """Nothing is called worse than this, for the first weeks; null: no cap. What is unknown stays unknown."""


class BudgetConfig(Model):
    """What probes of this node may use."""

    max_seconds_per_hour: int = Field(default=60, ge=1, le=3600)
    """Seconds in which a probe runs, in any hour."""
    max_bytes_per_hour: Size = size("64GiB")
    """Bytes that probes send over the links, in any hour."""


class ProbesConfig(Model):
    """Active measurement, only where the node is proven free; see docs/probes.md."""

    enabled: Annotated[bool, BeforeValidator(_yes_or_no)] = False
    """true: measure this node when it is free."""
    engines: Annotated[tuple[Literal["nccl", "rdma", "tcp"], ...], Field(strict=False, min_length=1)] = (
        "nccl",
        "rdma",
        "tcp",
    )
    """The first that can run here is used; tcp measures between nodes only."""
    min_gap: Annotated[Duration, AfterValidator(between("10s", "30d"))] = 21600.0
    """Between two probes of this node; from 10s to 30d."""
    size: Annotated[Size, AfterValidator(_probe_size)] = size("64MiB")
    """Of one operation, from 1MiB to 4GiB: numbers are comparable at the same size only."""
    algorithm: Literal["ring", "tree", "auto"] = "ring"
    """Of NCCL's all-reduce; auto: its own choice, which changes with its version. Each has usual values of its own."""
    quiet: Annotated[tuple[Quiet, ...], BeforeValidator(_list), Field(strict=False)] = ()
    """Windows without probes, in local time: five fields of cron and a length, `0 8 * * 1-5 for 10h`."""
    budget: BudgetConfig = BudgetConfig()


class Config(Model):
    """The whole file."""

    node: NodeConfig = NodeConfig()
    nics: Annotated[tuple[NicConfig, ...], BeforeValidator(_list)] = Field(default=(), strict=False)
    paths: PathsConfig = PathsConfig()
    log: LogConfig = LogConfig()
    web: WebConfig = WebConfig()
    checks: ChecksConfig = ChecksConfig()
    expect: ExpectationsConfig = ExpectationsConfig()
    health: HealthConfig = HealthConfig()
    probes: ProbesConfig = ProbesConfig()


def load(path: Path | None) -> Config:
    """The configuration in a file, or the defaults. Raises UserError with a line for every mistake."""
    return Config() if path is None else read_model(path, Config)
