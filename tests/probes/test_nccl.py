"""The unmodified worker with a fake NCCL and CUDA: its numbers, and each way in which a probe can end badly."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from exporter.config import BudgetConfig
from exporter.hardware.child import members
from exporter.probes.launch import Stop, measure
from exporter.probes.protocol import Deadlines, Nic, Outcome, Spec
from tests import fakenccl

pytestmark = pytest.mark.e2e  # processes with deadlines: half a minute of waiting

CHOICES = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE")
LONG = Deadlines(start=60, init=60, connect=60, run=60, end=3, abort=0.5)
INTRA = Spec("nccl", "intra", deadlines=LONG)
LOOPBACK = Spec("nccl", "loopback", deadlines=LONG, nics=(Nic("mlx5_0"), Nic("mlx5_1")), gpus=("GPU-a", "GPU-b"))


@dataclass
class Lab:
    """Runs probes on the fake libraries."""

    library: Path
    groups: list[int] = field(default_factory=list)

    def measure(self, spec: Spec, stop: Stop | None = None, **knobs: Any) -> Outcome:
        """One probe, with these knobs and no others."""
        fakenccl.configure(self.library, **{"latency": 2e-5, **knobs})
        given = stop or Stop()
        try:
            return measure(spec, given, started=self.groups.append)
        finally:
            given.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fakenccl.build(tmp_path_factory.mktemp("nccl"))


@pytest.fixture
def lab(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    lab = Lab(library)
    yield lab
    assert lab.groups, "a worker was started"
    assert [members(group) for group in lab.groups] == [[] for _ in lab.groups], "no process is left"


def test_all_reduce_of_eight_gpus_by_the_formula_of_nccl_tests(lab: Lab) -> None:
    outcome = lab.measure(INTRA, rate=360e9, jitter=1e-4, latency=0)
    assert (outcome.result, outcome.reason, outcome.phase) == ("ok", "", "end")
    flow = outcome.flows[0]
    assert (flow.kind, flow.size, flow.factor) == ("allreduce", 64 << 20, 2 * 7 / 8)
    assert len(flow.seconds) == 7
    slowest, fastest = flow.bandwidth_range
    assert fastest == pytest.approx(360e9, rel=1e-3)
    assert slowest < 0.95 * fastest, "one operation in seven had a hiccup: its batch is the slowest, and is kept"
    assert slowest <= flow.bandwidth <= fastest
    assert flow.transport == "P2P/CUMEM"
    assert outcome.facts == {"nccl": "2.32.3", "cuda_driver": "13.0", "ranks": "8", "algorithm": "ring"}
    assert set(outcome.phases) == {"start", "init", "connect", "run", "end"}
    assert outcome.bytes > 30 * 1.75 * (64 << 20)


@pytest.mark.parametrize(("spec", "slow_below"), [(INTRA, 1e12), (LOOPBACK, 0.0)])
def test_a_rank_whose_host_comes_late_to_a_batch_makes_no_link_slow(lab: Lab, spec: Spec, slow_below: float) -> None:
    knobs: dict[str, Any] = {"ndev": 3, "at": 1, "skew": 1e-3, "latency": 1e-6}
    outcome = lab.measure(replace(spec, slow_below=slow_below), rate=360e9, **knobs)
    assert outcome.result == "ok"
    for flow in outcome.flows:
        if flow.kind == "latency":
            assert flow.latency < 5e-6
        else:
            assert flow.bandwidth == pytest.approx(360e9, rel=0.02), flow


def test_the_time_of_a_small_operation(lab: Lab) -> None:
    outcome = lab.measure(INTRA, latency=9e-6)
    latency = outcome.flows[-1]
    assert (latency.kind, latency.size) == ("latency", 8)
    assert latency.latency == pytest.approx(9e-6, rel=0.01)


def test_a_slow_all_reduce_is_followed_by_every_pair_each_way(lab: Lab) -> None:
    outcome = lab.measure(replace(INTRA, slow_below=300e9), rate=360e9, rate__2__3=40e9)
    pairs = {(flow.source, flow.target): flow.bandwidth for flow in outcome.flows if flow.kind == "sendrecv"}
    assert len(pairs) == 8 * 7
    assert min(pairs, key=lambda pair: pairs[pair]) == ("gpu2", "gpu3")
    assert pairs["gpu2", "gpu3"] < 0.15 * pairs["gpu3", "gpu2"]
    assert outcome.bytes < BudgetConfig().max_bytes_per_hour, "eight GPUs' pairs stay within an hour's budget"


def test_a_fast_all_reduce_is_not(lab: Lab) -> None:
    outcome = lab.measure(replace(INTRA, slow_below=300e9), rate=360e9)
    assert [flow.kind for flow in outcome.flows] == ["allreduce", "latency"]


def test_two_nics_of_one_node_each_direction_apart(lab: Lab) -> None:
    outcome = lab.measure(LOOPBACK, rate=48e9, rate__1__0=20e9)
    there, back, latency = outcome.flows
    assert (there.source, there.target) == ("mlx5_0/1", "mlx5_1/1")
    assert there.bandwidth == pytest.approx(48e9, rel=0.02)
    assert (back.source, back.target) == ("mlx5_1/1", "mlx5_0/1")
    assert back.bandwidth == pytest.approx(20e9, rel=0.02)
    assert there.transport == "NET/IB/GDRDMA"
    assert latency.kind == "latency"


def test_one_gpu_has_no_link_and_nccl_works_all_the_same(lab: Lab) -> None:
    outcome = lab.measure(replace(INTRA, gpus=("GPU-a",)))
    assert (outcome.result, [flow.kind for flow in outcome.flows]) == ("ok", ["latency"])


@pytest.mark.parametrize("phase", ["init", "connect", "run"])
def test_a_hang_ends_at_the_deadline_of_its_phase(lab: Lab, phase: str) -> None:
    deadlines = replace(LONG, **{phase: 1.0})
    outcome = lab.measure(replace(INTRA, deadlines=deadlines), hang=phase, at=3)
    assert (outcome.result, outcome.reason, outcome.phase) == ("timeout", f"{phase}_timeout", phase)
    # timed by when the worker's words arrive: the first may be late, and the last not
    assert 0.9 <= outcome.phases[phase] < 2.5
    assert "killed_ranks" not in outcome.facts, "every rank came back from its abort"


def test_an_abort_that_hangs_is_killed(lab: Lab) -> None:
    """With the time to end that is the default: the daemon waits for the worker's own word."""
    outcome = lab.measure(replace(INTRA, deadlines=Deadlines(run=1)), hang="run", at=3, hang_abort=1)
    assert (outcome.result, outcome.reason) == ("timeout", "run_timeout")
    assert outcome.message == "run took longer than 1 s"
    assert outcome.facts["killed_ranks"] == "8"
    end = Deadlines().end
    assert 1 + end - 0.1 <= outcome.phases["run"] < 1 + end + 1.5


