"""Which leaf switch (and transceiver cage) each NIC hangs on: CSV `node,rail,leaf[,rack][,cage]` or
`node,leaf`.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from exporter.fleet.intake import Skipped
from exporter.fleet.probes import Ints, Nics, Probes
from exporter.fleet.source import header_of, open_text
from exporter.model import UserError


@dataclass(frozen=True, slots=True)
class Topology:
    """Leaf and cage by (node, rail), or by (node, "") where all rails of a node share a leaf."""

    leaf: Mapping[tuple[str, str], str] = field(default_factory=dict)
    cage: Mapping[tuple[str, str], str] = field(default_factory=dict)
    by_rail: bool = True

    def place(self, probes: Probes, nics: Nics) -> tuple[Ints, tuple[str, ...]]:
        """The leaf of each NIC as a number (-1: not known), and the leaves' names."""
        if not self.leaf:
            return np.full(nics.node.size, -1), ()
        numbers: dict[str, int] = {}
        found = [self.leaf.get(self._key(probes, node, rail)) for node, rail in zip(*_lists(nics), strict=True)]
        codes = [-1 if leaf is None else numbers.setdefault(leaf, len(numbers)) for leaf in found]
        return np.array(codes, np.int64), tuple(numbers)

    def _key(self, probes: Probes, node: int, rail: int) -> tuple[str, str]:
        return probes.nodes[node], probes.rails[rail] if self.by_rail else ""

    def unmeasured(self, probes: Probes, nics: Nics) -> Iterator[tuple[str, str]]:
        """The (node, rail) of the table that no probe touched; rail `*` where the table has no rails."""
        if not self.leaf:
            return
        seen = {self._key(probes, node, rail) for node, rail in zip(*_lists(nics), strict=True)}
        for node, rail in self.leaf:
            if (node, rail) not in seen:
                yield node, rail if self.by_rail else "*"


def _lists(nics: Nics) -> tuple[list[int], list[int]]:
    return nics.node.tolist(), nics.rail.tolist()


def read(path: Path, skipped: Skipped) -> Topology:
    """Read the table. Raises UserError on a wrong header, or where two lines contradict each other."""
    with open_text(path) as file:
        header = [cell.strip() for cell in header_of(file.readline(1 << 20), path)]
        by_rail = "rail" in header
        missing = {"node", "leaf"} - set(header)
        if missing:
            raise UserError(
                f"{path} line 1: no column {', '.join(sorted(missing))}; wanted: node,rail,leaf or node,leaf"
            )
        leaf: dict[tuple[str, str], str] = {}
        cage: dict[tuple[str, str], str] = {}
        reader = csv.reader(file)
        try:
            for row in reader:
                where = f"{path} line {reader.line_num + 1}"
                if not row:
                    continue
                cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
                key = cells.get("node", ""), cells.get("rail", "") if by_rail else ""
                if len(row) != len(header) or not key[0] or not cells["leaf"] or (by_rail and not key[1]):
                    skipped.add(
                        where,
                        "a node, its rail and its leaf are needed" if by_rail else "a node and its leaf",
                    )
                    continue
                if leaf.setdefault(key, cells["leaf"]) != cells["leaf"]:
                    raise UserError(f"{where}: {' rail '.join(filter(None, key))} was on leaf {leaf[key]} before")
                if cells.get("cage"):
                    cage[key] = cells["cage"]
        except csv.Error as error:
            raise UserError(f"{path} line {reader.line_num + 1}: {error}") from None
    if not leaf:
        raise UserError(f"{path}: no node in it")
    return Topology(leaf, cage, by_rail)
