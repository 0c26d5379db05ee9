"""The online estimator: soon, only the guilty, and with patience on the way back."""

import numpy as np

from bench.fleet.follow import faulty, follow
from bench.fleet.simulate import Fleet
from exporter.fleet.online import HOLD, step
from exporter.fleet.online_state import Round, State, Verdict, start

NODES = 8


def test_a_nic_that_lost_30_percent_is_named_in_three_probes() -> None:
    result = follow(faulty(256), 50, 30, 20_000)
    assert result.delays.size == result.bad > 20
    assert np.median(result.delays) <= 3
    assert np.quantile(result.delays, 0.95) <= 6
    assert result.false == 0
    assert result.extra < 0.02


def test_four_healthy_nodes_blame_none_of_them() -> None:
    """Two probes of a rail a round: neither normal nor noise may be taken from the first of them."""
    results = [follow(Fleet(4), 60, 60, seed) for seed in range(20_010, 20_030)]
    assert sum(result.false for result in results) == 0
    assert sum(result.extra for result in results) < 0.02


def test_extra_probes_count_and_are_few() -> None:
    result = follow(faulty(256), 50, 30, 20_002)
    assert np.median(result.probes) <= 5
    assert np.quantile(result.probes, 0.95) <= 7
    assert result.false == 0


def test_persistent_leaf_congestion_blames_no_nic() -> None:
    result = follow(Fleet(256, 4, congestion=0.10, burst=0.03), 60, 60, 20_001, crowded=0.1)
    assert result.false == 0


def rounds(
    state: State, first: int, last: int, factor: float, every: float = 60.0
) -> tuple[State, tuple[Verdict, ...]]:
    """Rounds of all against the next, NIC 0 at `factor` of its rate."""
    rng = np.random.default_rng(first)
    verdicts: tuple[Verdict, ...] = ()
    for number in range(first, last):
        order = rng.permutation(NODES)
        src, dst = order[::2], order[1::2]
        rate = 50e9 * np.exp(rng.normal(0, 0.02, src.size)) * np.where((src == 0) | (dst == 0), factor, 1.0)
        state, verdicts = step(state, Round(number * every, src, dst, rate, np.full(src.size, np.nan)))
    return state, verdicts


def fresh() -> State:
    return start(np.zeros(NODES, np.int64), np.zeros(NODES, np.int64))


def test_grades_hold_and_repeat() -> None:
    """suspect, confirmed, corroborated; half an hour of fast probes ends it; back within a day is said."""
    state, verdicts = rounds(fresh(), 0, 20, 1.0)
    assert verdicts == ()
    state, verdicts = rounds(state, 20, 25, 0.6)
    assert [(one.nic, one.grade) for one in verdicts] == [(0, "suspect")]
    assert verdicts[0].anchor not in {0, -1}
    state, verdicts = rounds(state, 25, 35, 0.6)
    (blame,) = verdicts
    assert (blame.grade, blame.returned) == ("confirmed", False)
    assert abs(blame.loss - 0.4) < 0.05
    state, verdicts = rounds(state, 35, 35 + int(HOLD / 60) + 1, 0.6)
    assert [one.grade for one in verdicts] == ["corroborated"]
    state, verdicts = rounds(state, 70, 85, 1.0)
    assert [one.grade for one in verdicts] == ["corroborated"], "fast again, but not for half an hour"
    state, verdicts = rounds(state, 85, 85 + int(HOLD / 60) + 25, 1.0)
    assert verdicts == ()
    state, verdicts = rounds(state, 200, 215, 0.6)
    assert [(one.grade, one.returned) for one in verdicts] == [("confirmed", True)]


def test_an_error_counter_corroborates() -> None:
    state, _ = rounds(fresh(), 0, 20, 1.0)
    state, verdicts = rounds(state, 20, 32, 0.6)
    assert [one.grade for one in verdicts] == ["confirmed"]
    at = np.array([0]), np.array([1])
    _, verdicts = step(state, Round(32 * 60.0, *at, np.array([30e9]), np.array([3.0])))
    assert [one.grade for one in verdicts] == ["corroborated"]


def test_nonsense_rates_change_nothing() -> None:
    state, _ = rounds(fresh(), 0, 20, 1.0)
    pair = np.array([0, 2, 4, 6]), np.array([1, 3, 5, 7])
    bad = np.array([np.nan, 0.0, -1.0, np.inf])
    after, verdicts = step(state, Round(1200.0, *pair, bad, np.full(4, np.nan)))
    assert verdicts == ()
    assert np.array_equal(after.score, state.score)


def test_a_state_is_a_value() -> None:
    state, _ = rounds(fresh(), 0, 20, 1.0)
    before = state.score.copy(), state.normal.copy()
    once, _ = rounds(state, 20, 30, 0.6)
    again, _ = rounds(state, 20, 30, 0.6)
    assert np.array_equal(state.score, before[0])
    assert np.array_equal(state.normal, before[1], equal_nan=True)
    assert np.array_equal(once.score, again.score)
