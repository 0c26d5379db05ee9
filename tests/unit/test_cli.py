"""The commands: exit codes, and one line on standard error for a user's mistake."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from exporter.build import node_name
from exporter.cli import main
from exporter.config import Config
from exporter.hardware.scenarios import SCENARIOS


@pytest.mark.parametrize(
    "arguments",
    [
        ["metrics", "--config", "/nowhere"],
        ["metrics", "--simulate", "nope"],
        ["metrics", "--simulate", "bare", "--output", "/nowhere/at/all.prom"],
        ["config", "check", "/"],
        ["serve", "--simulate", "bare", "--listen", "nonsense"],
        ["serve", "--config", "/nowhere"],
    ],
    ids=" ".join,
)
def test_a_users_mistake_is_one_line_and_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("eastwest: ")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["nope"], ["metrics", "--nope"], ["config"]])
def test_bad_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "metrics"])
def test_scenarios_are_listed_with_a_sentence_each(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--simulate", "help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SCENARIOS)
    assert all(len(line.split()) > 5 for line in lines)


def test_bare_is_quiet_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--simulate", "bare"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert 'eastwest_check_success{check="infiniband"} 1' in said.out
    assert "eastwest_port" not in said.out


def test_output_is_replaced_in_one_step_and_readable_by_all(tmp_path: Path) -> None:
    file = tmp_path / "eastwest.prom"
    file.write_text("old")
    with file.open() as held:
        assert main(["metrics", "--simulate", "bare", "--output", str(file)]) == 0
        assert held.read() == "old"
    assert file.read_text().startswith("# HELP eastwest_")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_config_check_says_ok_or_every_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "eastwest.yml"
    file.write_text("node: {name: x}\n")
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok\n"
    file.write_text("nope: 1\nchecks: {host: {interval: 5}}\n")
    assert main(["config", "check", str(file)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


COMMANDS = [
    ["catalogue"],
    ["config", "reference"],
    ["metrics", "--simulate", "help"],
    ["metrics", "--simulate", "bare"],
    ["estimate", "--gpus", "8", "--bytes", "1GB", "--bandwidth", "50GB/s"],
    ["--help"],
]


def ended(command: list[str], output: BinaryIO) -> tuple[int, bytes]:
    """Status and standard error of the real process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    python = [sys.executable, "-m", "exporter", *command]
    done = subprocess.run(python, stdout=output, stderr=subprocess.PIPE, env=environment, check=False, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_behind_standard_output_is_one_line(command: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        assert ended(command, full) == (2, b"eastwest: standard output: No space left on device\n")


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[-1]], ids=" ".join)
def test_a_reader_that_went_away_is_no_error(command: list[str]) -> None:
    """As in `eastwest catalogue | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        assert ended(command, pipe) == (0, b"")


def test_a_host_name_that_is_no_utf8_is_a_label_like_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: os.fsdecode(b"gpu\xff"))
    assert node_name(Config(), None) == "gpu\ufffd"
