"""Slow probes that repeat a rate are a fault; slow probes that scatter are not, however many."""

import numpy as np

from exporter.fleet.alike import FAR, SURE, Alike, Seen, learn, start, weigh
from exporter.fleet.probes import Floats

SIGMA = 0.05


def take(state: Alike, value: Floats, cross: bool = False) -> Alike:
    every = np.arange(value.size)
    return weigh(state, Seen(every, value, np.full(value.size, cross), np.zeros(value.size, bool)), SIGMA)


def known(size: int) -> Alike:
    """After rounds with 3 % of their probes congested."""
    state = start(size)
    for _ in range(50):
        state = learn(state, np.where(np.arange(100) < 3, -0.6, 0.0), SIGMA)
    return state


def test_five_probes_alike_are_sure() -> None:
    state = known(1)
    weights = []
    for value in (-0.36, -0.31, -0.40, -0.37, -0.34):
        state = take(state, np.array([value]))
        weights.append(float(state.weight[0]))
    assert weights[2] < SURE < weights[4]
    assert abs(state.level[0] + 0.356) < 0.02


def test_chance_never_makes_it_sure() -> None:
    """A fifth of all probes congested, 2 million NIC-probes: no NIC gets there, and most stand at nothing."""
    rng = np.random.default_rng(26_000)
    state = learn(start(20_000), np.where(rng.random(10_000) < 0.2, -0.6, 0.0), SIGMA)
    highest = 0.0
    for _ in range(100):
        busy = np.where(rng.random(20_000) < 0.2, np.log(rng.uniform(0.3, 0.9, 20_000)), 0.0)
        state = take(state, rng.normal(0, SIGMA, 20_000) + busy)
        highest = max(highest, float(state.weight.max()))
    assert highest < SURE
    assert np.median(state.weight) == 0


def test_congestion_on_top_of_a_fault_moves_no_level() -> None:
    state = known(1)
    for value in (-1.0, -0.36, -0.35, -0.9, -0.37, -0.36):
        state = take(state, np.array([value]))
    assert abs(state.level[0] + 0.36) < 0.02
    assert state.weight[0] > 0


def test_a_level_near_normal_is_none() -> None:
    """Else a NIC at normal with some congested probes would be a level of 0."""
    state = known(1)
    for value in (-0.5, -0.1, -0.02, 0.0, -0.6, 0.01):
        state = take(state, np.array([value]))
        assert state.level[0] <= FAR or state.count[0] == 0


def test_a_probe_across_leaves_says_less() -> None:
    inside, across = known(1), known(1)
    for value in (-0.36, -0.35, -0.37):
        inside, across = take(inside, np.array([value])), take(across, np.array([value]), cross=True)
    assert across.weight[0] < inside.weight[0]
