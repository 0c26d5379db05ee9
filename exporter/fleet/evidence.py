"""Sentences: what was seen of a NIC, and the probe that would refute or decide it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from exporter.fleet.levels import FAST, SLOW_RATIO, WINDOWS
from exporter.fleet.locate import BOTH, CLEAR, INTERMITTENT, SLOW, TRANSMIT, Estimate
from exporter.fleet.patterns import FLICKER
from exporter.fleet.probes import CROSS, INTRA, RECENT, Bools, Floats, Ints, Nics, Probes
from exporter.fleet.units import percent, rail_name, show_rate

ANCHORS = 16
LISTED = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """The recent probes of one NIC that say something of it: its partners, log(rate / normal), scope, row."""

    partner: Ints
    value: Floats
    scope: Ints
    probe: Ints

    @property
    def slow(self) -> Bools:
        """Which of them were below the certificate."""
        return self.value < FAST


class Witness:
    """Speaks for one estimate: holds the names, and the cleared NICs that make good partners."""

    def __init__(self, probes: Probes, nics: Nics, leaf: Ints, result: Estimate) -> None:
        self.probes, self.nics, self.leaf, self.result = probes, nics, leaf, result
        base = result.base
        known = np.flatnonzero(np.isfinite(base.normal)).tolist()
        self._normal = {
            (int(base.rail[k]), int(base.scope[k]), int(base.engine[k])): float(base.normal[k]) for k in known
        }
        self._any: dict[int, float] = {}
        for (rail, _, _), normal in self._normal.items():
            self._any.setdefault(rail, normal)
        self._anchors = self._best_anchors()
        said = np.isfinite(result.value)
        self._measured = np.zeros(nics.node.size, bool)
        self._measured[nics.src[said]] = self._measured[nics.dst[said]] = True

    def _best_anchors(self) -> dict[tuple[int, int], list[int]]:
        """The fastest cleared NICs of each (rail, leaf), and of each rail under leaf -2."""
        clear = np.flatnonzero(self.result.status == CLEAR)
        found: dict[tuple[int, int], list[int]] = {}
        if not clear.size:
            return found
        for leaf in (self.leaf[clear], np.full(clear.size, -2)):
            order = np.lexsort((-self.result.best[clear], leaf, self.nics.rail[clear]))
            rail, where = self.nics.rail[clear][order], leaf[order]
            first = np.flatnonzero(np.diff(rail, prepend=-1).astype(bool) | np.diff(where, prepend=-3).astype(bool))
            for start, stop in zip(first.tolist(), [*first[1:].tolist(), order.size], strict=True):
                top = clear[order[start : min(stop, start + ANCHORS)]]
                found[int(rail[start]), int(where[start])] = top.tolist()
        return found

    def name(self, nic: int) -> tuple[str, str]:
        """Node and rail, as given."""
        return self.probes.nodes[self.nics.node[nic]], self.probes.rails[self.nics.rail[nic]]

    def title(self, nic: int) -> str:
        """`gpu-17 rail 3`."""
        node, rail = self.name(nic)
        return f"{node} {rail_name(rail)}"

    def seen(self, nic: int) -> Seen:
        """The probes the verdict rests on: of the blamed direction, the newest, without those a worse partner
        explains.
        """
        ends, result = self.result.ends, self.result
        rows = np.arange(ends.start[nic], ends.start[nic + 1])
        if result.direction[nic] != BOTH:
            rows = rows[ends.sends[rows] == (result.direction[nic] == TRANSMIT)]
        limit = RECENT if result.status[nic] == INTERMITTENT else WINDOWS[0]
        chosen = self._unexplained(nic, rows[-limit:])
        if result.status[nic] == SLOW and (ends.value[chosen] < FAST).mean() < 0.5:  # a small loss
            chosen = self._unexplained(nic, rows[-WINDOWS[1] :])
        probe = ends.probe[chosen]
        return Seen(ends.partner[chosen], ends.value[chosen], result.scope[probe], probe)

    def _unexplained(self, nic: int, rows: Ints) -> Ints:
        partner = self.result.ends.partner[rows]
        worse = (self.result.status[partner] == SLOW) & (self.result.best[partner] < self.result.best[nic])
        return rows[~worse] if not worse.all() else rows

    def accusation(self, nic: int, seen: Seen, loss: float) -> str:
        """Why this NIC: how slow, against whom, and what that leaves."""
        partners, against = np.unique(seen.partner), np.unique(seen.partner[seen.slow])
        fast = against[self.result.status[against] == CLEAR]
        whom = f"{against.size} of {partners.size} partners"
        alibi = "each fast with someone else" if fast.size == against.size else f"{fast.size} of them fast with others"
        if self.result.status[nic] == INTERMITTENT:
            flickers = int((seen.value < FLICKER).sum())
            return (
                f"{self.title(nic)} lost about {percent(loss)} now and then: in {flickers} of {seen.value.size} probes"
                f" that no partner explains, far more than its peers; {whom}, {alibi}: NIC, cable or host"
            )
        way = {BOTH: "", TRANSMIT: " when it sends (fast when it receives)"}.get(
            int(self.result.direction[nic]), " when it receives (fast when it sends)"
        )
        return f"{self.title(nic)} lost {percent(loss)}{way} against {whom}, {alibi}; {self._place(seen)}"

    def _place(self, seen: Seen) -> str:
        scopes = set(seen.scope[seen.slow].tolist())
        if INTRA in scopes:
            return "intra-leaf too: NIC, cable or host"
        return "across leaves only: NIC, cable, host or its path up" if CROSS in scopes else "NIC, cable or host"

    def next_probe(self, nic: int, avoid: Sequence[int] = ()) -> str:
        """The probe that would refute a blame or decide a doubt: with a fast, cleared NIC it did not meet
        yet.
        """
        node, rail = self.name(nic)
        anchor = self._anchor(nic, set(avoid))
        if anchor is None:
            return f"probe {rail_name(rail)} between four nodes or more, each with two partners or more"
        scope = self._scope(nic, anchor)
        normal = self._expected(nic, scope)
        return (
            f"probe {node} {f'r{rail}' if rail.isdecimal() else rail_name(rail)} against {self.name(anchor)[0]},"
            f" expect >= {show_rate(SLOW_RATIO * normal, self.probes.unit)}"
        )

    def _anchor(self, nic: int, avoid: set[int]) -> int | None:
        rail = int(self.nics.rail[nic])
        near, far = self._anchors.get((rail, int(self.leaf[nic])), []), self._anchors.get((rail, -2), [])
        choices = [one for one in [*near, *far] if one != nic]
        fresh = [one for one in choices if one not in avoid]
        return next(iter(fresh or choices), None)

    def _scope(self, nic: int, other: int) -> int:
        a, b = int(self.leaf[nic]), int(self.leaf[other])
        return 0 if a < 0 or b < 0 else INTRA if a == b else CROSS

    def _expected(self, nic: int, scope: int) -> float:
        rail = int(self.nics.rail[nic])
        rows = self.result.ends.probe[self.result.ends.start[nic] : self.result.ends.start[nic + 1]]
        engine = int(self.probes.engine[rows[-1]]) if rows.size else 0
        return self._normal.get((rail, scope, engine), self._any.get(rail, math.nan))

    def normals(self) -> dict[str, str]:
        """The typical healthy rate of each rail (its first scope and tool), as text."""
        return {self.probes.rails[rail]: show_rate(value, self.probes.unit) for rail, value in self._any.items()}

    def doubt(self, nic: int) -> tuple[str, str]:
        """Why a NIC is undetermined, and the probe that would decide."""
        ends, result = self.result.ends, self.result
        rows = np.arange(ends.start[nic], ends.start[nic + 1])
        rail = self.name(nic)[1]
        if not rows.size and self._measured[nic]:
            return f"every probe of it went through a slow uplink of {rail_name(rail)}", self.next_probe(nic)
        if not rows.size:
            why = f"fewer than three nodes were measured alike on {rail_name(rail)}: nothing says what is normal"
            return f"{why}, and two ends of one link can't be told apart", self.next_probe(nic)
        partner = np.unique(ends.partner[rows])
        clear = partner[result.status[partner] == CLEAR]
        loss = percent(1 - math.exp(float(np.median(ends.value[rows]))))
        names = self._names(partner)
        if not clear.size:
            why = f"slow by {loss} against {names}, which nothing clears either: one of the two ends, or the path"
        elif clear.size == 1:
            why = (
                f"slow by {loss}, but cleared partners of it are only {self._names(clear)}: this NIC, or that one path"
            )
        else:
            slow = int((ends.value[rows] < FAST).sum())
            count = f"slow in {slow} of {rows.size} probes (median loss {loss})"
            why = f"{count}, but congestion alone can do that in this fleet"
        return why, self.next_probe(nic, ends.partner[rows].tolist())

    def _names(self, nics: Ints) -> str:
        names = [self.name(int(nic))[0] for nic in nics[:LISTED]]
        return ", ".join(names) + (f" and {nics.size - LISTED} more" if nics.size > LISTED else "")


def interval(values: Floats) -> tuple[float, float, float]:
    """Median loss and its 95 % interval (ratios), from log(rate / normal); the extremes where they are few."""
    ordered = np.sort(values)
    size = ordered.size
    edge = max(int((size - 1.96 * math.sqrt(size)) // 2), 0)
    loss = 1 - np.exp(np.array([np.median(ordered), ordered[size - 1 - edge], ordered[edge]]))
    median, low, high = np.clip(loss, 0.0, 1.0).round(4).tolist()
    return median, low, high
