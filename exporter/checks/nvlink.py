"""NVLinks: which carry traffic, how much, and with what errors. From NVML."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from exporter.checks.base import Keeper, Report
from exporter.hardware.base import GpuSource
from exporter.history import History
from exporter.judge.gpus import judge_nvlinks, link_subject
from exporter.metrics import Sample, counter, gauge, info
from exporter.model_gpu import Gpu, NvLink

NAME = "nvlink"
PerLink = Literal["none", "basic", "all"]


class LinkLabels(NamedTuple):
    """A link of a GPU; `link` has two digits."""

    gpu: str
    link: str


class CountLabels(NamedTuple):
    """Links by what they are: active, inactive, expected to be active; disabled in MIG mode."""

    gpu: str
    state: str


class GpuErrorLabels(NamedTuple):
    """A type of error, over all links of a GPU."""

    gpu: str
    type: str


class LinkErrorLabels(NamedTuple):
    """A type of error, or of error ratio, of one link."""

    gpu: str
    link: str
    type: str


class RemoteLabels(NamedTuple):
    """What is at the other end; empty where the driver does not say (the address of an NVSwitch mostly)."""

    gpu: str
    link: str
    remote_type: str
    remote_pci_address: str
    remote_link: str


UP = gauge(
    "nvlink_up",
    "1 if the link is active or asleep, 0 if inactive or barred from traffic; absent in MIG mode, where the driver "
    "calls every link down. From NVML field 165, else nvmlDeviceGetNvLinkState.",
    LinkLabels,
)
BYTES = {
    "receive_bytes": counter(
        "nvlink_receive_bytes_total",
        "Payload received. From NVML field 204, else 139 (KiB) x 1024.",
        LinkLabels,
    ),
    "transmit_bytes": counter(
        "nvlink_transmit_bytes_total",
        "Payload transmitted. From NVML field 202, else 138 (KiB) x 1024.",
        LinkLabels,
    ),
}
LINKS = gauge(
    "nvlink_links",
    "Links by state; `expected` is expect.nvlinks_per_gpu of the configuration, else the number that most GPUs of "
    "this model have active. From NVML.",
    CountLabels,
)
GPU_ERRORS = counter(
    "gpu_nvlink_errors_total",
    "Errors by type, over all links. From nvmlDeviceGetNvLinkErrorCounter; on Blackwell and later "
    "NVML fields 206-212, 214, 215, 219, 221.",
    GpuErrorLabels,
)
SPEED = gauge(
    "nvlink_speed_bytes_per_second",
    "Line rate of one direction; a bad link goes inactive rather than slow. From NVML field 164.",
    LinkLabels,
)
ERRORS = counter("nvlink_errors_total", "Errors of one link by type; see gpu_nvlink_errors_total.", LinkErrorLabels)
BIT_ERROR_RATIO = gauge(
    "nvlink_bit_error_ratio",
    "Errored bits per bit, after (effective) and before (symbol) retransmission. From NVML fields 220, 222.",
    LinkErrorLabels,
)
REMOTE = info(
    "nvlink_remote_info",
    "What is at the other end of a link; the value is 1. From nvmlDeviceGetNvLinkRemote*, NVML field 146.",
    RemoteLabels,
)
MIN_LIKE = 2
"""Like GPUs that must agree before a number of links is expected of the others."""


@dataclass(frozen=True, slots=True)
class NvlinkSettings:
    """How much is shown of each link, and how many active ones a GPU should have (None: what like GPUs have)."""

    per_link: PerLink = "basic"
    expected: int | None = None


class NvlinkCheck:
    """Reads the GPUs' links, remembers their error counts, and judges them."""

    def __init__(self, source: GpuSource, settings: NvlinkSettings, keeper: Keeper | None = None) -> None:
        self._source = source
        self._settings = settings
        self._keeper = keeper
        self._counts: dict[str, dict[tuple[int, str], int]] = {}
        self._history = History()
        if keeper is not None:
            keeper.recall(NAME, self._history.load)

    def run(self, now: float) -> Report:
        """See checks.base.Check."""
        reading = self._source.read()
        expected = expected_links(reading.gpus, self._settings.expected)
        found: list[Sample] = []
        for gpu in reading.gpus:
            found += samples(gpu, expected.get(gpu.number), self._settings.per_link)
            found += self._errors(gpu)
            for link in gpu.links:
                self._history.note(now, link_subject(gpu, link), link.errors, {})
        if self._keeper is not None:
            self._keeper.keep(NAME, self._history.dump, urgent=False)
        silent = {gpu.subject for gpu in reading.gpus if not gpu.up}
        own = (fault for fault in reading.faults if "/" in fault.subject or fault.subject in silent)
        active = sum(_active(gpu) for gpu in reading.gpus)
        return Report(
            tuple(found),
            tuple(own),
            findings=tuple(judge_nvlinks(reading.gpus, expected, self._history, now)),
            seen=f"{active} NVLinks active",
        )

    def _errors(self, gpu: Gpu) -> Iterator[Sample]:
        """Errors by type. A link that does not answer counts as it last did: a sum that falls looks like a reset."""
        if not gpu.links:
            return
        counts = self._counts.setdefault(gpu.uuid, {})
        counts.update({(link.number, kind): count for link in gpu.links for kind, count in link.errors.items()})
        totals: Counter[str] = Counter()
        for (_, kind), count in counts.items():
            totals[kind] += count
        for kind, total in totals.items():
            yield GPU_ERRORS(GpuErrorLabels(str(gpu.number), kind), total)


