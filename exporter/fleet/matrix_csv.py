"""A square matrix as CSV: the first row names the nodes, then a row for each source; the cells are rates.

The corner may hold the unit and the rail (`gbit_per_second 3`). An empty cell, `-` or `nan` was not measured.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from exporter.fleet.intake import UNITS, Intake, Rows
from exporter.model import UserError

ABSENT = frozenset({"", "-", "nan", "none", "n/a", "na"})


def is_header(header: Sequence[str]) -> bool:
    """Whether a first row can be that of a matrix: different names, none of a table's columns."""
    names = [cell.strip() for cell in header[1:]]
    return len(names) > 1 and len(set(names)) == len(names) and not {"src", "dst", "rail"} & set(names)


def read(lines: Iterator[str], header: Sequence[str], name: str, intake: Intake) -> None:
    """Read the rows after the header. Raises UserError where it is no square matrix."""
    nodes = [cell.strip() for cell in header[1:]]
    words = header[0].split(maxsplit=1)
    unit = words[0] if words and words[0] in UNITS else ""
    rail = words[1].removeprefix("rail").strip() if unit and len(words) > 1 else "0"
    intake.use_unit(unit, name)
    reader = csv.reader(lines)
    seen = set()
    for row in reader:
        if not row:
            continue
        line, source = reader.line_num + 1, row[0].strip()
        if source not in nodes or source in seen or len(row) != len(header):
            raise UserError(f"{name} line {line}: not a square matrix: a row of {len(row)} cells named {source[:40]!r}")
        seen.add(source)
        cells = {node: cell for node, cell in zip(nodes, row[1:], strict=True) if node != source}
        rates = _rates(cells, f"{name} line {line}", intake)
        intake.take(_rows(source, rates, rail, UNITS.get(unit, 1.0)), [line] * len(rates), name)
    if not seen:
        raise UserError(f"{name}: a header and no rows")


def _rates(cells: Mapping[str, str], where: str, intake: Intake) -> dict[str, float]:
    rates = {}
    for node, cell in cells.items():
        if cell.strip().lower() in ABSENT:
            continue
        try:
            rates[node] = float(cell)
        except ValueError:
            intake.unreadable(where, f"the rate to {node} can't be {cell[:40]!r}")
    return rates


def _rows(source: str, rates: Mapping[str, float], rail: str, factor: float) -> Rows:
    size = len(rates)
    absent = np.full(size, np.nan)
    return Rows(
        time=np.zeros(size),
        src=[source] * size,
        dst=list(rates),
        rail=[rail] * size,
        rate=np.fromiter(rates.values(), np.float64, size) * factor,
        engine=[""] * size,
        scope=np.zeros(size, np.int64),
        both=np.zeros(size, bool),
        utilization=absent,
        errors=absent,
        marks=absent,
    )
