"""Pair measurements as CSV: `time,src,dst,rail,` and one rate column; a few optional columns, others ignored."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import numpy as np

from exporter.fleet.intake import UNITS, Intake, Rows
from exporter.fleet.probes import CROSS, INTRA, UNKNOWN, Floats, Ints
from exporter.model import UserError

NEEDED = ("time", "src", "dst", "rail")
CHUNK = 65_536
SCOPES = {
    "": UNKNOWN,
    "pair": UNKNOWN,
    "intra": INTRA,
    "intra-leaf": INTRA,
    "cross": CROSS,
    "cross-leaf": CROSS,
}
DIRECTIONS = {"": "", "transmit": "", "receive": "receive", "both": "both"}

Row = Sequence[str]


def read(lines: Iterator[str], header: Row, name: str, intake: Intake, step: Callable[[], None]) -> None:
    """Read the lines after the header. `step` is called now and then. Raises UserError on a wrong header."""
    table = columns(header, name)
    intake.use_unit(table.unit, name)
    reader = csv.reader(lines, strict=True)
    while True:
        rows: list[Row] = []
        before, broken = reader.line_num + 1, ""
        try:
            rows.extend(islice(reader, CHUNK))
        except csv.Error as error:  # the rows before it are in the list; reading goes on after it
            broken = f"{error}; is a quote left open?"
        if rows:
            lines_read = reader.line_num + 1 - before if not broken else -1
            _take(rows, _numbers(rows, before, lines_read), table, intake)
        if broken:
            intake.unreadable(f"{name} line {reader.line_num + 1}", broken)
        elif not rows:
            return
        step()


@dataclass(frozen=True, slots=True)
class Table:
    """Where each column of a file stands, of how many; which is the rate; the file's name."""

    where: Mapping[str, int]
    width: int
    unit: str
    name: str


def columns(header: Row, name: str) -> Table:
    """Understand a header. Raises UserError where one is missing, twice there, or the unit is
    unclear.
    """
    names = [cell.strip() for cell in header]
    twice = sorted({cell for cell in names if cell and names.count(cell) > 1})
    if twice:
        raise UserError(f"{name} line 1: column {twice[0]} stands there twice")
    missing = [column for column in NEEDED if column not in names]
    if missing:
        raise UserError(f"{name} line 1: no column {', '.join(missing)}; wanted: {','.join(NEEDED)}, and a rate")
    units = [unit for unit in UNITS if unit in names]
    if len(units) != 1:
        raise UserError(f"{name} line 1: exactly one rate column is needed, one of {', '.join(UNITS)}")
    return Table({cell: at for at, cell in enumerate(names)}, len(names), units[0], name)


def _numbers(rows: Sequence[Row], start: int, lines: int) -> Sequence[int] | range:
    """The line each row starts on: a quoted name may hold line breaks."""
    if len(rows) == lines:
        return range(start + 1, start + lines + 1)
    at, numbers = start + 1, []
    for row in rows:
        numbers.append(at)
        at += 1 + sum(cell.count("\n") for cell in row)
    return numbers


def _take(rows: Sequence[Row], lines: Sequence[int] | range, table: Table, intake: Intake) -> None:
    try:
        intake.take(_columns(rows, table), lines, table.name)
    except _UnreadableError:
        good, kept = [], []
        for row, line in zip(rows, lines, strict=True):
            why = _why(row, table) if row else ""
            if why:
                intake.unreadable(f"{table.name} line {line}", why)
            elif row:
                good.append(row)
                kept.append(line)
        if good:
            intake.take(_columns(good, table), kept, table.name)


class _UnreadableError(Exception):
    """At least one row of these is no row of measurements."""


def _columns(rows: Sequence[Row], table: Table) -> Rows:
    try:
        cells = list(zip(*rows, strict=True))
    except ValueError:
        raise _UnreadableError from None
    if len(cells) != table.width:
        raise _UnreadableError
    where, size = table.where, len(rows)
    directions = _optional(cells, where, "direction")
    way = _mapped(directions, DIRECTIONS) if directions else []
    src, dst = _ends(cells[where["src"]], cells[where["dst"]], way)
    return Rows(
        time=_times(cells[where["time"]]),
        src=src,
        dst=dst,
        rail=cells[where["rail"]],
        rate=_floats(cells[where[table.unit]]) * UNITS[table.unit],
        engine=_optional(cells, where, "engine") or ("",) * size,
        scope=_scopes(_optional(cells, where, "scope"), size),
        both=np.array([one == "both" for one in way] or np.zeros(size), bool),
        utilization=_measured(_optional(cells, where, "utilization_ratio"), size),
        errors=_measured(_optional(cells, where, "error_events"), size),
        marks=_measured(_optional(cells, where, "congestion_events"), size),
    )


def _ends(src: Row, dst: Row, way: Sequence[str]) -> tuple[Row, Row]:
    """Source and destination of the bytes: a rate that src received was sent by dst."""
    if "receive" not in way:
        return src, dst
    turned = [(d, s) if one == "receive" else (s, d) for s, d, one in zip(src, dst, way, strict=True)]
    return [one[0] for one in turned], [one[1] for one in turned]


def _optional(cells: Sequence[Row], where: Mapping[str, int], column: str) -> Row | None:
    return cells[where[column]] if column in where else None


def _mapped(texts: Row, meanings: Mapping[str, str]) -> list[str]:
    try:
        return [meanings[text.strip().lower()] for text in texts]
    except KeyError:
        raise _UnreadableError from None


def _scopes(texts: Row | None, size: int) -> Ints:
    if texts is None:
        return np.zeros(size, np.int64)
    try:
        return np.array([SCOPES[text.strip().lower()] for text in texts], np.int64)
    except KeyError:
        raise _UnreadableError from None


def _floats(texts: Row) -> Floats:
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        raise _UnreadableError from None
    if any("_" in text for text in texts):  # Python reads 1_000, nobody else writes it
        raise _UnreadableError
    return numbers


def _measured(texts: Row | None, size: int) -> Floats:
    """Numbers where there are any; an empty cell is absent, not 0."""
    if texts is None:
        return np.full(size, np.nan)
    return _floats([text if text.strip() else "nan" for text in texts])


def _times(texts: Row) -> Floats:
    """Seconds, written as a number or as ISO 8601."""
    try:
        return _floats(texts)
    except _UnreadableError:
        return np.array([_time(text) for text in texts])


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise _UnreadableError from None


def _why(row: Row, table: Table) -> str:
    """What is wrong with a row; empty where nothing is."""
    if len(row) != table.width:
        return f"{len(row)} cells where the header has {table.width}"
    readers: tuple[tuple[str, Callable[[Row], object]], ...] = (
        ("time", _times),
        (table.unit, _floats),
        ("direction", lambda cells: _mapped(cells, DIRECTIONS)),
        ("scope", lambda cells: _scopes(cells, 1)),
        ("utilization_ratio", lambda cells: _measured(cells, 1)),
        ("error_events", lambda cells: _measured(cells, 1)),
        ("congestion_events", lambda cells: _measured(cells, 1)),
    )
    for column, reader in readers:
        if column in table.where:
            try:
                reader([row[table.where[column]]])
            except _UnreadableError:
                return f"{column} can't be {row[table.where[column]][:40]!r}"
    return ""