def expected_links(gpus: Sequence[Gpu], configured: int | None) -> Mapping[int, int]:
    """Active links that each GPU should have, by its number; a GPU is not in it where nothing is known.

    Without configuration: the commonest number among GPUs of one model, where more than half of them, and at
    least two, agree. If that is none at all, the links of a GPU that is in a fabric or on an SXM board, which
    has them wired, are all expected; PCIe cards without bridges are as they should be.
    """
    told = [gpu for gpu in gpus if gpu.links and not gpu.mig and all(link.up is not None for link in gpu.links)]
    counts: dict[str, list[int]] = defaultdict(list)
    for gpu in told:
        counts[gpu.model].append(_active(gpu))
    expected = {}
    for gpu in gpus:
        if configured is not None:
            expected[gpu.number] = configured
            continue
        seen = counts.get(gpu.model, [])
        usual, agreeing = Counter(seen).most_common(1)[0] if seen else (0, 0)
        if gpu.mig or agreeing < MIN_LIKE or agreeing * 2 <= len(seen):
            continue
        wired = gpu.fabric is not None or "SXM" in gpu.model
        expected[gpu.number] = gpu.link_count if usual == 0 and wired and gpu.link_count else usual
    return expected


def samples(gpu: Gpu, expected: int | None, per_link: PerLink) -> Iterator[Sample]:
    """Everything that one GPU's links say in numbers."""
    number = str(gpu.number)
    if gpu.link_count:
        yield from _counts(gpu, number)
    if expected is not None:
        yield LINKS(CountLabels(number, "expected"), expected)
    if per_link != "none":
        for link in gpu.links:
            labels = LinkLabels(number, f"{link.number:02}")
            yield from _basic(link, labels)
            if per_link == "all":
                yield from _detail(link, labels)


def _counts(gpu: Gpu, number: str) -> Iterator[Sample]:
    """How many links are what; nothing where a link's state could not be read."""
    if gpu.mig:
        yield LINKS(CountLabels(number, "disabled"), gpu.link_count or 0)
    elif gpu.links and all(link.up is not None for link in gpu.links):
        active = _active(gpu)
        yield LINKS(CountLabels(number, "active"), active)
        yield LINKS(CountLabels(number, "inactive"), len(gpu.links) - active)


def _active(gpu: Gpu) -> int:
    return sum(link.up is True for link in gpu.links)


def _basic(link: NvLink, labels: LinkLabels) -> Iterator[Sample]:
    if link.up is not None:
        yield UP(labels, int(link.up))
    for name, metric in BYTES.items():
        value: int | None = getattr(link, name)
        if value is not None:
            yield metric(labels, value)


def _detail(link: NvLink, labels: LinkLabels) -> Iterator[Sample]:
    if link.speed is not None:
        yield SPEED(labels, link.speed)
    for kind, count in link.errors.items():
        yield ERRORS(LinkErrorLabels(*labels, kind), count)
    for kind, ratio in link.bit_error_ratios.items():
        yield BIT_ERROR_RATIO(LinkErrorLabels(*labels, kind), ratio)
    if link.remote_type:
        remote = "" if link.remote_link is None else str(link.remote_link)
        yield REMOTE(RemoteLabels(*labels, link.remote_type, link.remote_pci_address, remote), 1)
