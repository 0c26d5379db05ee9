"""Run the online estimator over simulated rounds: how soon it names a fault, and whom it blames for nothing."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.fleet.simulate import Faults, Fleet, Pairs, State, build, matching, measure
from exporter.fleet.online import step
from exporter.fleet.online_state import Round, Verdict, start

MINUTE = 60.0
ENOUGH = 6
"""Scheduled probes within which a fault should be named."""
EXTRA = 8
"""Probes a suspect is given at once."""


@dataclass(frozen=True, slots=True)
class Followed:
    """`delays` in scheduled probes of the NIC, `probes` all of them (the suspect's extra ones too), of those found.

    `bad` counts the faults found and those that got ENOUGH scheduled probes, `false` the blames of healthy NICs among
    `healthy` scheduled NIC-probes; `extra` is the share of probes added; `seconds` of CPU a round.
    """

    delays: NDArray[np.int64]
    probes: NDArray[np.int64]
    bad: int
    false: int
    healthy: int
    extra: float
    seconds: float

    def __add__(self, other: "Followed") -> "Followed":
        """Two runs as one; the shares are their mean, weighed by probes."""
        healthy = max(self.healthy + other.healthy, 1)
        mine, theirs = self.healthy / healthy, other.healthy / healthy
        return Followed(
            np.concatenate([self.delays, other.delays]),
            np.concatenate([self.probes, other.probes]),
            self.bad + other.bad,
            self.false + other.false,
            self.healthy + other.healthy,
            self.extra * mine + other.extra * theirs,
            self.seconds * mine + other.seconds * theirs,
        )


def follow(fleet: Fleet, rounds: int, onset: int, seed: int, crowded: float = 0.0) -> Followed:
    """`rounds` of one probe for each NIC, the faults of `fleet` beginning at round `onset`.

    `crowded` is the share of leaf-rails whose uplinks are congested all the time: half of their probes across leaves.
    """
    rng = np.random.default_rng(seed)
    state = build(fleet, rng)
    before = build(Fleet(fleet.nodes, fleet.rails, fleet.leaf), np.random.default_rng(seed + 1))
    busy = rng.random(state.uplink.shape) < crowded
    bad = state.truth.slow.ravel()
    known = start(np.tile(np.arange(fleet.rails), fleet.nodes), np.repeat(state.leaf_of, fleet.rails))
    since, scheduled = np.zeros(bad.size, np.int64), np.zeros(bad.size, np.int64)
    free = rng.random(fleet.nodes) < fleet.free
    found: dict[int, tuple[int, int]] = {}
    false: set[tuple[int, float]] = set()
    extra, each, healthy, spent = 0, 0, 0, 0.0
    for number in range(rounds):
        now = state if number >= onset else before
        bursts = (rng.random(state.uplink.shape) < fleet.burst) | (busy & (rng.random(state.uplink.shape) < 0.5))
        free = _turned(free, fleet, rng)
        asked = _scheduled(now, fleet, number, np.flatnonzero(free), rng)
        verdicts: tuple[Verdict, ...] = ()
        for turn in range(EXTRA + 1):
            if turn:
                asked = _wanted(verdicts, fleet, number)
                asked = asked.of(free[asked.src] & free[asked.dst])
                extra += asked.src.size
            if not asked.src.size:
                break
            pairs = measure(now, fleet, asked, rng, bursts)
            pairs = pairs.of(rng.random(pairs.src.size) >= fleet.missing)
            probed = np.bincount(_nics(pairs, fleet), minlength=bad.size)
            if number >= onset:
                since += probed
            if not turn:
                each += pairs.src.size
                healthy += int(probed[~bad].sum())
                scheduled += probed if number >= onset else 0
            clock = time.process_time()
            known, verdicts = step(known, _round(pairs, fleet, number * MINUTE + turn))
            spent += time.process_time() - clock
            for verdict in verdicts:
                if verdict.grade == "suspect":
                    continue
                if bad[verdict.nic] and number >= onset:
                    found.setdefault(verdict.nic, (int(scheduled[verdict.nic]), int(since[verdict.nic])))
                else:
                    false.add((verdict.nic, verdict.since))
    delays = np.array(list(found.values()), np.int64).reshape(-1, 2)
    scheduled[list(found)] = ENOUGH
    reached = int((bad & (scheduled >= ENOUGH)).sum())
    return Followed(delays[:, 0], delays[:, 1], reached, len(false), healthy, extra / max(each, 1), spent / rounds)


def faulty(nodes: int, share: float = 0.02, loss: tuple[float, float] = (0.3, 0.3), congestion: float = 0.03) -> Fleet:
    """A fleet with this share of bad NICs."""
    return Fleet(nodes, congestion=congestion, faults=Faults(nic=share, loss=loss))


def _turned(free: NDArray[np.bool_], fleet: Fleet, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Jobs end and start: some nodes change sides between two rounds."""
    return np.where(rng.random(fleet.nodes) < 0.1, rng.random(fleet.nodes) < fleet.free, free)


def _scheduled(state: State, fleet: Fleet, number: int, free: NDArray[np.int64], rng: np.random.Generator) -> Pairs:
    src, dst = matching(free, state.leaf_of, number % 2 == 0, rng)
    rail = np.tile(np.arange(fleet.rails), src.size)
    src, dst = np.repeat(src, fleet.rails), np.repeat(dst, fleet.rails)
    return Pairs(np.full(src.size, number * MINUTE), src, dst, rail, np.zeros(src.size))


def _wanted(verdicts: tuple[Verdict, ...], fleet: Fleet, number: int) -> Pairs:
    pairs = [(one.nic, one.anchor) for one in verdicts if one.grade == "suspect" and one.anchor >= 0]
    src, dst = np.array(pairs, np.int64).reshape(-1, 2).T
    at = np.full(src.size, number * MINUTE)
    return Pairs(at, src // fleet.rails, dst // fleet.rails, src % fleet.rails, np.zeros(src.size))


def _nics(pairs: Pairs, fleet: Fleet) -> NDArray[np.int64]:
    return np.concatenate([pairs.src * fleet.rails + pairs.rail, pairs.dst * fleet.rails + pairs.rail])


def _round(pairs: Pairs, fleet: Fleet, at: float) -> Round:
    src, dst = pairs.src * fleet.rails + pairs.rail, pairs.dst * fleet.rails + pairs.rail
    return Round(at, src, dst, pairs.rate, np.full(src.size, np.nan))
