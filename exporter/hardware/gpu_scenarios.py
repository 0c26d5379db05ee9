"""The GPUs of simulated nodes: what each has, and what is wrong with it. Synthetic; no real GPU was recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

FabricValues = tuple[int, int, int, int]
"""State, status, health mask, health summary."""
HEALTHY_FABRIC: FabricValues = (3, 0, 0x11AA, 1)


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A kind of GPU. `speed` is field 164 in MB/s; `source` names the byte fields ('' for none).

    `by_field` says whether link states and, on `blackwell`, errors come by field; else by the older calls.
    """

    name: str
    links: int
    speed: int
    source: str = "kib"
    by_field: bool = True
    blackwell: bool = False
    fabric: FabricValues | None = HEALTHY_FABRIC
    pcie_generation: int = 5


@dataclass(frozen=True, slots=True)
class GpuChange:
    """How one GPU differs from a healthy one. Times are seconds of the scenario, rates per second.

    `errors` are rates by link and counter (replay 0, recovery 1, CRC 2); `throttle` is the share of time by
    field; `xids` holds when each Xid came.
    """

    down: frozenset[int] = frozenset()
    lost_since: float | None = None
    errors: Mapping[tuple[int, int], float] = field(default_factory=dict)
    throttle: Mapping[int, float] = field(default_factory=dict)
    xids: tuple[tuple[int, float], ...] = ()
    fabric: FabricValues | None = None
    mig: bool = False


@dataclass(frozen=True, slots=True)
class GpuNode:
    """The GPUs of a node, each at a PCI address, beside a NIC (its device name, or '')."""

    model: GpuModel
    slots: tuple[tuple[str, str], ...]
    changes: Mapping[int, GpuChange] = field(default_factory=dict)
    driver: str = "550.90.07"
    load: float = 0.3
    hang_since: float | None = None


V100 = GpuModel("Tesla V100-SXM2-32GB", 6, 25_781, source="", by_field=False, fabric=None, pcie_generation=3)
A100 = GpuModel("NVIDIA A100-SXM4-80GB", 12, 25_781, by_field=False, fabric=None, pcie_generation=4)
A100_PCIE = replace(A100, name="NVIDIA A100 80GB PCIe")
H100 = GpuModel("NVIDIA H100 80GB HBM3", 18, 26_562)
B200 = GpuModel("NVIDIA B200", 18, 53_125, source="bytes", blackwell=True)

_DGX_SLOTS = tuple(
    (f"0000:{bus}:00.0", nic)
    for bus, nic in (
        ("1b", "mlx5_0"),
        ("43", "mlx5_3"),
        ("52", "mlx5_4"),
        ("61", "mlx5_5"),
        ("9d", "mlx5_6"),
        ("c3", "mlx5_9"),
        ("d1", "mlx5_10"),
        ("df", "mlx5_11"),
    )
)
_CLOUD_SLOTS = tuple(
    (f"0000:{bus}:{slot}.0", f"rdmap{switch}s{27 + half}")
    for bus, switch in (("10", 79), ("20", 96), ("90", 113), ("a0", 130))
    for half, slot in enumerate(("1c", "1d"))
)

NO_GPUS = GpuNode(H100, ())
DGX_H100 = GpuNode(H100, _DGX_SLOTS)
CLOUD_A100 = GpuNode(A100, _CLOUD_SLOTS)


def _with(node: GpuNode, **changes: GpuChange) -> GpuNode:
    """`gpu3=GpuChange(...)` changes that GPU."""
    return replace(node, changes={int(name.removeprefix("gpu")): change for name, change in changes.items()})


NVLINK_DOWN = _with(DGX_H100, gpu2=GpuChange(down=frozenset({7, 8}), xids=((74, 300.0),)))
NVLINK_ERRORS = _with(
    DGX_H100, gpu4=GpuChange(errors={(11, 0): 2.0, (11, 1): 0.01, (11, 2): 150.0}, xids=((74, 600.0), (74, 700.0)))
)
GPU_LOST = _with(DGX_H100, gpu5=GpuChange(lost_since=600.0, xids=((79, 600.0),)))
FABRIC_UNHEALTHY = _with(
    DGX_H100, gpu1=GpuChange(fabric=(3, 0, 0x119A, 2)), gpu6=GpuChange(fabric=(2, 0, 0, 0), down=frozenset(range(18)))
)
"""GPU 1's routes are unhealthy (bits 4-5 say TRUE); GPU 6 never got into the fabric."""
THROTTLED = _with(DGX_H100, gpu3=GpuChange(throttle={269: 0.05, 270: 0.4}))
B200_NODE = GpuNode(B200, _DGX_SLOTS, driver="570.124.06")
A100_PCIE_NODE = GpuNode(
    A100_PCIE, _DGX_SLOTS, {gpu: GpuChange(down=frozenset(range(12))) for gpu in range(len(_DGX_SLOTS))}, load=0.0
)
V100_NODE = GpuNode(V100, _DGX_SLOTS, driver="535.183.01")
MIG_NODE = GpuNode(H100, _DGX_SLOTS, {gpu: GpuChange(down=frozenset(range(18)), mig=True) for gpu in (0, 1)})
