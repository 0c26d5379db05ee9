"""Run the batch estimator on a simulated fleet and count what it got right, against the truth."""

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.fleet.simulate import Fleet, Pairs, State, build, probe_rounds
from exporter.fleet.locate import SLOW, UNDETERMINED, Estimate, estimate
from exporter.fleet.probes import Nics, Probes, index, recent

PAIR_PROBES = 3
"""A pair that met less often is no one's business: two slow probes are congestion."""


@dataclass(frozen=True, slots=True)
class Score:
    """Of (node, rail): those blamed and bad, bad, blamed and good, undetermined, judged; and of leaf-rails and pairs.

    A bad pair counts where it was probed PAIR_PROBES times or more. `seconds` is the estimate alone.
    """

    hits: int
    bad: int
    false: int
    undetermined: int
    judged: int
    leaf_hits: int
    leaf_bad: int
    leaf_false: int
    pair_hits: int
    pair_bad: int
    pair_false: int
    seconds: float

    def __add__(self, other: "Score") -> "Score":
        mine, theirs = (tuple(getattr(one, name) for name in Score.__slots__) for one in (self, other))
        return Score(*(a + b for a, b in zip(mine, theirs, strict=True)))

    @property
    def precision(self) -> float:
        """Of the blamed, how many are bad; 1 where nobody is blamed."""
        return self.hits / max(self.hits + self.false, 1) if self.hits + self.false else 1.0

    @property
    def recall(self) -> float:
        """Of the bad, how many are blamed; 1 where nobody is bad."""
        return self.hits / self.bad if self.bad else 1.0


def columns(pairs: Pairs, fleet: Fleet) -> Probes:
    """Simulated pairs as the estimator takes them."""
    size = pairs.src.size
    absent = np.full(size, np.nan)
    return Probes(
        nodes=tuple(f"gpu-{node}" for node in range(fleet.nodes)),
        rails=tuple(str(rail) for rail in range(fleet.rails)),
        unit="bytes_per_second",
        time=pairs.time,
        src=pairs.src,
        dst=pairs.dst,
        rail=pairs.rail,
        rate=pairs.rate,
        engine=np.zeros(size, np.int64),
        scope=np.zeros(size, np.int64),
        both=np.zeros(size, bool),
        utilization=absent,
        errors=absent,
        marks=absent,
    )


def judge(fleet: Fleet, seed: int) -> Score:
    """Simulate, estimate, compare. A NIC no probe touched is not judged."""
    rng = np.random.default_rng(seed)
    state = build(fleet, rng)
    probes = recent(columns(probe_rounds(state, fleet, rng), fleet))
    nics = index(probes)
    began = time.perf_counter()
    result = estimate(probes, nics, state.leaf_of[nics.node])
    seconds = time.perf_counter() - began
    times: Counter[tuple[int, ...]] = Counter()
    if state.truth.pairs:
        low, high = np.minimum(probes.src, probes.dst), np.maximum(probes.src, probes.dst)
        times.update(zip(low.tolist(), high.tolist(), probes.rail.tolist(), strict=True))
    return _score(result, nics, state, times, seconds)


def _score(result: Estimate, nics: Nics, state: State, times: Counter[tuple[int, ...]], seconds: float) -> Score:
    blamed = result.status >= SLOW
    bad: NDArray[np.bool_] = state.truth.bad[nics.node, nics.rail]
    uplink = state.truth.uplink
    named = np.zeros_like(uplink)
    named[result.leaves.leaf, result.leaves.rail] = result.leaves.slow
    pairs = {
        (*sorted((int(nics.node[a]), int(nics.node[b]))), int(nics.rail[a]))
        for a, b in zip(result.pairs.first.tolist(), result.pairs.second.tolist(), strict=True)
    }
    often = {pair for pair in state.truth.pairs if times[pair] >= PAIR_PROBES}
    return Score(
        hits=int((blamed & bad).sum()),
        bad=int(bad.sum()),
        false=int((blamed & ~bad).sum()),
        undetermined=int((result.status == UNDETERMINED).sum()),
        judged=int(nics.node.size),
        leaf_hits=int((named & uplink).sum()),
        leaf_bad=int(uplink.sum()),
        leaf_false=int((named & ~uplink).sum()),
        pair_hits=len(pairs & often),
        pair_bad=len(often),
        pair_false=len(pairs - state.truth.pairs),
        seconds=seconds,
    )
