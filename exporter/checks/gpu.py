"""GPUs as members of the network: presence, fabric, PCIe link, throttling, Xid errors. From NVML."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from exporter.checks.base import Keeper, Report
from exporter.hardware.base import GpuSource, NoXids, XidSource
from exporter.history import History
from exporter.judge.gpus import HOUR, counted, judge_gpus, missed
from exporter.life import Life, dump, live, load
from exporter.metrics import Sample, counter, gauge, info
from exporter.model import Released, Unavailable
from exporter.model_gpu import Gpu, Gpus, XidLine

NAME = "gpu"
MOST_LINES = 1000


class GpuLabels(NamedTuple):
    """A GPU, by NVML's index when it was first seen."""

    gpu: str


class GpuInfoLabels(NamedTuple):
    """What stands still about a GPU; empty where unknown. UUID and PCI address are what it is known by for good."""

    gpu: str
    uuid: str
    pci_address: str
    model: str
    driver_version: str
    numa_node: str
    serial: str


class ConditionLabels(NamedTuple):
    """Something that may be wrong with a GPU's place in the NVLink fabric."""

    gpu: str
    condition: str


class ThrottleLabels(NamedTuple):
    """What held the clocks down."""

    gpu: str
    reason: str


class XidLabels(NamedTuple):
    """An error of the driver, by NVIDIA's number for it."""

    gpu: str
    xid: str


INFO = info(
    "gpu_info",
    "A GPU; the value is 1. From NVML; numa_node from /sys/bus/pci/devices/<pci_address>.",
    GpuInfoLabels,
)
UP = gauge(
    "gpu_up",
    "1 if the GPU answers, 0 if it was there before and does not (off the bus, or it needs a reset). From NVML.",
    GpuLabels,
)
FABRIC_STATE = gauge(
    "gpu_fabric_state",
    "How far the GPU has joined its NVLink fabric: 1 not started, 2 in progress, 3 completed. "
    "From nvmlDeviceGetGpuFabricInfoV.",
    GpuLabels,
)
FABRIC_STATUS = gauge(
    "gpu_fabric_status",
    "How joining the fabric ended, an nvmlReturn: 0 well; only once completed. From nvmlDeviceGetGpuFabricInfoV.",
    GpuLabels,
)
FABRIC_UNHEALTHY = gauge(
    "gpu_fabric_unhealthy",
    "1 if the driver reports this condition, 0 if it reports that all is well; absent where it does not say. "
    "From the health mask and summary of nvmlDeviceGetGpuFabricInfoV.",
    ConditionLabels,
)
THROTTLE = counter(
    "gpu_throttle_seconds_total",
    "Time the clocks were held down, by reason. From NVML fields 74, 76, 269, 270, 271 (nanoseconds).",
    ThrottleLabels,
)
PCIE = {
    "generation": gauge(
        "gpu_pcie_generation",
        "PCIe generation now; it falls while the GPU idles. From nvmlDeviceGetCurrPcieLinkGeneration.",
        GpuLabels,
    ),
    "width": gauge("gpu_pcie_width", "PCIe lanes now. From nvmlDeviceGetCurrPcieLinkWidth.", GpuLabels),
    "max_generation": gauge(
        "gpu_pcie_max_generation",
        "PCIe generation that GPU and slot can do together. From nvmlDeviceGetMaxPcieLinkGeneration.",
        GpuLabels,
    ),
    "max_width": gauge(
        "gpu_pcie_max_width",
        "PCIe lanes that GPU and slot have in common. From nvmlDeviceGetMaxPcieLinkWidth.",
        GpuLabels,
    ),
    "replays": counter(
        "gpu_pcie_replays_total", "PCIe packets sent again. From nvmlDeviceGetPcieReplayCounter.", GpuLabels
    ),
}
XIDS = counter(
    "gpu_xid_errors_total",
    "Xid errors since the daemon began to watch; 74 (NVLink) and 79 (off the bus) are shown from 0. "
    "From NVML's events.",
    XidLabels,
)


