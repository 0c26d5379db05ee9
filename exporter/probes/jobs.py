"""What to measure on a node: all its GPUs at once, and its NICs two by two. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from exporter.hardware.gpu_load import GpuLoad
from exporter.model import Port, Role
from exporter.probes.protocol import Deadlines, Nic, Scope, Spec
from exporter.rails import Assignment, Subject


def intra(size: int, gpus: Sequence[GpuLoad] | None, slow_below: float, deadlines: Deadlines) -> Spec:
    """An all-reduce over all GPUs; where NVML is not there, over those that CUDA shows."""
    uuids = tuple(gpu.uuid for gpu in gpus or () if gpu.uuid)
    return Spec("", "intra", size, gpus=uuids, slow_below=slow_below, deadlines=deadlines)


def nics(
    ports: Sequence[Port], assignments: Mapping[Subject, Assignment], gpus: Sequence[GpuLoad] | None
) -> tuple[Nic, ...]:
    """The compute ports that carry data, by rail, each with the nearest GPU that no other has.

    Not those of virtual functions, which belong to the guests of this host; software devices (rxe) are welcome.
    """
    taken: set[str] = set()
    found = []
    rails = {port.subject: assignments.get((port.device.name, port.number)) for port in ports}
    for port in sorted(ports, key=lambda one: _rail(rails[one.subject])):
        where = rails[port.subject]
        function = port.device.virtual and port.device.pci_address
        if where is None or where.role is not Role.COMPUTE or not port.active or function:
            continue
        near = [gpu.uuid for gpu in gpus or () if gpu.pci_address and gpu.pci_address in port.device.near_gpus]
        free = [uuid for uuid in [*near, *(gpu.uuid for gpu in gpus or ())] if uuid and uuid not in taken]
        gpu = free[0] if free else ""
        taken.add(gpu)
        found.append(
            Nic(port.device.name, port.number, port.link_layer, port.active, where.rail_label, where.leaf, gpu)
        )
    return tuple(found)


def pairs(found: Sequence[Nic], turn: int) -> Iterator[tuple[Nic, Nic]]:
    """Each NIC once, with another of its leaf, each `turn` with another one: two slow pairs name one NIC.

    Where no leaf is known all are taken together; what lies between two rails is then part of what is measured.
    """
    leaves: dict[str, list[Nic]] = defaultdict(list)
    for nic in found:
        leaves[nic.leaf].append(nic)
    for members in leaves.values():
        seats: list[Nic | None] = [*members, None] if len(members) % 2 else [*members]
        first, rest = seats[:1], seats[1:]
        by = turn % len(rest) if rest else 0
        circle = first + rest[by:] + rest[:by]
        half = len(circle) // 2
        for one, other in zip(circle[:half], reversed(circle[half:]), strict=True):
            if one is not None and other is not None:
                yield one, other


def loopback(size: int, pair: tuple[Nic, Nic] | None, sysfs: str, deadlines: Deadlines) -> Spec:
    """One pair of NICs; None: the engines will say that two are needed."""
    uuids = tuple(nic.gpu for nic in pair or ())
    return Spec(
        "", "loopback", size, gpus=uuids if all(uuids) else (), nics=pair or (), sysfs=sysfs, deadlines=deadlines
    )


def key(scope: Scope, engine: str, size: int, source: str = "", target: str = "") -> str:
    """Under which the usual value of a link is kept: numbers of another engine or size are other numbers."""
    return "/".join((scope, engine, str(size), f"{source}>{target}"))


def _rail(where: Assignment | None) -> tuple[bool, int]:
    return (where is None or where.rail is None, where.rail or 0 if where else 0)
