"""The daemon's side of a probe, with workers that are a few lines of Python."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest

from exporter.hardware.child import members
from exporter.probes import launch, protocol
from exporter.probes.launch import Stop, interrupts_held
from exporter.probes.protocol import Deadlines, Flow, Nic, Outcome, Phase, Spec, read_flow, read_spec
from tests import fakenccl
from tests.e2e.daemon import command, eventually
from tests.probes.processes import workers

pytestmark = pytest.mark.e2e  # processes with deadlines: it waits more than it works
SPEC = Spec("nccl", "intra", deadlines=Deadlines(start=0.2, init=0.2, connect=0.2, run=0.2, end=0.2, abort=0.1))
HELLO = (
    'import sys, json, time\nsay = lambda **e: print(json.dumps(e), flush=True)\nsay(event="phase", phase="start")\n'
)


def run(program: str, monkeypatch: pytest.MonkeyPatch, margin: float = 5.0) -> Outcome:
    monkeypatch.setattr(protocol, "MARGIN", margin)
    stop = Stop()
    try:
        return launch.measure(SPEC, stop, argv=(sys.executable, "-c", HELLO + program))
    finally:
        stop.close()


def test_events_make_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(
        'say(event="phase", phase="run")\n'
        'say(event="flow", kind="sendrecv", size=100, seconds=[1, 2, 4], source="a", target="b", factor=1.0)\n'
        'say(event="facts", facts={"nccl": "2.27.5"})\n'
        'say(event="end", result="ok", reason="", message="")\n',
        monkeypatch,
    )
    assert outcome.flows == (Flow("sendrecv", 100, (1, 2, 4), "a", "b"),)
    assert outcome.flows[0].bandwidth == 50
    assert outcome.flows[0].bandwidth_range == (25, 100)
    assert (outcome.result, outcome.phase, outcome.facts) == ("ok", "run", {"nccl": "2.27.5"})


@pytest.mark.parametrize(
    ("program", "result", "reason", "said"),
    [
        ("sys.exit(7)", "error", "worker_died", "status 7"),
        ("import os; os.kill(os.getpid(), 11)", "error", "worker_died", "SIGSEGV"),
        ("print('rubbish', flush=True); time.sleep(60)", "error", "bad_worker", "nonsense"),
        ('say(event="flow", kind="sendrecv", size=1, seconds=[0]); time.sleep(60)', "error", "bad_worker", "nonsense"),
        ('say(event="phase", phase="later"); time.sleep(60)', "error", "bad_worker", "nonsense"),
        ("print('[1]', flush=True); time.sleep(60)", "error", "bad_worker", "nonsense"),
        ('say(event="end", result="fine", reason="", message=""); time.sleep(60)', "error", "bad_worker", "nonsense"),
    ],
)
def test_what_a_worker_does_wrong_is_a_result(
    program: str, result: str, reason: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run(program, monkeypatch)
    assert (outcome.result, outcome.reason) == (result, reason)
    assert said in outcome.message


def test_a_silent_worker_is_killed_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run('say(event="phase", phase="init"); time.sleep(600)', monkeypatch, margin=0.2)
    assert (outcome.result, outcome.reason, outcome.left) == ("timeout", "init_timeout", 0)
    assert outcome.seconds < 3


def test_a_program_that_is_not_there() -> None:
    stop = Stop()
    outcome = launch.measure(SPEC, stop, argv=("/nonexistent",))
    stop.close()
    assert (outcome.result, outcome.reason) == ("error", "no_worker")


def test_what_the_worker_started_is_killed_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    run(
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        'say(event="end", result="ok", reason="", message="")\n',
        monkeypatch,
    )
    pid = int(note.read_text())
    eventually(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text())


def test_a_spec_and_a_flow_survive_the_way() -> None:
    spec = Spec("rdma", "loopback", gpus=("GPU-a",), nics=(Nic("mlx5_0", gid_index=3), Nic("mlx5_1")))
    assert read_spec(spec.dump()) == spec
    with pytest.raises(ValueError, match="not durations"):
        read_flow({"kind": "sendrecv", "size": 1, "seconds": [-1]})


def test_a_worker_without_a_spec_says_how_it_is_used() -> None:
    told = subprocess.run([*launch.WORKER, "nonsense"], capture_output=True, text=True, check=False, timeout=30)
    assert told.returncode == 2
    assert "usage" in told.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_rank_outlives_a_daemon_that_dies_in_the_middle(tmp_path: Path, number: int) -> None:
    fakenccl.configure(fakenccl.build(tmp_path), hang="run", hang_abort=1)
    spec = Spec("nccl", "intra", interface=tmp_path.name, deadlines=Deadlines(run=60))
    program = (
        "import sys\nfrom exporter.probes.launch import Stop, measure\n"
        "from exporter.probes.protocol import read_spec\n"
        "measure(read_spec(sys.argv[1]), Stop(), progress=lambda phase: print(phase, flush=True))\n"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, spec.dump()], stdout=subprocess.PIPE, text=True, env=environment
    ) as daemon:
        assert daemon.stdout is not None
        for line in daemon.stdout:
            if line == "run\n":
                break
        mine = tmp_path.name.encode()
        assert len(workers(mine)) == 9, "the worker and eight ranks"
        os.kill(daemon.pid, number)
        daemon.wait(10)
        eventually(lambda: not workers(mine), 5)


def test_sigkill_comes_after_the_abort_whatever_cut_the_probe_short(tmp_path: Path) -> None:
    note, stop = tmp_path / "aborted", Stop()
    program = f'say(event="phase", phase="init")\nsys.stdin.read()\nopen({str(note)!r}, "w")\ntime.sleep(60)\n'

    def bug(_: Phase) -> None:
        raise RuntimeError("a bug in a progress bar")

    began = time.monotonic()
    deadlines = replace(SPEC.deadlines, start=60, abort=0.5)
    with pytest.raises(RuntimeError):
        launch.measure(replace(SPEC, deadlines=deadlines), stop, bug, argv=(sys.executable, "-c", HELLO + program))
    stop.close()
    assert note.exists(), "its input was closed, and it had the time to see that"
    assert time.monotonic() - began > 0.5


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_an_interrupt_is_an_order_to_stop_and_is_raised_after(number: int, raised: type[BaseException]) -> None:
    def end(_number: int, _frame: object) -> None:
        raise SystemExit

    before = signal.signal(signal.SIGTERM, end)

    def held() -> None:
        spec = replace(SPEC, deadlines=replace(SPEC.deadlines, start=60))
        argv = (sys.executable, "-c", HELLO + "sys.stdin.readline()")
        with interrupts_held(stop):
            seen.append(launch.measure(spec, stop, argv=argv))

    stop, seen = Stop(), list[Outcome]()
    timer = Timer(0.5, os.kill, (os.getpid(), number))
    timer.start()
    try:
        with pytest.raises(raised):
            held()
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        timer.join()
        signal.signal(signal.SIGTERM, before)
        stop.close()
    assert [(outcome.result, outcome.reason) for outcome in seen] == [("aborted", "interrupted")]


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_probe_by_hand_that_is_interrupted_is_aborted_and_counted(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakenccl.configure(fakenccl.build(tmp_path), hang="run", dump=tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "sys").mkdir()
    config = tmp_path / "eastwest.yml"
    config.write_text(f"paths: {{state: {tmp_path}, sysfs: {tmp_path / 'sys'}}}\nprobes: {{enabled: true}}\n")
    with subprocess.Popen(command("probe", "intra", "--config", str(config)), stdout=subprocess.PIPE) as probe:
        eventually(lambda: len(list(tmp_path.glob("*.env"))) == 8, 30)
        time.sleep(1)
        probe.send_signal(number)
        began = time.monotonic()
        assert probe.wait(10) == 128 + number
        assert time.monotonic() - began < 3
    assert len(list(tmp_path.glob("*.abort"))) == 8, "every rank was told to abort"
    (record,) = json.loads((tmp_path / "probes.json").read_text())["records"]
    assert (record["result"], record["reason"]) == ("aborted", "interrupted")
    assert record["seconds"] > 1


@contextmanager
def killed(group: int) -> Iterator[None]:
    """What a failed test leaves is not left."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def test_a_closed_input_and_a_signal_together_still_give_the_ranks_their_time(tmp_path: Path) -> None:
    """As when the daemon dies; and nothing survives though the kernel kills no rank of its own accord."""
    fakenccl.configure(fakenccl.build(tmp_path), hang="run", hang_abort=1, dump=tmp_path)
    spec = Spec("nccl", "intra", interface=tmp_path.name, deadlines=Deadlines(run=60, abort=1.0))
    program = (
        "import sys\nfrom exporter.probes import ranks, worker\n"
        "ranks.PR_SET_PDEATHSIG = 3\n"  # PR_GET_DUMPABLE: asks, and sets nothing
        "sys.exit(worker.main())\n"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    with (
        subprocess.Popen(
            [sys.executable, "-c", program, spec.dump()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        ) as worker,
        killed(worker.pid),
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        for line in worker.stdout:
            if '"run"' in line:
                break
        assert len(members(worker.pid)) == 9
        worker.stdin.close()
        began = time.monotonic()
        while worker.poll() is None and time.monotonic() - began < 0.5:
            worker.terminate()
            time.sleep(0.02)
        assert worker.wait(10) == 3
        assert 1.0 <= time.monotonic() - began < 3
        assert members(worker.pid) == []
    assert len(list(tmp_path.glob("*.abort"))) == 8


def test_a_worker_has_nothing_of_the_daemons_environment_but_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("NCCL_ALGO", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "LD_PRELOAD_TEST"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/nccl")
    note = tmp_path / "environment"
    run(
        "import os\n"
        f"open({str(note)!r}, 'w').write(json.dumps(dict(os.environ)))\n"
        'say(event="end", result="ok", reason="", message="")\n',
        monkeypatch,
    )
    found = json.loads(note.read_text())
    assert set(found) - {"LC_CTYPE"} <= set(launch.PASSED)
    assert found["LD_LIBRARY_PATH"] == "/opt/nccl"