def test_a_remote_error_is_not_a_timeout(lab: Lab) -> None:
    outcome = lab.measure(INTRA, fault="remote_error", at=3)
    assert (outcome.result, outcome.reason) == ("error", "remote_error")
    assert "connection closed by remote peer" in outcome.message


def test_a_killed_rank_is_named_not_those_who_noticed(lab: Lab) -> None:
    outcome = lab.measure(INTRA, fault="die", at=5)
    assert (outcome.result, outcome.reason, outcome.message) == ("error", "rank_died", "rank 5 ended by SIGKILL")


@pytest.mark.parametrize(
    ("knobs", "reason", "said"),
    [
        ({"free": 1 << 30}, "gpu_memory", "1024 MiB free, 3200 MiB are needed"),
        ({"cuinit": 100}, "no_gpu", "finds no GPU"),
        ({"cuinit": 803}, "driver_mismatch", "different versions"),
        ({"cuinit": 804}, "driver_too_old", "too old"),
    ],
)
def test_what_can_not_run_here_says_why(lab: Lab, knobs: dict[str, Any], reason: str, said: str) -> None:
    outcome = lab.measure(INTRA, **knobs)
    assert (outcome.result, outcome.reason, outcome.phase) == ("refused", reason, "start")
    assert said in outcome.message


def test_a_gpu_fewer_than_asked_for(lab: Lab) -> None:
    outcome = lab.measure(replace(INTRA, gpus=("GPU-a", "GPU-b", "GPU-c")), ndev=2)
    assert (outcome.result, outcome.reason) == ("refused", "no_gpu")


def test_an_error_of_cuda_in_init(lab: Lab) -> None:
    outcome = lab.measure(INTRA, initerror=1)
    assert (outcome.result, outcome.reason, outcome.phase) == ("error", "cuda_error", "init")


@pytest.mark.parametrize("spec", [INTRA, LOOPBACK])
def test_a_quiet_fall_back_to_sockets_is_an_error_not_a_slow_link(lab: Lab, spec: Spec) -> None:
    outcome = lab.measure(spec, transport="NET/Socket/0")
    assert (outcome.result, outcome.reason) == ("error", "wrong_transport")
    assert "NET/Socket" in outcome.message
    assert outcome.flows == ()


@pytest.mark.parametrize("version", [21400, 21805, 23203, 29900])
def test_versions_of_nccl_from_2_14_on(lab: Lab, version: int) -> None:
    outcome = lab.measure(replace(INTRA, gpus=("GPU-a", "GPU-b")), version=version)
    assert outcome.result == "ok"
    assert outcome.facts["nccl"] == f"2.{version // 100 % 100}.{version % 100}"


def test_an_nccl_before_2_14_is_refused(tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakenccl.build(tmp_path, "-DOLD")))
    outcome = lab.measure(INTRA)
    assert (outcome.result, outcome.reason) == ("refused", "nccl_too_old")
    assert "libnccl.so.2 is NCCL 2.13.4: too old, 2.14 or later" in outcome.message


