"""User-space RDMA by a program that stands in for the one with pyverbs, through the real child process."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.checks.verbs import VerbsCheck
from exporter.hardware import verbs_client
from exporter.hardware.selection import Selection
from exporter.hardware.verbs_client import Verbs, command
from exporter.model import SourceError, Unavailable
from exporter.model_verbs import VerbsDevice, VerbsPort
from tests.trees import plant, put

GUID = "a088:c203:00ab:cdef"
NDR = {"state": 4, "active_mtu": 5, "max_mtu": 5, "width": 2, "speed": 128}
ANSWER = {"mlx5_0": {"guid": GUID.replace(":", ""), "ports": {"1": NDR}}}


def program(body: str) -> Sequence[str]:
    return sys.executable, "-c", f"import json, sys, time\nline = sys.stdin.readline()\n{body}"


def saying(answer: object) -> Sequence[str]:
    return program(f"print({json.dumps(answer)!r}, flush=True)\nsys.stdin.read()")


def verbs(root: Path, argv: Sequence[str] | None, selection: Selection | None = None, deadline: float = 20.0) -> Verbs:
    plant(root, {"mlx5_0": {"node_guid": GUID}}, driver="")
    (root / "nodes").mkdir(exist_ok=True)
    return Verbs(root, selection or Selection(), deadline, find=lambda: argv, nodes=root / "nodes")


def test_ports_in_base_units(tmp_path: Path) -> None:
    put(tmp_path / "module/ib_core/parameters/netns_mode", "Y")
    reading = verbs(tmp_path, saying(ANSWER)).read()
    assert reading.devices == (VerbsDevice("mlx5_0", "", {1: VerbsPort(4096, 4096, 50e9)}),)
    assert reading.exclusive is False


def test_a_device_that_does_not_open_and_one_that_is_not_listed_are_not_usable(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_1": {"node_guid": "0"}}, driver="")
    refused = {"mlx5_0": {"guid": GUID.replace(":", ""), "error": "Failed to open device"}}
    reading = verbs(tmp_path, saying(refused)).read()
    assert [bool(device.error) for device in reading.devices] == [True, True]
    samples = VerbsCheck(verbs(tmp_path, saying(refused))).run(0.0).samples
    assert [(sample.metric.name, sample.labels, sample.value) for sample in samples] == [
        ("eastwest_nic_user_space_usable", ("mlx5_0",), 0),
        ("eastwest_nic_user_space_usable", ("mlx5_1",), 0),
    ]


def test_a_device_that_goes_while_it_is_asked_for_is_not_one_that_does_not_open(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_1": {"node_guid": "0"}}, driver="")
    gone = tmp_path / "class/infiniband/mlx5_1"
    source = verbs(
        tmp_path, program(f"import shutil\nshutil.rmtree({str(gone)!r})\nprint({json.dumps(ANSWER)!r}, flush=True)")
    )
    assert [(device.name, device.error) for device in source.read().devices] == [("mlx5_0", "")]


def test_a_namesake_in_a_recorded_tree_is_another_device(tmp_path: Path) -> None:
    other = {"mlx5_0": {"guid": "1" * 16, "ports": {"1": NDR}}}
    assert verbs(tmp_path, saying(other)).read().devices == ()


def test_only_selected_devices_are_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, {"mlx5_9": {"node_guid": "0"}}, driver="")
    echo = program("print(json.dumps({n: {'guid': '', 'error': 'x'} for n in json.loads(line)}), flush=True)")
    reading = verbs(tmp_path, echo, Selection(exclude=("mlx5_0",))).read()
    assert [device.name for device in reading.devices] == []  # mlx5_9 was asked for, and is a namesake
    with pytest.raises(Unavailable):
        verbs(tmp_path, echo, Selection(exclude=("mlx5_*",))).read()


@pytest.mark.parametrize(
    ("width", "speed", "rate"), [(1, 32, 25e9 / 8), (2, 256, 100e9), (16, 128, 25e9), (3, 128, None), (2, 3, None)]
)
def test_rates_by_lanes_and_speed(width: int, speed: int, rate: float | None) -> None:
    read = verbs_client.port({**NDR, "width": width, "speed": speed, "active_mtu": 0})
    assert (read.rate, read.active_mtu) == (rate, None)


def test_absence_is_quiet(tmp_path: Path) -> None:
    for reader in (verbs(tmp_path, None), verbs(tmp_path, program("sys.exit(3)"))):
        with pytest.raises(Unavailable):
            reader.read()
    with pytest.raises(Unavailable, match="user space has no RDMA device"):
        Verbs(tmp_path, Selection(), 20.0, find=lambda: None, nodes=tmp_path / "none").read()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit(1)", "worker_died"),
        ("print('nonsense', flush=True)", "bad_answer"),
        ("print('[]', flush=True)", "bad_answer"),
        ("print('{\"mlx5_0\": 1}', flush=True)", "bad_answer"),
    ],
)
def test_what_goes_wrong_is_the_sources_error(tmp_path: Path, body: str, reason: str) -> None:
    with pytest.raises(SourceError) as raised:
        verbs(tmp_path, program(body)).read()
    assert raised.value.reason == reason


def test_one_that_hangs_is_not_started_a_second_time(tmp_path: Path) -> None:
    started = tmp_path / "started"
    hang = program(f"open({str(started)!r}, 'a').write('x')\ntime.sleep(10)")
    reader = verbs(tmp_path, hang, deadline=2.0)
    for _ in range(2):
        with pytest.raises(SourceError) as raised:
            reader.read()
        assert raised.value.reason == "timeout"
    assert started.read_text() == "x"


def test_the_distributions_pyverbs_goes_with_the_distributions_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(verbs_client, "SYSTEM_PYVERBS", str(tmp_path / "none"))
    assert command() is None
    monkeypatch.setattr(verbs_client, "SYSTEM_PYVERBS", str(tmp_path))
    monkeypatch.setattr(verbs_client, "SYSTEM_PYTHON", sys.executable)
    assert command() == (sys.executable, "-I", verbs_client.SCRIPT)
