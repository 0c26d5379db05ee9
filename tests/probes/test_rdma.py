"""The unmodified worker with programs that behave as perftest's do."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from exporter.hardware.child import members
from exporter.probes.engines.gid import roce_gid
from exporter.probes.launch import Stop, measure
from exporter.probes.protocol import Deadlines, Nic, Outcome, Spec
from tests.e2e.daemon import eventually
from tests.probes import fakeperftest

pytestmark = pytest.mark.e2e  # processes with deadlines: half a minute of waiting

DEADLINES = Deadlines(start=20, connect=20, run=20, end=2, abort=0.5)
LOOPBACK = Spec("rdma", "loopback", nics=(Nic("mlx5_0"), Nic("mlx5_1", gpu="GPU-b")), deadlines=DEADLINES)


@dataclass
class Lab:
    """Runs probes with fake programs on a fake /sys."""

    root: Path
    groups: list[int] = field(default_factory=list)

    def measure(self, spec: Spec = LOOPBACK, **knobs: Any) -> Outcome:
        """One probe, with these knobs."""
        (self.root / "knobs").write_text(json.dumps({"rates": {"mlx5_0": 390.0, "mlx5_1": 180.0}, **knobs}))
        stop = Stop()
        try:
            return measure(replace(spec, sysfs=str(self.root / "sys")), stop, started=self.groups.append)
        finally:
            stop.close()

    @property
    def calls(self) -> list[str]:
        """The command lines so far."""
        return (self.root / "calls").read_text().splitlines()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    (tmp_path / "bin").mkdir()
    fakeperftest.install(tmp_path / "bin", tmp_path / "knobs")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for device in ("mlx5_0", "mlx5_1"):
        port = tmp_path / "sys" / "class" / "infiniband" / device / "ports" / "1"
        port.mkdir(parents=True)
        (port / "state").write_text("4: ACTIVE\n")
        (port / "link_layer").write_text("InfiniBand\n")
    lab = Lab(tmp_path)
    yield lab
    for group in lab.groups:
        eventually(lambda group=group: not members(group), 2)  # type: ignore[misc]  # bound at once


def test_each_direction_by_its_own_sender(lab: Lab) -> None:
    outcome = lab.measure()
    there, back, latency = outcome.flows
    assert outcome.result == "ok"
    assert (there.kind, there.source, there.target, len(there.seconds)) == ("write", "mlx5_0/1", "mlx5_1/1", 5)
    assert there.bandwidth == pytest.approx(390e9 / 8)
    assert (back.source, back.target) == ("mlx5_1/1", "mlx5_0/1")
    assert back.bandwidth == pytest.approx(180e9 / 8)
    assert latency.latency == pytest.approx(1.5e-6)
    assert outcome.facts["memory"] == "host"
    assert outcome.bytes > 5 * 0.3 * 390e9 / 8
    assert all("--report_gbits" in call for call in lab.calls if call.startswith("ib_write_bw"))


def test_the_json_of_old_versions_is_read_too(lab: Lab) -> None:
    text = (
        "{\nresults: {\nMsgSize: 1048576,\nn_iterations: 20,\nBW_peak: 97.5,\nBW_average: 96.0,\nMsgRate: 0.01,\n}\n}"
    )
    outcome = lab.measure(json=text)
    assert outcome.flows[0].bandwidth == pytest.approx(96e9 / 8)


def test_gpu_memory_where_it_was_built_for_it_and_a_gpu_is_named(lab: Lab) -> None:
    help_text = "      --use_cuda=<cuda device id> Use CUDA specific device"
    assert lab.measure(help=help_text).facts["memory"] == "host"
    both = replace(LOOPBACK, nics=(Nic("mlx5_0", gpu="GPU-a"), Nic("mlx5_1", gpu="GPU-b")))
    assert lab.measure(both, help=help_text).facts["memory"] == "gpu"
    assert any("--use_cuda=0" in call for call in lab.calls)


@pytest.mark.parametrize(
    ("said", "result", "reason"),
    [
        ("Couldn't allocate MR", "refused", "memlock"),
        (" Unable to find the Infiniband/RoCE device", "refused", "no_device"),
        ("Found Incompatibility issue with GID types", "error", "wrong_gid"),
        ("Segmentation fault, or something", "error", "perftest_failed"),
    ],
)
def test_what_perftest_says_is_the_reason(lab: Lab, said: str, result: str, reason: str) -> None:
    outcome = lab.measure(stderr=said)
    assert (outcome.result, outcome.reason) == (result, reason)
    assert said.strip() in outcome.message


def test_a_client_that_hangs_ends_at_the_deadline(lab: Lab) -> None:
    outcome = lab.measure(replace(LOOPBACK, deadlines=replace(DEADLINES, connect=1)), hang=1)
    assert (outcome.result, outcome.reason) == ("timeout", "connect_timeout")


def test_a_port_that_is_not_active(lab: Lab) -> None:
    (lab.root / "sys/class/infiniband/mlx5_1/ports/1/state").write_text("1: DOWN\n")
    outcome = lab.measure()
    assert (outcome.result, outcome.reason, outcome.message) == ("refused", "port_not_active", "mlx5_1/1 is DOWN")


def test_no_perftest_no_device_and_no_use_between_gpus(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lab.measure(replace(LOOPBACK, nics=(Nic("mlx5_0"), Nic("mlx5_9")))).reason == "no_device"
    assert lab.measure(replace(LOOPBACK, scope="intra", nics=())).reason == "not_for_this"
    monkeypatch.setenv("PATH", str(lab.root))
    outcome = lab.measure()
    assert (outcome.result, outcome.reason) == ("refused", "no_perftest")


def test_roce_takes_the_gid_of_version_2_with_an_ipv4_address(tmp_path: Path) -> None:
    gids = {
        0: ("IB/RoCE v1", "fe80:0000:0000:0000:0000:0000:0000:0001"),
        1: ("RoCE v2", "fe80:0000:0000:0000:0000:0000:0000:0001"),
        2: ("IB/RoCE v1", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
        3: ("RoCE v2", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
    }
    (tmp_path / "gid_attrs" / "types").mkdir(parents=True)
    (tmp_path / "gids").mkdir()
    assert roce_gid(tmp_path) == -1
    for index, (kind, gid) in gids.items():
        (tmp_path / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")
        (tmp_path / "gids" / str(index)).write_text(f"{gid}\n")
    assert roce_gid(tmp_path) == 3


def test_a_roce_port_is_measured_by_that_gid(lab: Lab) -> None:
    port = lab.root / "sys/class/infiniband/mlx5_0/ports/1"
    (port / "link_layer").write_text("Ethernet\n")
    for folder, text in (("gid_attrs/types", "RoCE v2"), ("gids", "0000:0000:0000:0000:0000:ffff:0a00:0001")):
        (port / folder).mkdir(parents=True)
        (port / folder / "5").write_text(text)
    assert lab.measure().result == "ok"
    assert all("-x 5" in call for call in lab.calls if "-d mlx5_0" in call)
