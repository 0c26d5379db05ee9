"""Files into Probes: what each file is, is seen from its first line."""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from exporter.fleet import matrix_csv, nccl_json, pairs_csv
from exporter.fleet.intake import Intake
from exporter.model import UserError

LARGEST_JSON = 64 << 20


def read(paths: Iterable[Path], intake: Intake, progress: Callable[[str, int, int], None]) -> None:
    """Read all files. `progress` gets a name, the bytes read and the size. Raises UserError on what is no
    data.
    """
    for path in paths:
        with open_text(path) as file:
            first = file.readline(1 << 20)
            if first.lstrip()[:1] == "{":
                nccl_json.read(first + file.read(LARGEST_JSON), str(path), intake)
            else:
                _table(first, file, path, intake, progress)


def open_text(path: Path) -> io.TextIOWrapper:
    """The file as text. Raises UserError where there is none: no file, no right, a directory, binary."""
    try:
        raw = path.open("rb")
    except IsADirectoryError:
        raise UserError(f"{path}: a directory; a file is needed") from None
    except OSError as error:
        raise UserError(f"{path}: {os.strerror(error.errno or 0)}") from None
    head = raw.peek(4096)[:4096]
    if b"\0" in head:
        raw.close()
        raise UserError(f"{path}: not a text file")
    if not head:
        raw.close()
        raise UserError(f"{path}: empty")
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="")


def header_of(first: str, path: Path) -> list[str]:
    """The cells of the first line. Raises UserError."""
    try:
        rows = list(csv.reader([first]))
    except csv.Error as error:
        raise UserError(f"{path} line 1: {error}") from None
    if not rows or not any(cell.strip() for cell in rows[0]):
        raise UserError(f"{path} line 1: empty; a header is needed")
    return rows[0]


def _table(
    first: str, file: io.TextIOWrapper, path: Path, intake: Intake, progress: Callable[[str, int, int], None]
) -> None:
    header = header_of(first, path)
    if set(pairs_csv.NEEDED) - {cell.strip() for cell in header} and matrix_csv.is_header(header):
        rows = csv.reader([file.readline(1 << 20)])
        second = next(rows, [])
        if second and second[0].strip() in {cell.strip() for cell in header[1:]}:
            matrix_csv.read(_after(second, file), header, str(path), intake)
            return
    size = max(os.fstat(file.fileno()).st_size, 1)
    before = intake.rows
    pairs_csv.read(
        file, header, str(path), intake, lambda: progress(path.name, os.lseek(file.fileno(), 0, os.SEEK_CUR), size)
    )
    if intake.rows == before:
        raise UserError(f"{path}: a header and no rows")


def _after(row: list[str], file: Iterator[str]) -> Iterator[str]:
    line = io.StringIO()
    csv.writer(line).writerow(row)
    yield line.getvalue()
    yield from file
