"""How much of the host's processors goes to others and to interrupts: what a slow probe is judged beside."""

from typing import NamedTuple

from exporter.checks.base import Report
from exporter.hardware.base import HostSource
from exporter.metrics import Sample, gauge
from exporter.model import CpuTimes


class ModeLabels(NamedTuple):
    """What the time went to: `steal` (the hypervisor ran somebody else) or `softirq` (network processing)."""

    mode: str


CPU = gauge(
    "host_cpu_ratio",
    "Share of all processors' time since the previous run that was stolen or spent in soft interrupts. "
    "From /proc/stat.",
    ModeLabels,
)


class HostCheck:
    """Reads the processors' times, and remembers the last ones."""

    def __init__(self, source: HostSource) -> None:
        self._source = source
        self._last: CpuTimes | None = None

    def run(self, now: float) -> Report:  # noqa: ARG002 - the shares need no clock: /proc/stat counts time itself
        """See checks.base.Check."""
        times = self._source.cpu_times()
        before, self._last = self._last, times
        return Report(tuple(shares(before, times)) if before else ())


def shares(before: CpuTimes, after: CpuTimes) -> list[Sample]:
    """The shares between two readings; none where no time passed or a counter fell (a CPU went offline)."""
    total = after.total - before.total
    moved = {"steal": after.steal - before.steal, "softirq": after.softirq - before.softirq}
    if total <= 0 or any(amount < 0 or amount > total for amount in moved.values()):
        return []
    return [CPU(ModeLabels(mode), amount / total) for mode, amount in moved.items()]
