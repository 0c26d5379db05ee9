"""Run the batch estimator on a simulated fleet and count what it got right, against the truth."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.fleet.simulate import Fleet, Pairs, State, build, probe_rounds
from exporter.fleet.locate import SLOW, UNDETERMINED, Estimate, estimate
from exporter.fleet.probes import Nics, Probes, index, recent


@dataclass(frozen=True, slots=True)
class Score:
    """Of (node, rail): those blamed and bad, bad, blamed and good, undetermined, judged; and of leaf-rails.

    `seconds` is the estimate alone.
    """

    hits: int
    bad: int
    false: int
    undetermined: int
    judged: int
    leaf_hits: int
    leaf_bad: int
    leaf_false: int
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
    return _score(result, nics, state, time.perf_counter() - began)


def _score(result: Estimate, nics: Nics, state: State, seconds: float) -> Score:
    blamed = result.status >= SLOW
    bad: NDArray[np.bool_] = state.truth.bad[nics.node, nics.rail]
    uplink = state.truth.uplink
    named = np.zeros_like(uplink)
    named[result.leaves.leaf, result.leaves.rail] = result.leaves.slow
    return Score(
        hits=int((blamed & bad).sum()),
        bad=int(bad.sum()),
        false=int((blamed & ~bad).sum()),
        undetermined=int((result.status == UNDETERMINED).sum()),
        judged=int(nics.node.size),
        leaf_hits=int((named & uplink).sum()),
        leaf_bad=int(uplink.sum()),
        leaf_false=int((named & ~uplink).sum()),
        seconds=seconds,
    )
