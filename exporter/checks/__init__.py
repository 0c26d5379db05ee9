"""Every check there is. To add one: write its module, and add its line to CHECKS."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exporter.checks.base import Check, Keeper
from exporter.checks.burst import BurstCheck
from exporter.checks.gpu import GpuCheck
from exporter.checks.host import HostCheck
from exporter.checks.infiniband import InfinibandCheck, Settings
from exporter.checks.nvlink import NvlinkCheck, NvlinkSettings
from exporter.checks.roce import RoceCheck
from exporter.checks.verbs import VerbsCheck
from exporter.hardware.base import Hardware
from exporter.judge.views import PortViews
from exporter.rails import Memory


@dataclass(frozen=True, slots=True)
class Parts:
    """What a check may be made of: `remember` keeps the memory of ports across restarts, `recall` gives it back."""

    hardware: Hardware
    ports: Settings
    memory: Memory
    remember: Callable[[Memory], None]
    recall: Callable[[], Memory]
    nvlinks: NvlinkSettings
    keeper: Keeper
    views: PortViews
    wanted_gpus: int | None = None


CHECKS: Mapping[str, Callable[[Parts], Check]] = {
    "burst": lambda parts: BurstCheck(parts.hardware.burst, parts.ports.rules, parts.recall),
    "gpu": lambda parts: GpuCheck(parts.hardware.gpus, parts.keeper, parts.wanted_gpus, parts.hardware.xids),
    "host": lambda parts: HostCheck(parts.hardware.host),
    "infiniband": lambda parts: InfinibandCheck(
        parts.hardware.ports,
        parts.ports,
        parts.memory,
        parts.remember,
        parts.hardware.gpus.numbers,
        parts.keeper,
        parts.views,
    ),
    "nvlink": lambda parts: NvlinkCheck(parts.hardware.gpus, parts.nvlinks, parts.keeper),
    "roce": lambda parts: RoceCheck(parts.hardware.detail, parts.views, parts.keeper),
    "verbs": lambda parts: VerbsCheck(parts.hardware.verbs),
}
