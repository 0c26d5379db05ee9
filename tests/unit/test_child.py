"""A program kept running: its answers, its end, its hanging; and that it does not outlive whoever started it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from exporter import demo
from exporter.hardware import gpu_load, verbs_client
from exporter.hardware.child import Child, ChildEndedError, how, own
from exporter.probes import launch
from tests.e2e.daemon import eventually

ECHO = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"
HANG = "import sys, signal\nfor line in sys.stdin:\n signal.pause() if 'hang' in line else print('ok', flush=True)"
SECONDS = 10.0
Starter = Callable[[str], Child]


@pytest.fixture
def start() -> Iterator[Starter]:
    """Starts Python with a program; ends all afterwards."""
    children: list[Child] = []

    def starter(program: str) -> Child:
        children.append(Child((sys.executable, "-c", program)))
        return children[-1]

    yield starter
    for child in children:
        if child.alive and child.pid is not None:
            os.kill(child.pid, signal.SIGKILL)
        assert child.close(SECONDS)


def test_a_line_for_a_line_and_an_end_when_it_is_closed(start: Starter) -> None:
    child = start(ECHO)
    assert child.ask(b"abc\n", SECONDS) == b"cba\n"
    assert child.ask(b"xyz\n", SECONDS) == b"zyx\n"
    assert child.close(SECONDS)
    with pytest.raises(ChildEndedError, match="ended with status 0"):
        child.ask(b"abc\n", SECONDS)


def test_death_is_told_with_its_signal(start: Starter) -> None:
    child = start("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ChildEndedError, match="ended by SIGSEGV"):
        child.ask(b"abc\n", SECONDS)


def test_a_program_that_is_not_there_is_told() -> None:
    child = Child(("/nonexistent/program",))
    with pytest.raises(ChildEndedError, match="No such file"):
        child.ask(b"abc\n", SECONDS)
    assert child.close(SECONDS)


def test_a_hang_is_a_timeout_while_the_child_lives_and_it_ends_when_asked_to(start: Starter) -> None:
    child = start(HANG)
    assert child.ask(b"go\n", SECONDS) == b"ok\n"
    with pytest.raises(TimeoutError):
        child.ask(b"hang\n", 0.05)
    with pytest.raises(TimeoutError):
        child.ask(b"not sent while it hangs\n", 0.05)
    assert child.alive
    assert not child.close(0.05), "left to itself, not killed"
    assert child.alive


def test_a_late_answer_is_not_taken_for_the_next_one(start: Starter) -> None:
    program = (
        "import sys, signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "for line in sys.stdin:\n if 'slow' in line: signal.pause()\n print(line.strip(), flush=True)"
    )
    child = start(program)
    child.ask(b"first\n", SECONDS)
    with pytest.raises(TimeoutError):
        child.ask(b"slow\n", 0.2)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGUSR1)
    assert eventually(lambda: not child._waiting)  # noqa: SLF001 - nobody may ask before the late answer is there
    assert child.ask(b"second\n", SECONDS) == b"second\n"


@pytest.mark.parametrize(("status", "said"), [(0, "status 0"), (2, "status 2"), (-9, "SIGKILL"), (-99, "signal 99")])
def test_how_it_ended(status: int, said: str) -> None:
    assert said in how(status)


def test_the_nvml_worker_does_not_outlive_a_killed_daemon(tmp_path: Path) -> None:
    """Started in a thread that ends, as a check's does: it must outlive that, and not the process."""
    daemon = (
        "import sys, threading, time\nfrom exporter.hardware.child import Child\n"
        "argv = (sys.executable, '-m', 'exporter.hardware.nvml_worker', 'basic')\n"
        "made = []\nthread = threading.Thread(target=lambda: made.append(Child(argv)))\n"
        "thread.start(); thread.join()\nanswer = made[0].ask(b'read\\n', 20)\n"
        "print(made[0].pid, answer.decode(), flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", daemon], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        pid, _, answer = process.stdout.readline().partition(" ")
        assert '"init":' in answer
        assert running(int(pid))
        process.kill()
        eventually(lambda: not running(int(pid)))


def running(pid: int) -> bool:
    """Whether a process is there and not a zombie that nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a module for each of Python's own that would be found there first, and tells that it was."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in sys.stdlib_module_names:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r} + ' ')\n")
    return folder


def verbs_argv() -> Sequence[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _name: True)
        return verbs_client.command() or ()


@pytest.mark.parametrize(
    ("argv", "statuses"),
    [
        (own("exporter.hardware.nvml_worker", "basic"), (0,)),
        (gpu_load.ARGV, (0,)),
        ((*launch.WORKER, "no spec"), (2,)),
        ((*demo._EASTWEST, "--version"), (0,)),  # noqa: SLF001 - how the demo starts its daemons
        (verbs_argv(), (0, 3)),
    ],
    ids=["nvml", "load", "probe", "demo", "verbs"],
)
def test_no_program_of_ours_imports_from_the_callers_folder(
    hostile: Path, argv: Sequence[str], statuses: Sequence[int]
) -> None:
    done = subprocess.run(argv, cwd=hostile, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert not (hostile.parent / "imported").exists(), (hostile.parent / "imported").read_text()
    assert done.returncode in statuses, done.stderr


def test_without_that_care_they_would(hostile: Path) -> None:
    argv = (sys.executable, "-m", "exporter.probes.worker")
    subprocess.run(argv, cwd=hostile, capture_output=True, timeout=60, check=False)
    assert (hostile.parent / "imported").exists()


def test_every_program_of_ours_is_started_with_that_care() -> None:
    package = Path(demo.__file__).parent
    found = {path.name for path in package.rglob("*.py") if "sys.executable" in path.read_text()}
    assert found == {"child.py", "verbs_client.py"}