class GpuCheck:
    """Reads the GPUs and judges them. `wanted` is how many the node should have, None where nobody said.

    `xids` is the kernel's log, which knows more of an Xid than NVML's events do.
    """

    def __init__(
        self,
        source: GpuSource,
        keeper: Keeper | None = None,
        wanted: int | None = None,
        xids: XidSource | None = None,
    ) -> None:
        self._source = source
        self._keeper = keeper
        self._wanted = wanted
        self._xids = xids or NoXids()
        self._lines: tuple[XidLine, ...] = ()
        self._history = History()
        self._lives: dict[str, Life] = {}
        if keeper is not None:
            keeper.recall(NAME, self._load)

    def run(self, now: float) -> Report:
        """See checks.base.Check."""
        reading = self._read(now)
        before = dict(self._lives)
        for gpu in reading.gpus:
            self._note(gpu, now)
        self._miss(reading, now, len(before))
        self._lines = tuple(line for line in (*self._lines, *self._xids.read()) if line.at > now - HOUR)[-MOST_LINES:]
        findings = tuple(judge_gpus(reading.gpus, self._history, now, self._lives, self._wanted, self._lines))
        if self._keeper is not None:
            changed = any(before.get(uuid) is not life for uuid, life in self._lives.items())
            self._keeper.keep(NAME, self._dump, urgent=changed)
        own = tuple(fault for fault in reading.faults if "/" not in fault.subject)
        up = sum(gpu.up for gpu in reading.gpus)
        return Report(
            tuple(sample for gpu in reading.gpus for sample in samples(gpu)),
            own,
            findings=findings,
            seen=f"{up} of {len(reading.gpus)} GPUs up",
        )

    def _read(self, now: float) -> Gpus:
        """No GPU at all is one more that is missing, where GPUs were seen before or are expected."""
        try:
            return self._source.read()
        except Released:
            raise
        except Unavailable:
            if not self._wanted and not any(missed(life, now) for life in self._lives.values()):
                raise
            return Gpus(())

    def _note(self, gpu: Gpu, now: float) -> None:
        """Take a GPU into the history; an Xid that shows up for the first time came after none."""
        values = counted(gpu)
        new = {name: 0.0 for name in values if name.startswith("xid:") and not self._history.knows(gpu.subject, name)}
        self._history.note(now - 1, gpu.subject, new, {})
        self._history.note(now, gpu.subject, values, {})
        life = self._lives.get(gpu.uuid) or Life(role="gpu", since=now)
        if life.subject != gpu.subject:
            life = replace(life, subject=gpu.subject)
        self._lives[gpu.uuid] = live(life, now, gpu.up, None)

    def _miss(self, reading: Gpus, now: float, known: int) -> None:
        """GPUs that are listed no more, of `known` before; one that was exchanged for another is forgotten."""
        present = {gpu.uuid for gpu in reading.gpus}
        absent = [uuid for uuid in self._lives if uuid not in present]
        for uuid in absent:
            self._lives[uuid] = live(self._lives[uuid], now, None, None)
        if absent and len(present) >= known:
            for uuid in absent:
                del self._lives[uuid]

    def _dump(self, to_wall: float) -> dict[str, Any]:
        return {"history": self._history.dump(to_wall), "lives": dump(self._lives, to_wall)}

    def _load(self, content: Mapping[str, Any], now: float, to_wall: float, same_boot: bool) -> None:
        lives = load(content["lives"], now, to_wall, same_boot)
        self._history.load(content["history"], now, to_wall, same_boot)
        self._lives = lives


def samples(gpu: Gpu) -> Iterator[Sample]:
    """Everything that one GPU says in numbers, its links apart."""
    labels = GpuLabels(str(gpu.number))
    yield UP(labels, int(gpu.up))
    yield INFO(_info(gpu), 1)
    if gpu.fabric is not None:
        yield FABRIC_STATE(labels, gpu.fabric.state)
        if gpu.fabric.status is not None:
            yield FABRIC_STATUS(labels, gpu.fabric.status)
        for condition, wrong in gpu.fabric.conditions.items():
            yield FABRIC_UNHEALTHY(ConditionLabels(labels.gpu, condition), int(wrong))
    for reason, seconds in gpu.throttle.items():
        yield THROTTLE(ThrottleLabels(labels.gpu, reason), seconds)
    for name, metric in PCIE.items():
        value: int | None = getattr(gpu.pcie, name)
        if value is not None:
            yield metric(labels, value)
    for xid, count in (gpu.xids or {}).items():
        yield XIDS(XidLabels(labels.gpu, str(xid)), count)


def _info(gpu: Gpu) -> GpuInfoLabels:
    return GpuInfoLabels(
        gpu=str(gpu.number),
        uuid=gpu.uuid,
        pci_address=gpu.pci_address,
        model=gpu.model,
        driver_version=gpu.driver_version,
        numa_node="" if gpu.numa_node is None else str(gpu.numa_node),
        serial=gpu.serial,
    )
