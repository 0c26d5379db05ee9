"""NVML let go on request: by file, by signal, until it is over."""

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from exporter import release
from exporter.cli import main
from exporter.model import UserError
from exporter.release import FILE, Release, ask
from tests.e2e.daemon import eventually
from tests.trees import Clock

FOR_EVER = '{"until": 1e999, "closed": true}'
HUGE = f'{{"until": 1{"0" * 400}, "closed": true}}'


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose lock a daemon holds."""
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield tmp_path


def filed(folder: Path, until: float, closed: bool = False) -> None:
    (folder / FILE).write_text(json.dumps({"until": until, "closed": closed}))


def test_a_filed_request_is_met_once_and_over_in_time(tmp_path: Path) -> None:
    clock = Clock(1000.0)
    daemon = Release(tmp_path, clock)
    assert not daemon.active()
    filed(tmp_path, 1600.0)
    assert daemon.active()
    assert daemon.unmet()
    daemon.met()
    assert daemon.active()
    assert not daemon.unmet()
    assert json.loads((tmp_path / FILE).read_text()) == {"until": 1600.0, "closed": True}
    clock.now = 1600.0
    assert not daemon.active()
    assert not daemon.unmet()
    assert not (tmp_path / FILE).exists()


def test_a_signal_needs_no_folder() -> None:
    clock = Clock(1000.0)
    daemon = Release(None, clock)
    daemon.ask(600)
    assert daemon.unmet()
    daemon.met()
    assert (daemon.active(), daemon.unmet()) == (True, False)
    clock.now = 1601.0
    assert not daemon.active()


def test_a_daemon_that_starts_in_the_middle_of_it_keeps_away(tmp_path: Path) -> None:
    filed(tmp_path, 1600.0, closed=True)
    assert Release(tmp_path, Clock(1000.0)).active()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"until": "x", "closed": 1}', '{"until": null}', FOR_EVER, "[" * 50_000, HUGE]
)
def test_nonsense_in_the_file_releases_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    daemon = Release(tmp_path, Clock(1000.0))
    assert not daemon.active()
    assert not daemon.unmet()


def test_the_command_waits_until_the_daemon_has_closed_nvml(owned: Path) -> None:
    daemon, answers = Release(owned), list[float]()
    asking = Thread(target=lambda: answers.append(ask(owned, 60)))
    asking.start()
    assert eventually(daemon.unmet)
    assert answers == []
    daemon.met()
    asking.join(10)
    assert len(answers) == 1
    ask(owned, 0)
    assert not daemon.active()


def test_without_a_daemon_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no daemon owns it"):
        ask(tmp_path, 60)
    (tmp_path / "lock").touch()
    with pytest.raises(UserError, match="no daemon owns it"):
        ask(tmp_path, 60)


def test_without_an_answer_it_says_so(owned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "ANSWER_SECONDS", 0.05)
    with pytest.raises(UserError, match="not closed"):
        ask(owned, 60)
    with pytest.raises(UserError, match="at most 24h"):
        ask(owned, 90_000)


@pytest.mark.parametrize("length", ["10", "forever", "-5m"])
def test_the_commands_time_needs_a_unit(length: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", f"--for={length}"]) == 2
    assert capsys.readouterr().err.startswith("eastwest: --for: a duration")
