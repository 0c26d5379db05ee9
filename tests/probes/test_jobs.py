"""What is measured on a node: which NICs, with which, beside which GPU."""

from dataclasses import replace

from exporter.hardware.gpu_load import GpuLoad
from exporter.model import Device, Port, Role
from exporter.probes.jobs import fell_back, intra, key, key_of, latency, nics, pairs, way
from exporter.probes.protocol import Deadlines, Flow, Nic, Spec
from exporter.rails import Assignment

GPUS = tuple(GpuLoad(index, f"GPU-{index}", pci_address=f"0000:8{index}:00.0") for index in range(3))


def port(index: int, near: int | None = None, **values: object) -> Port:
    gpus = () if near is None else (f"0000:8{near}:00.0",)
    made = Port(Device(f"mlx5_{index}", near_gpus=gpus), 1, "InfiniBand", 4)
    return replace(made, **values)  # type: ignore[arg-type]  # fields of Port


def test_compute_ports_that_carry_data_by_rail_each_with_a_gpu_of_its_own() -> None:
    ports = [port(0, 1), port(1, 1), port(2, state=1), port(3), port(4)]
    where = {
        ("mlx5_0", 1): Assignment(Role.COMPUTE, 1, "leaf-a"),
        ("mlx5_1", 1): Assignment(Role.COMPUTE, 0, "leaf-b"),
        ("mlx5_2", 1): Assignment(Role.COMPUTE, 2),
        ("mlx5_3", 1): Assignment(Role.STORAGE),
        ("mlx5_4", 1): Assignment(Role.COMPUTE, 10),
    }
    found = nics(ports, where, GPUS)
    assert [(nic.device, nic.rail, nic.leaf, nic.gpu) for nic in found] == [
        ("mlx5_1", "0", "leaf-b", "GPU-1"),
        ("mlx5_0", "1", "leaf-a", "GPU-0"),
        ("mlx5_4", "10", "", "GPU-2"),
    ]
    assert [nic.gpu for nic in nics(ports, where, None)] == ["", "", ""]


def test_virtual_functions_are_left_to_their_guests_and_software_devices_are_not() -> None:
    function = Port(Device("mlx5_9", pci_address="0000:99:00.1", virtual=True), 1, "InfiniBand", 4)
    software = Port(Device("rxe0", virtual=True), 1, "Ethernet", 4)
    where = {("mlx5_9", 1): Assignment(Role.COMPUTE, 0), ("rxe0", 1): Assignment(Role.COMPUTE, 1)}
    assert [nic.device for nic in nics([function, software], where, None)] == ["rxe0"]


def test_pairs_are_of_one_leaf_and_change_from_turn_to_turn() -> None:
    eight = [Nic(f"mlx5_{index}", leaf="a" if index < 4 else "b") for index in range(8)]
    seen: dict[str, set[str]] = {}
    for turn in range(3):
        made = list(pairs(eight, turn))
        assert len(made) == 4
        assert all(one.leaf == other.leaf for one, other in made)
        for one, other in made:
            seen.setdefault(one.device, set()).add(other.device)
            seen.setdefault(other.device, set()).add(one.device)
    assert all(len(partners) == 3 for partners in seen.values())


def test_an_odd_one_is_left_out_in_turn_and_one_alone_has_no_pair() -> None:
    three = [Nic(f"mlx5_{index}") for index in range(3)]
    left = {
        next(nic.device for nic in three if nic not in [n for pair in pairs(three, turn) for n in pair])
        for turn in range(3)
    }
    assert left == {"mlx5_0", "mlx5_1", "mlx5_2"}
    assert list(pairs(three[:1], 0)) == []
    assert list(pairs([], 5)) == []


def test_keys_differ_by_what_makes_numbers_differ() -> None:
    made = {
        key("intra", "nccl", 1),
        key("intra", "nccl", 2),
        key("intra", "rdma", 1),
        key("intra", "nccl", 1, "a", "b"),
        key("intra", "nccl", 1, algorithm="tree"),
        key("intra", "nccl", 1, algorithm="auto"),
        key("intra", "nccl", 1, way="SHM"),
        key("intra", "nccl", 1, algorithm="tree", way="SHM"),
    }
    assert len(made) == 8
    assert key("loopback", "nccl", 1, "a", "b") == "loopback/nccl/1/a>b", "what was learnt before stands"


def whole(transport: str) -> Flow:
    return Flow("allreduce", 1, (1.0,), transport=transport)


def test_the_way_between_gpus_is_known_of_all_of_them_alone() -> None:
    ways = [way(whole(taken)) for taken in ("P2P/CUMEM", "NVLS/x P2P/CUMEM", "P2P/IPC SHM/direct", "SHM/direct/direct")]
    assert ways == ["P2P", "P2P", "P2P SHM", "SHM"]
    assert way(Flow("sendrecv", 1, (1.0,), "gpu0", "gpu1", transport="SHM/direct")) == ""
    assert way(Flow("sendrecv", 1, (1.0,), "mlx5_0/1", "mlx5_1/1", transport="NET/IB")) == ""


def test_a_worse_way_than_usual_is_no_slow_link_but_a_better_one_and_the_only_one_are_fine() -> None:
    spec = Spec("nccl", "intra", 1, algorithm="tree")
    direct, shared = whole("P2P/CUMEM"), whole("SHM/direct/direct")
    usual = {key_of(spec, direct): 300e9}
    assert "SHM/direct/direct" in fell_back(spec, [shared], usual.get)
    assert fell_back(spec, [whole("P2P/CUMEM SHM/direct")], usual.get)
    assert fell_back(spec, [direct], usual.get) == ""
    assert fell_back(spec, [shared], lambda _: None) == ""
    only = {key_of(spec, shared): 20e9}
    assert fell_back(spec, [shared], only.get) == ""
    assert fell_back(spec, [direct], only.get) == ""
    assert fell_back(replace(spec, algorithm="ring"), [shared], usual.get) == "", (
        "of another algorithm nothing is known"
    )


def test_the_algorithm_is_of_all_gpus_and_a_small_operation_is_small() -> None:
    assert intra(1 << 20, GPUS, 0.0, Deadlines(), "tree").algorithm == "tree"
    pair = Nic("mlx5_0", gpu="GPU-1"), Nic("mlx5_1", gpu="GPU-2")
    small = latency(pair, GPUS, "/sys", Deadlines())
    assert (small.scope, small.size, small.gpus, small.nics) == ("latency", 8, ("GPU-1", "GPU-2"), pair)
    assert latency(None, GPUS, "/sys", Deadlines()).gpus == ("GPU-0", "GPU-1", "GPU-2")
