"""Whether this node may be probed now. Pure: what was seen goes in, every reason against comes out.

Free is *unallocated* (no scheduler has given it, or a GPU of it, to anybody) and *idle* (nothing runs on it) and
*allowed* (by the operator's limits). A source that is not there has no say; one that is there and fails means busy.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from exporter.hardware.gpu_load import GpuLoad


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason against a probe: a word, for the label of a metric, and what it is about."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        """For people."""
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


@dataclass(frozen=True, slots=True)
class Allocations:
    """What one scheduler says: who holds the node or a GPU of it; `failure` is why it could not be asked, or ''."""

    source: str
    holders: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class NicLoad:
    """A port's busier direction, as a share of its rate, over the polls."""

    subject: str
    utilisation: float


@dataclass(frozen=True, slots=True)
class Situation:
    """What was seen of the node. Sources that are not there are in none of it.

    `gpus` is None where there is no NVML; of each GPU the highest of several polls. `failures` are the sources that
    are there and did not answer: `(source, why)`.
    """

    allocations: tuple[Allocations, ...] = ()
    gpus: tuple[GpuLoad, ...] | None = None
    nics: tuple[NicLoad, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Permission:
    """What has been used and said: seconds since the last probe (None: never), use of the last hour, and flags.

    `locked`: another probe runs on this node. `stuck`: a process of an earlier probe that nothing could end.
    `why_paused` where the pause can't be read; `unusable`: why the journal can't be, '' where it can.
    """

    since_last: float | None = None
    seconds_used: float = 0.0
    bytes_used: int = 0
    paused: bool = False
    why_paused: str = ""
    unusable: str = ""
    quiet: bool = False
    locked: bool = False
    stuck: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's: seconds between probes, use in an hour. The last three say what still counts as idle."""

    min_gap: float = 6 * 3600.0
    max_seconds: float = 60.0
    max_bytes: int = 64 << 30
    gpu_memory: int = 1 << 30
    gpu_utilisation: int = 0
    nic_utilisation: float = 0.05


def allowed(permission: Permission, limits: Limits) -> Iterator[Refusal]:
    """What the operator's limits have against it."""
    if permission.paused:
        yield Refusal("paused", permission.why_paused)
    if permission.unusable:
        yield Refusal("journal_unusable", permission.unusable)
    if permission.quiet:
        yield Refusal("quiet")
    if permission.since_last is not None and permission.since_last < limits.min_gap:
        yield Refusal("min_gap", f"{permission.since_last:.0f} s since the last")
    if permission.seconds_used >= limits.max_seconds:
        yield Refusal("budget", f"{permission.seconds_used:.0f} s in the last hour")
    if permission.bytes_used >= limits.max_bytes:
        yield Refusal("budget", f"{permission.bytes_used / 2**30:.1f} GiB in the last hour")
    if permission.locked:
        yield Refusal("locked", "another probe runs")
    if permission.stuck:
        yield Refusal("stuck", f"process group {permission.stuck} of an earlier probe does not end")


def idle(situation: Situation, limits: Limits) -> Iterator[Refusal]:
    """What the node itself has against it, before a probe."""
    yield from work(situation, frozenset(), 0)
    for gpu in situation.gpus or ():
        if gpu.mig:
            yield Refusal("mig", gpu.subject)
        if gpu.utilisation is not None and gpu.utilisation > limits.gpu_utilisation:
            yield Refusal("gpu_busy", f"{gpu.subject}: {gpu.utilisation} %")
        if gpu.memory is not None and gpu.memory > limits.gpu_memory:
            yield Refusal("gpu_memory", f"{gpu.subject}: {gpu.memory >> 20} MiB used")
    for nic in situation.nics:
        if nic.utilisation >= limits.nic_utilisation:
            yield Refusal("nic_busy", f"{nic.subject}: {100 * nic.utilisation:.0f} %")


def work(situation: Situation, ours: frozenset[int], unknown: int) -> Iterator[Refusal]:
    """Whose the node is, as far as that can be told during a probe too, whose own load is no argument.

    `ours` are the probe's processes; `unknown` is how many more a GPU may show, where NVML counts processes in
    another PID namespace than ours.
    """
    for said in situation.allocations:
        if said.failure:
            yield Refusal(f"{said.source}_unreadable", said.failure)
        elif said.holders:
            yield Refusal(f"{said.source}_allocation", _few(said.holders))
    for source, why in situation.failures:
        yield Refusal(f"{source}_unreadable", why)
    for gpu in situation.gpus or ():
        if gpu.failure:
            yield Refusal("nvml_unreadable", f"{gpu.subject}: {gpu.failure}")
        others = [pid for pid in gpu.processes if pid not in ours]
        if len(others) > unknown:
            yield Refusal("gpu_process", f"{gpu.subject}: {_few(str(pid) for pid in others)}")


def _few(words: Iterable[str]) -> str:
    """The first three, and how many more."""
    listed = list(words)
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return ", ".join(listed[:3]) + more
