"""Descriptors held and re-read."""

import errno
import os
import resource
from pathlib import Path

import pytest

from exporter.hardware.files import READ_SIZE, RESERVE, Files, raise_descriptor_limit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counter"
    path.write_text("1\n")
    return path


@pytest.mark.parametrize("budget", [0, 1])
def test_a_file_is_read_anew_each_time(file: Path, budget: int) -> None:
    files = Files(budget)
    assert files.read(str(file)) == b"1\n"
    file.write_text("23\n")
    assert files.read(str(file)) == b"23\n"
    assert files.held == budget
    files.close()


def test_at_most_a_page_is_read(file: Path) -> None:
    file.write_bytes(b"1" * 3 * READ_SIZE)
    assert len(Files().read(str(file))) == READ_SIZE


def test_errors_are_the_kernels(tmp_path: Path) -> None:
    files = Files(10)
    for path, number in (
        (tmp_path, errno.EISDIR),
        (tmp_path / "no", errno.ENOENT),
        (tmp_path / "a" / "b", errno.ENOENT),
    ):
        with pytest.raises(OSError, match=os.strerror(number)) as caught:
            files.read(str(path))
        assert caught.value.errno == number
    assert files.held == 0


def test_a_descriptor_whose_device_went_is_opened_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(1)
    files.read(str(file))
    real = os.pread
    answers = iter([errno.ENODEV])

    def once_gone(descriptor: int, size: int, offset: int) -> bytes:
        if (number := next(answers, None)) is not None:
            raise OSError(number, os.strerror(number))
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", once_gone)
    assert files.read(str(file)) == b"1\n"
    assert files.held == 1
    answers = iter([errno.EINVAL])
    with pytest.raises(OSError, match="Invalid argument"):
        files.read(str(file))
    assert files.held == 1
    files.close()


def test_forgetting_a_folder_leaves_its_neighbours(tmp_path: Path) -> None:
    files = Files(10)
    for name in ("mlx5_1", "mlx5_10"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state").write_text("4: ACTIVE\n")
        files.read(str(tmp_path / name / "state"))
    files.forget(str(tmp_path / "mlx5_1"))
    assert files.held == 1
    files.forget(str(tmp_path))
    assert files.held == 0


def test_another_file_under_the_same_name_has_another_identity(file: Path, tmp_path: Path) -> None:
    files = Files()
    before = files.identity(str(file))
    assert files.identity(str(file)) == before
    other = tmp_path / "other"
    other.write_text("1\n")
    other.rename(file)
    assert files.identity(str(file)) != before


@pytest.mark.parametrize(
    ("limits", "refused", "budget"),
    [
        ((1024, 4096), False, 4096 - RESERVE),
        ((1024, 4096), True, 1024 - RESERVE),
        ((100, 100), False, 0),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), False, 1 << 16),
    ],
)
def test_the_limit_of_descriptors_is_raised(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], refused: bool, budget: int
) -> None:
    asked: list[tuple[int, int]] = []

    def setrlimit(_what: int, wanted: tuple[int, int]) -> None:
        if refused:
            raise ValueError("not allowed to raise maximum limit")
        asked.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", lambda _what: limits)
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    assert raise_descriptor_limit() == budget
    assert asked == ([(limits[1], limits[1])] if limits[0] != limits[1] and not refused else [])