def test_a_system_nccl_that_is_too_old_does_not_hide_the_wheels(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, wheel = tmp_path / "system", tmp_path / "site" / "nvidia" / "nccl" / "lib"
    for folder in (system, wheel):
        folder.mkdir(parents=True)
    fakenccl.configure(fakenccl.build(wheel), version=22705)
    (wheel / "libcuda.so.1").unlink()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fakenccl.build(system, "-DOLD")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    outcome = lab.measure(INTRA)
    assert (outcome.result, outcome.facts.get("nccl"), outcome.message) == ("ok", "2.27.5", "")
    (wheel / "libnccl.so.2").write_bytes((system / "libnccl.so.2").read_bytes())
    outcome = lab.measure(INTRA)
    assert (outcome.result, outcome.reason) == ("refused", "nccl_too_old")
    assert str(wheel / "libnccl.so.2") in outcome.message


def test_neither_library_is_there(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    outcome = lab.measure(INTRA)
    assert (outcome.result, outcome.reason) == ("refused", "no_cuda")


def test_a_roce_port_is_told_its_gid(lab: Lab, tmp_path: Path) -> None:
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    for folder, text in (("gid_attrs/types", "RoCE v2"), ("gids", "0000:0000:0000:0000:0000:ffff:0a00:0001")):
        (port / folder).mkdir(parents=True)
        (port / folder / "3").write_text(text)
    nics = (Nic("mlx5_0", link_layer="Ethernet"), Nic("mlx5_1"))
    lab.measure(replace(LOOPBACK, nics=nics, sysfs=str(tmp_path / "sys"), traffic_class=106), dump=tmp_path)
    environment = (tmp_path / "0.env").read_text().splitlines()
    assert "NCCL_IB_GID_INDEX=3" in environment
    assert "NCCL_IB_TC=106" in environment
    assert "NCCL_IB_GID_INDEX" not in (tmp_path / "1.env").read_text()


def test_a_rank_has_the_environment_of_a_probe_and_nothing_else(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("NCCL_IB_HCA", "mlx5")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    lab.measure(LOOPBACK, dump=tmp_path)
    found = dict(line.split("=", 1) for line in (tmp_path / "1.env").read_text().splitlines())
    nccl = {name: value for name, value in found.items() if name.startswith(("NCCL_", "CUDA_"))}
    nccl.pop("NCCL_DEBUG_FILE")
    assert nccl == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
        "NCCL_ALGO": "Ring",
        "NCCL_CONF_FILE": "/dev/null",
        "NCCL_CROSS_NIC": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM",
        "NCCL_IB_HCA": "=mlx5_1:1",
        "NCCL_IB_MERGE_NICS": "0",
        "NCCL_MNNVL_ENABLE": "0",
        "NCCL_NET": "IB",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_PROTO": "Simple",
        "NCCL_PXN_DISABLE": "1",
        "NCCL_RAS_ENABLE": "0",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "=lo",
    }
    assert "SLURM_JOB_ID" not in found


@pytest.mark.parametrize(
    ("spec", "told", "pinned"),
    [
        (replace(INTRA, algorithm="tree"), "tree", {"NCCL_ALGO=Tree", "NCCL_PROTO=Simple", "NCCL_NVLS_ENABLE=0"}),
        (replace(INTRA, algorithm="auto"), "auto", set()),
        (replace(INTRA, scope="latency", size=8), "auto", set()),
        (replace(LOOPBACK, scope="latency", size=8), "auto", set()),
    ],
)
def test_the_algorithm_that_nccl_is_told(lab: Lab, tmp_path: Path, spec: Spec, told: str, pinned: set[str]) -> None:
    outcome = lab.measure(spec, dump=tmp_path)
    assert (outcome.result, outcome.facts["algorithm"]) == ("ok", told)
    kinds = ["latency"] if spec.scope == "latency" else ["allreduce", "latency"]
    assert [flow.kind for flow in outcome.flows] == kinds
    found = {line for line in (tmp_path / "1.env").read_text().splitlines() if line.split("=")[0] in CHOICES}
    assert found == pinned


def test_told_to_stop_it_is_gone_within_two_seconds_though_the_abort_hangs(lab: Lab) -> None:
    stop = Stop()
    told: list[float] = []

    def tell() -> None:
        told.append(time.monotonic())
        stop.set("gpu_process")

    Timer(1.0, tell).start()
    outcome = lab.measure(replace(INTRA, deadlines=LONG), stop, hang="run", at=0, hang_abort=1)
    assert time.monotonic() - told[0] < 2
    assert (outcome.result, outcome.reason) == ("aborted", "gpu_process")


def test_a_worker_that_is_stopped_is_killed_by_the_daemon(lab: Lab) -> None:
    def stop_worker() -> None:
        os.kill(lab.groups[0], signal.SIGSTOP)

    Timer(1.0, stop_worker).start()
    outcome = lab.measure(replace(INTRA, deadlines=replace(LONG, start=5, init=5)), hang="init")
    assert outcome.result == "timeout"
    assert "no word from the worker" in outcome.message
