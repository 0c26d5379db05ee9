"""The one file that is written: whole, owned by one process, never a reason to fail."""

import json
import logging
from pathlib import Path

import pytest

from exporter.model import Role
from exporter.rails import Remembered
from exporter.state import FILE, State

RAILS = {"0000:18:00.0/1": Remembered(Role.COMPUTE, 3), "mlx5_1/1": Remembered(Role.STORAGE)}


def test_what_is_remembered_is_there_after_a_restart(tmp_path: Path) -> None:
    first = State(tmp_path / "new", create=True)
    first.remember(RAILS)
    first.close()
    assert State(tmp_path / "new").rails == RAILS
    assert [path.name for path in (tmp_path / "new").iterdir() if "new" in path.name] == []


def test_a_second_process_reads_and_does_not_write(tmp_path: Path) -> None:
    owner = State(tmp_path, create=True)
    owner.remember(RAILS)
    other = State(tmp_path)
    assert other.rails == RAILS
    other.remember({})
    assert other.rails == {}
    assert State(tmp_path).rails == RAILS
    owner.close()
    State(tmp_path).remember({})
    assert State(tmp_path).rails == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 1}',
        '{"version": 3, "rails": {}}',
        '{"version": 1, "rails": {"x": {"role": "boss"}}}',
        '{"version": 1, "rails": {"x": {"role": "compute", "rail": "seven"}}}',
        '{"version": 1, "rails": {"x": {"role": "compute", "rail": 1e999}}}',
        '{"version": 1, "rails": {"x": {"role": "compute", "rail": NaN}}}',
        '{"version": 1, "rails": {"x": {"role": "compute", "rail": 1.5}}}',
        '{"version": 1, "rails": {"x": {"role": "compute", "rail": -1}}}',
        '{"version": 1, "rails": {"x": {"role": "compute", "rail": true}}}',
        '{"version": 1e999, "rails": {}}',
        '{"version": 1, "rails": [1]}',
        "[" * 100_000,
        "\x00",
    ],
)
def test_a_file_that_makes_no_sense_is_set_aside_and_said_once(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text(content)
    state = State(tmp_path, create=True)
    assert state.rails == {}
    assert len(caplog.records) == 1
    assert (tmp_path / "state.unreadable").read_text() == content
    state.remember(RAILS)
    assert set(json.loads((tmp_path / FILE).read_text())["rails"]) == set(RAILS)


def test_a_folder_that_can_not_be_written_is_said_once_and_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    state = State(tmp_path / "file/below", create=True)
    state.remember(RAILS)
    state.remember({})
    state.remember(RAILS)
    assert state.rails == RAILS
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("create", [True, False])
def test_a_folder_that_can_not_even_be_looked_into_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, create: bool
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert State(tmp_path / "loop", create).rails == {}
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * create


def test_a_one_shot_command_makes_no_folder_and_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    State(tmp_path / "absent").remember(RAILS)
    assert not (tmp_path / "absent").exists()
    assert caplog.records == []


def test_what_lies_in_the_folder_leads_no_write_elsewhere(tmp_path: Path) -> None:
    """The folder is the daemon's, and root runs commands on it."""
    other = tmp_path / "other"
    other.write_text("mine")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "state.new").symlink_to(other)
    state = State(folder, create=True)
    state.remember(RAILS)
    state.close()
    assert other.read_text() == "mine"
    assert State(folder).rails == RAILS


def test_a_write_that_fails_and_leaves_what_can_not_be_removed_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a file system that has become read-only: there, removing is refused as well."""
    (tmp_path / "state.new").mkdir()
    state = State(tmp_path, create=True)
    state.remember(RAILS)
    assert state.rails == RAILS
    assert caplog.text.count("kept in memory only") == 1
    state.close()
