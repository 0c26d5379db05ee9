"""`eastwest probe` on a machine without anything, as a hook, and what it costs where probes are off."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exporter.cli import main
from exporter.probe import lines, others, outcome
from exporter.probes.journal import Lock
from exporter.probes.prober import Round
from exporter.state import State
from tests.e2e.daemon import command
from tests.trees import empty_machine

pytestmark = pytest.mark.e2e  # processes with deadlines: it waits more than it works


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return empty_machine(tmp_path)


def probe(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command("probe", *arguments), capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("what", ["intra", "loopback"])
def test_a_machine_without_anything_says_why_engine_by_engine(config: Path, what: str) -> None:
    done = probe(what, "--config", str(config))
    assert done.returncode == 0
    assert done.stderr == ""
    said = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in said] == ["nccl", "rdma", "tcp", "nothing was measured"]
    assert all("can't run here" in line for line in said[:3])


def test_one_engine_only(config: Path) -> None:
    done = probe("intra", "--config", str(config), "--engine", "tcp")
    assert done.stdout.splitlines()[0].startswith("tcp: can't run here (not_for_this)")
    assert "nccl" not in done.stdout


def test_another_probe_runs(config: Path) -> None:
    lock = Lock()
    assert lock.take()
    try:
        done = probe("intra", "--config", str(config))
    finally:
        lock.give()
    assert (done.returncode, done.stdout) == (0, "not measured: locked (another probe runs)\n")


def test_pause_and_its_end(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "pause", "--for", "4h", "--config", str(config)]) == 0
    assert "no probes until" in capsys.readouterr().out
    done = probe("intra", "--config", str(config))
    assert (done.returncode, done.stdout) == (0, "not measured: paused\n")
    assert main(["probe", "pause", "--for", "0s", "--config", str(config)]) == 0
    assert "paused" not in probe("intra", "--config", str(config)).stdout


def test_a_pause_that_cannot_be_read_is_said_with_what_ends_it(config: Path) -> None:
    (config.parent / "state" / "probes-pause.json").write_text("xx")
    for arguments in (["intra"], ["--hook", "epilog"]):
        done = probe(*arguments, "--config", str(config))
        assert done.stdout.startswith(f"not measured: paused ({config.parent}/state/probes-pause.json is no pause")
        assert "`eastwest probe pause --for 0s` ends it" in done.stdout
        assert done.returncode == 0
    assert main(["probe", "pause", "--for", "0s", "--config", str(config)]) == 0
    assert "paused" not in probe("intra", "--config", str(config)).stdout


def test_a_hook_whose_journal_cannot_be_written_measures_nothing(config: Path) -> None:
    (config.parent / "state").rmdir()
    for _ in range(2):
        done = probe("--hook", "epilog", "--config", str(config))
        assert (done.returncode, done.stdout.partition(":")[0]) == (0, "not measured")
        assert f"journal_unusable ({config.parent}/state/probes.json: No such file" in done.stdout
    assert "can't run here" in probe("intra", "--config", str(config)).stdout, "by hand it is tried"


def test_a_pause_says_whom_it_holds_off(tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "pause", "--config", str(config)]) == 0
    assert f"whose paths.state is {tmp_path / 'state'}\n" in capsys.readouterr().out
    assert main(["probe", "pause", "--for", "0s", "--config", str(config)]) == 0
    assert f"whose paths.state is {tmp_path / 'state'}\n" in capsys.readouterr().out


def test_a_pause_without_the_daemons_configuration_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("exporter.probes.pause.pause", lambda *_: 0.0)
    assert main(["probe", "pause"]) == 0
    assert "whose paths.state is /var/lib/eastwest (no --config was given)\n" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [["pause", "--for", "soon"], ["pause", "--for", "-1h"], ["pause", "--for", ""], ["pause", "--for", "400d"], []],
)
def test_a_mistake_is_a_line_and_status_2(
    config: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", *arguments, "--config", str(config)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("eastwest: ")
    assert "soon" not in arguments or "'soon'" in line
    assert "-1h" not in arguments or "'-1h'" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["intra", "--for", "99", "--deadline", "zz"], "--for is for pause alone"),
        (["intra", "--deadline", "5s"], "--deadline is for --hook alone"),
        (["pause", "--engine", "rdma"], "--engine is for a probe by hand"),
        (["loopback", "--eng", "rdma"], "unrecognized arguments"),
        (["sideways"], "invalid choice"),
    ],
)
def test_a_flag_that_would_be_ignored_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["probe", *arguments])
    assert end.value.code == 64
    assert said in capsys.readouterr().err


def test_a_full_disk_behind_the_output_is_a_line_and_status_2(config: Path) -> None:
    with Path("/dev/full").open("w") as full:
        argv = command("probe", "intra", "--config", str(config))
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "eastwest: standard output: No space left on device\n")


def test_where_probes_are_off_nothing_of_them_is_imported() -> None:
    program = (
        "import sys\nfrom exporter import app, build, config, probing, sources\n"
        "from exporter.clock import Clock\nfrom exporter.state import State\n"
        "node = build.build_node(config.Config(), sources.Machine().open(config.Config()), State(None), Clock())\n"
        "assert 'probes' not in node.plans\n"
        "ours = ('exporter.probe', 'exporter.hardware.gpu_load', 'exporter.hardware.pod_resources')\n"
        "print([name for name in sys.modules if name.startswith('exporter.probes') or name in ours])\n"
        "print([name for name in ('exporter.hardware.unary_grpc', 'rich') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n[]\n"


def test_a_result_for_people() -> None:
    flow = {
        "kind": "sendrecv",
        "source": "mlx5_0/1",
        "target": "mlx5_1/1",
        "transport": "NET/IB/GDRDMA",
        "expected": 48e9,
        "bytes_per_second": 24e9,
        "slowest": 23e9,
        "fastest": 25e9,
        "ratio": 0.5,
        "recent": [47e9, 48e9],
    }
    record = {
        "engine": "nccl",
        "scope": "loopback",
        "result": "ok",
        "size": 64 << 20,
        "seconds": 3.21,
        "facts": {"nccl": "2.27.5"},
        "flows": [flow, {**flow, "kind": "latency", "latency": 2.5e-6}],
    }
    said = list(lines(record))
    assert said[0] == "nccl: measured in 3.2 s (nccl 2.27.5)"
    assert "24.0 GB/s = 192 Gbit/s" in said[1]
    assert "expected 48.0 GB/s (50%) SLOW" in said[1]
    assert "last 47.0 48.0" in said[1]
    assert "2.5 us" in said[2]


def test_a_result_that_was_not_kept_is_said() -> None:
    said, status = outcome(Round((), (), "/var/lib/eastwest/probes.json: No space left on device"))
    assert status == 0
    assert "not kept" in said
    assert "No space left on device" in said


def test_of_many_pairs_of_gpus_the_slowest_are_shown() -> None:
    pair: dict[str, Any] = {
        "kind": "sendrecv",
        "transport": "P2P",
        "expected": None,
        "slowest": 1e9,
        "fastest": 1e9,
        "recent": [],
    }
    flows = [
        {**pair, "source": f"gpu{number}", "target": "gpu7", "bytes_per_second": (20 - number) * 1e9}
        for number in range(7)
    ]
    record = {
        "engine": "nccl",
        "scope": "intra",
        "result": "ok",
        "size": 1,
        "seconds": 1.0,
        "facts": {},
        "flows": flows,
    }
    said = list(lines(record))
    assert "gpu6 > gpu7" in said[1]
    assert len(said) == 1 + 5 + 1
    assert "slowest of 7 pairs of GPUs; half of them give at least 17.0 GB/s" in said[-1]


def test_what_the_daemon_found_holds_off_learning_but_not_what_its_probes_found(config: Path) -> None:
    def entry(check: str, subject: str, reason: str, severity: str) -> dict[str, object]:
        named = {"check": check, "subject": subject, "severity": severity, "reason": reason}
        return {**named, "message": "is slow", "since": 1.0}

    found = [
        entry("gpu", "gpu3", "gpu_throttled", "degraded"),
        entry("probes", "node", "probe_intra_slow", "critical"),
        entry("infiniband", "node", "counters_saturated", "info"),
    ]
    folder = config.parent / "state"
    daemon = State(folder)
    daemon.keep("findings", lambda _: {"raised": found}, urgent=True)
    daemon.close()
    assert others(State(folder)) == ("gpu3",)
    assert others(State(config.parent / "sys")) == ()
