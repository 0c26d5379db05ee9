"""Simulated GPUs: a worker that answers as the NVML worker does, with the quirks of the real thing; and their
PCI functions in the simulated sysfs. What it says goes through the real client and decoder.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from exporter.hardware import nvml_codes as codes
from exporter.hardware.affinity import GpuFunctions
from exporter.hardware.gpu_scenarios import GpuChange, GpuNode
from exporter.hardware.nvml_client import Means, NvmlGpus
from exporter.hardware.scenarios import traffic

UINT, ULONGLONG = 1, 3
RUBBISH = 0xDEADBEEF << 32
"""What the upper half of the union holds beside a 32-bit value."""
DEADLINE = 5.0
Row = tuple[int, int, int, int]


class SimulatedWorker:
    """See nvml_client.Worker. `elapsed` is the scenario's time, of which all that it says is a function."""

    def __init__(self, node: GpuNode, elapsed: Callable[[], float]) -> None:
        self._node = node
        self._elapsed = elapsed

    @property
    def alive(self) -> bool:
        """Never left behind: there is no process."""
        return False

    def ask(self, request: bytes, seconds: float) -> bytes:  # noqa: ARG002 - one request is all there is, and a hang costs no time here
        """See nvml_client.Worker."""
        now = self._elapsed()
        if self._node.hang_since is not None and now >= self._node.hang_since:
            raise TimeoutError
        return json.dumps(message(self._node, now)).encode() + b"\n"

    def close(self, seconds: float = 0.0) -> bool:  # noqa: ARG002 - as above
        """See nvml_client.Worker."""
        return True


def open_gpus(node: GpuNode, sysfs: Path, elapsed: Callable[[], float]) -> NvmlGpus:
    """The GPUs of a simulated node, whose PCI functions are planted under `sysfs`."""
    for index, (pci, nic) in enumerate(node.slots):
        _plant(sysfs, pci, nic, index * 2 // len(node.slots))
    return NvmlGpus(
        Means(
            start=lambda: SimulatedWorker(node, elapsed),
            present=lambda: bool(node.slots),
            released=lambda: False,
            functions=GpuFunctions(sysfs),
            clock=elapsed,
            deadline=DEADLINE,
        )
    )


def _plant(sysfs: Path, pci: str, nic: str, numa: int) -> None:
    """A PCI function beside that of its NIC, under whatever bridges that has."""
    device = sysfs / "class/infiniband" / nic / "device"
    parent = device.resolve().parent if nic and device.exists() else sysfs / "devices" / f"pci{pci[:7]}"
    function = parent / pci
    function.mkdir(parents=True)
    (function / "uevent").write_text(f"DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME={pci}\n")
    (function / "numa_node").write_text(f"{numa}\n")
    listed = sysfs / "bus/pci/devices" / pci
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.symlink_to(function)


def message(node: GpuNode, now: float) -> Mapping[str, Any]:
    """What the worker would say at this time."""
    uuids = [f"GPU-00000000-5157-4000-8000-{index:012x}" for index in range(len(node.slots))]
    return {
        "init": codes.SUCCESS,
        "call": "",
        "driver": node.driver,
        "gpus": [
            _gpu(node, index, uuids[index], node.changes.get(index, GpuChange()), now) for index in range(len(uuids))
        ],
        "xids": [
            (uuids[index], xid, sum(of == xid and at <= now for of, at in change.xids))
            for index, change in node.changes.items()
            for xid in sorted({of for of, at in change.xids if at <= now})
        ],
        "watched": uuids,
    }


def _gpu(node: GpuNode, index: int, uuid: str, change: GpuChange, now: float) -> Mapping[str, Any]:
    if change.lost_since is not None and now >= change.lost_since:
        what = ("nvmlDeviceGetFieldValues", codes.GPU_IS_LOST, -1)
        return {"index": index, "uuid": uuid, "lost": codes.GPU_IS_LOST, "faults": [what]}
    model, pci = node.model, node.slots[index][0]
    states = {link: int(link not in change.down) for link in range(model.links)}
    rows: list[Row] = [(codes.LINK_COUNT, 0, UINT, model.links | RUBBISH)]
    rows += [
        (field, 0, ULONGLONG, int((index * 0.05 + now * change.throttle.get(field, 0.0)) * 1e9))
        for field in codes.THROTTLE_FIELDS
    ]
    for link, state in states.items():
        rows += _link(node, index, link, state, now)
    return {
        "index": index,
        "uuid": uuid,
        "pci": pci,
        "name": model.name,
        "serial": f"15621230{index:05}",
        "mig": int(change.mig),
        "walked": model.links,
        "fields": rows,
        "states": [] if model.by_field else list(states.items()),
        "errors": [] if model.blackwell else list(_counters(model.links, change, now)),
        "bytes": model.source,
        "remotes": [(link, 2, "") for link in states] if model.fabric else [],
        "fabric": change.fabric or model.fabric,
        "pcie": {
            "generation": model.pcie_generation if node.load else 1,
            "width": 16,
            "max_generation": model.pcie_generation,
            "max_width": 16,
            "replays": index % 3,
        },
        "faults": [],
    }


def _link(node: GpuNode, index: int, link: int, state: int, now: float) -> Iterator[Row]:
    model = node.model
    if model.by_field:
        yield codes.STATE, link, UINT, state | RUBBISH
        yield codes.SPEED, link, UINT, model.speed | RUBBISH
    if model.source:
        transmit, receive, unit = codes.BYTE_SOURCES[model.source]
        per_second = node.load * model.speed * 1e6 / unit * state
        for field, phase in ((transmit, 0.4), (receive, 0.0)):
            yield field, link, ULONGLONG, traffic((3 + index) * 10**14 // unit + field, per_second, phase)(now)
    if model.blackwell:
        for field in codes.ERROR_FIELDS:
            yield field, link, ULONGLONG, 0
        for field in codes.BIT_ERROR_FIELDS:
            yield field, link, UINT, 0xFFF


def _counters(links: int, change: GpuChange, now: float) -> Iterator[tuple[int, int, int]]:
    for link in range(links):
        for counter in codes.ERROR_COUNTERS:
            yield link, counter, int(change.errors.get((link, counter), 0.0) * now)
