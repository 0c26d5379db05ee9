"""A node x node picture of the probes, where it fits the terminal: percent of normal, the worst rail of each
pair.
"""

import numpy as np

from exporter.fleet.locate import Estimate
from exporter.fleet.probes import Floats, Nics, Probes
from exporter.fleet.units import printable

CELL = 4
LABEL = 16
FEWEST, MOST = 3, 64
RED, YELLOW = "\x1b[31m", "\x1b[33m"
PLAIN = "\x1b[0m"
SLOW, BELOW = 85, 93


def heatmap(probes: Probes, nics: Nics, result: Estimate, width: int, colour: bool) -> list[str]:
    """Lines of text; none where the fleet is too large for `width` columns or too small to need a picture."""
    size = len(probes.nodes)
    if not FEWEST <= size <= MOST or LABEL + CELL * size > width:
        return []
    percent = _percent(probes, nics, result, size)
    if np.isnan(percent).all():
        return []
    lines = [
        "percent of normal, row to column, the best probe of each pair on its worst rail (. not measured):",
        " " * LABEL + "".join(f"{number:>{CELL}}" for number in range(1, size + 1)),
    ]
    for row, node in enumerate(probes.nodes):
        label = f"{row + 1:>2} {printable(node)}"[: LABEL - 1].ljust(LABEL)
        lines.append(label + "".join(_cell(value, colour) for value in percent[row]))
    return lines


def _percent(probes: Probes, nics: Nics, result: Estimate, size: int) -> Floats:
    rails = len(probes.rails)
    said = np.isfinite(result.value)
    best = np.full(size * size * rails, -np.inf)
    at = (nics.node[nics.src] * size + nics.node[nics.dst]) * rails + probes.rail
    np.maximum.at(best, at[said], result.value[said])
    cube = np.where(np.isfinite(best), np.exp(best) * 100, np.nan).reshape(size, size, rails)
    return np.where(np.isnan(cube).all(axis=2), np.nan, np.where(np.isnan(cube), np.inf, cube).min(axis=2))


def _cell(value: float, colour: bool) -> str:
    if np.isnan(value):
        return f"{'.':>{CELL}}"
    text = f"{value:>{CELL}.0f}"
    if not colour or value >= BELOW:
        return text
    return f"{RED if value < SLOW else YELLOW}{text}{PLAIN}"
