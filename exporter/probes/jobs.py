"""What to measure on a node: all its GPUs at once, and its NICs two by two; and what is comparable with what. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from exporter.hardware.gpu_load import GpuLoad
from exporter.model import Port, Role
from exporter.probes.protocol import SMALL, Algorithm, Deadlines, Flow, Nic, Scope, Spec
from exporter.rails import Assignment, Subject

WAYS = ("P2P", "P2P SHM", "SHM")
"""How NCCL connects the GPUs of a node, best first: by NVLink or PCIe, partly so, through the host's memory."""
Pair = tuple[Nic, Nic]


def intra(
    size: int, gpus: Sequence[GpuLoad] | None, slow_below: float, deadlines: Deadlines, algorithm: Algorithm = "ring"
) -> Spec:
    """An all-reduce over all GPUs; where NVML is not there, over those that CUDA shows."""
    uuids = _uuids(gpus)
    return Spec("", "intra", size, algorithm=algorithm, gpus=uuids, slow_below=slow_below, deadlines=deadlines)


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


def pairs(found: Sequence[Nic], turn: int) -> Iterator[Pair]:
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


def loopback(size: int, pair: Pair | None, sysfs: str, deadlines: Deadlines) -> Spec:
    """One pair of NICs; None: the engines will say that two are needed."""
    return Spec("", "loopback", size, gpus=_beside(pair), nics=pair or (), sysfs=sysfs, deadlines=deadlines)


def latency(pair: Pair | None, gpus: Sequence[GpuLoad] | None, sysfs: str, deadlines: Deadlines) -> Spec:
    """The small operation alone, of a pair of NICs; None: of all GPUs."""
    uuids = _beside(pair) if pair else _uuids(gpus)
    return Spec("", "latency", SMALL, gpus=uuids, nics=pair or (), sysfs=sysfs, deadlines=deadlines)


def key(  # noqa: PLR0913 - by so much do numbers differ
    scope: Scope,
    engine: str,
    size: int,
    source: str = "",
    target: str = "",
    algorithm: Algorithm = "ring",
    way: str = "",
) -> str:
    """Under which the usual value of a link is kept: numbers of another engine, size, algorithm or way are others."""
    apart = [algorithm] if algorithm != "ring" else []
    return "/".join((scope, engine, str(size), *apart, *([way] if way else []), f"{source}>{target}"))


def key_of(spec: Spec, flow: Flow) -> str:
    """The same of what was measured."""
    return key(spec.scope, spec.engine, flow.size, flow.source, flow.target, spec.algorithm, way(flow))


def usual(spec: Spec, expected: Callable[[str], float | None], ways: Sequence[str] = WAYS) -> float | None:
    """What all GPUs together usually give, by the best of these ways for which that is known."""
    keys = (key("intra", spec.engine, spec.size, algorithm=spec.algorithm, way=one) for one in ways)
    return next((value for value in map(expected, keys) if value is not None), None)


def way(flow: Flow) -> str:
    """Of all GPUs together, one of WAYS. '' for a pair: NCCL's log, which tells of all before it, does not say."""
    if flow.kind != "allreduce":
        return ""
    taken = {one.partition("/")[0] for one in flow.transport.split()}
    return "P2P" if "SHM" not in taken else "SHM" if taken == {"SHM"} else "P2P SHM"


def fell_back(spec: Spec, flows: Sequence[Flow], expected: Callable[[str], float | None]) -> str:
    """Why these are no numbers of the links: NCCL went a worse way than these GPUs usually have; '' where it did not.

    Shared memory is right where GPUs have nothing better, so only their own past tells that they have.
    """
    for flow in flows:
        taken = way(flow)
        if taken and usual(spec, expected, WAYS[: WAYS.index(taken)]) is not None:
            return f"NCCL took {flow.transport}, and usually connects these GPUs better"
    return ""


def _uuids(gpus: Sequence[GpuLoad] | None) -> tuple[str, ...]:
    return tuple(gpu.uuid for gpu in gpus or () if gpu.uuid)


def _beside(pair: Pair | None) -> tuple[str, ...]:
    """The GPUs of a pair's NICs, where each has one."""
    uuids = tuple(nic.gpu for nic in pair or ())
    return uuids if all(uuids) else ()


def _rail(where: Assignment | None) -> tuple[bool, int]:
    return (where is None or where.rail is None, where.rail or 0 if where else 0)
