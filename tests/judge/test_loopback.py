"""Which of the NICs is slow, or whether all are: one finding a cause, over the rounds as they are planned."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.judge.probes import ProbeScene, judge_probes
from exporter.judge.trials import Measured, Trial, kept
from exporter.model import Finding
from exporter.probes.jobs import pairs
from exporter.probes.protocol import Nic
from tests.judge.probing import DAY, GAP
from tests.props import quick

NODE = "node"
Ends = Mapping[str, tuple[float, float]]
"""What a NIC can send and receive, as shares of the usual."""


def nics(*leaves: int) -> list[Nic]:
    """So many on each leaf."""
    names = [f"leaf{number}" for number, size in enumerate(leaves) for _ in range(size)]
    return [Nic(f"mlx5_{number}", leaf=leaf) for number, leaf in enumerate(names)]


def rounds(found: Sequence[Nic], turns: int, slow: Ends, first: int = 0, stop: int | None = None) -> list[Trial]:
    """Trials of so many rounds from `first` on, a minute apart in each; the last one ends after `stop` pairs."""
    trials = []
    for turn in range(first, first + turns):
        for number, (a, b) in enumerate(pairs(found, turn)):
            if turn == first + turns - 1 and stop is not None and number >= stop:
                break
            flows = tuple(
                Measured(
                    x.subject, y.subject, 48e9 * min(slow.get(x.device, FINE)[0], slow.get(y.device, FINE)[1]), 48e9
                )
                for x, y in ((a, b), (b, a))
            )
            time = GAP * (turn + 1) + 60.0 * number
            trials.append(Trial(time, "loopback", "nccl", "ok", nics=(a.subject, b.subject), flows=flows))
    return trials


FINE = (1.0, 1.0)


def judged(trials: Sequence[Trial]) -> dict[str, Finding]:
    seen = list(judge_probes(ProbeScene(trials[-1].time + 60, kept(trials), GAP)))
    assert {one.reason for one in seen} <= {"probe_loopback_slow"}
    by = {one.subject.removesuffix("/1"): one for one in seen}
    assert len(by) == len(seen)
    return by


def all_at(found: Sequence[Nic], factor: float) -> dict[str, tuple[float, float]]:
    return {nic.device: (factor, factor) for nic in found}


@pytest.mark.parametrize("before", [0, 7])
@pytest.mark.parametrize("turns", [2, 3, 4, 7, 9])
@pytest.mark.parametrize("leaves", [(8,), (4,), (5,), (4, 4), (2, 2), (2, 2, 2, 2), (7,), (8, 8)])
def test_all_nics_slow_are_one_finding_on_the_node(leaves: tuple[int, ...], turns: int, before: int) -> None:
    found = nics(*leaves)
    trials = rounds(found, before, {}) + rounds(found, turns, all_at(found, 0.8), before)
    (finding,) = judged(trials).values()
    assert finding.subject == NODE
    assert (
        "no one of them is it: their leaf, its MTU, the PCIe paths and the host are not told apart" in finding.message
    )
    assert finding.evidence["ratio"] == 0.8
    assert finding.severity == "critical"


@pytest.mark.parametrize("stop", range(1, 5))
def test_while_the_second_slow_round_is_measured_no_nic_is_blamed(stop: int) -> None:
    """Also where work cuts it short: what is known is that all were slow once, and a few twice."""
    found = nics(8)
    trials = rounds(found, 7, {}) + rounds(found, 2, all_at(found, 0.8), 7, stop)
    assert set(judged(trials)) == (set() if stop < 3 else {NODE})


@pytest.mark.parametrize("stop", range(1, 5))
def test_while_the_first_good_round_is_measured_no_nic_is_blamed(stop: int) -> None:
    found = nics(8)
    trials = rounds(found, 4, all_at(found, 0.8)) + rounds(found, 1, {}, 4, stop)
    assert set(judged(trials)) == ({NODE} if stop < 2 else set())


def test_a_leaf_whose_nics_are_all_slow_is_told_from_one_that_is_fast() -> None:
    found = nics(4, 4)
    (finding,) = judged(rounds(found, 4, all_at(found[:4], 0.5))).values()
    assert finding.subject == NODE
    assert finding.evidence["nics"] == tuple(f"mlx5_{n}/1" for n in range(4))
    assert finding.evidence["fast_nics"] == tuple(f"mlx5_{n}/1" for n in range(4, 8))
    assert "while mlx5_4/1, mlx5_5/1, mlx5_6/1, mlx5_7/1 are not" in finding.message


def test_a_leaf_of_two_says_that_it_may_be_the_other_also_where_both_ways_are_slow() -> None:
    found = nics(2, 2, 2, 2)
    (finding,) = judged(rounds(found, 3, {"mlx5_2": (0.5, 0.5)})).values()
    assert finding.subject in ("mlx5_2/1", "mlx5_3/1")
    assert "it may be that one" in finding.message
    two = judged(rounds(found, 3, {"mlx5_2": (0.5, 0.5), "mlx5_4": (0.5, 0.5)}))
    assert len(two) == 2
    assert NODE not in two, "half of the pairs are not most"
    assert set(judged(rounds(found, 3, {f"mlx5_{n}": (0.5, 0.5) for n in (0, 2, 4)}))) == {NODE}


@pytest.mark.parametrize("size", [3, 4, 5, 8])
@pytest.mark.parametrize("ends", [(0.5, 0.5), (0.5, 1.0), (1.0, 0.5)])
def test_one_slow_nic_is_that_nic_from_its_second_partner_on(size: int, ends: tuple[float, float]) -> None:
    found = nics(size)
    for turns in range(3, 12):
        seen = judged(rounds(found, 7, {}) + rounds(found, turns, {"mlx5_1": ends}, 7))
        assert set(seen) == {"mlx5_1"}, turns


def test_of_a_leaf_of_three_the_one_that_was_measured_twice_is_named_though_nothing_else_was() -> None:
    found = nics(3)
    seen = [set(judged(rounds(found, 7, {}) + rounds(found, 2, {nic.device: (0.5, 0.5)}, 7))) for nic in found]
    assert sorted(map(len, seen)) == [0, 0, 1]
    assert all(names <= {nic.device} for names, nic in zip(seen, found, strict=True))


def test_in_the_first_rounds_after_several_became_slow_no_healthy_one_is_named() -> None:
    """A partner that is slow with others too does not speak against a NIC."""
    draw = random.Random(3)  # noqa: S311 - a repeatable draw
    for _ in range(500):
        found, before = nics(draw.choice([6, 8, 12, 16])), draw.randint(0, 7)
        slow = {nic.device: draw.choice([(0.5, 0.5), (0.5, 1.0)]) for nic in draw.sample(found, len(found) // 2)}
        seen = judged(rounds(found, before, {}) + rounds(found, draw.randint(2, 4), slow, before))
        assert set(seen) <= {NODE, *slow}, slow


def test_two_leaves_that_are_slow_by_different_factors_are_one_finding() -> None:
    found = nics(4, 4)
    assert set(judged(rounds(found, 4, all_at(found[:4], 0.8) | all_at(found[4:], 0.3)))) == {NODE}


def test_half_of_the_nics_are_named_once_they_have_been_told_apart() -> None:
    found = nics(8)
    slow = {f"mlx5_{n}": (0.4 + n / 10, 0.4 + n / 10) for n in range(4)}
    for turns in range(7, 20):
        assert set(judged(rounds(found, turns, slow))) == set(slow), turns


def test_who_stands_out_from_a_common_slowdown_is_named_beside_the_node() -> None:
    found = nics(8)
    slow = all_at(found, 0.8) | {"mlx5_6": (0.3, 0.3)}
    seen = judged(rounds(found, 7, {}) + rounds(found, 4, slow, 7))
    assert set(seen) == {NODE, "mlx5_6"}
    assert seen[NODE].evidence["ratio"] == 0.8
    assert seen["mlx5_6"].evidence["ratio"] == 0.3


def test_a_nic_that_was_slow_before_all_were_is_the_nodes_until_they_recover() -> None:
    found = nics(8)
    alone, every = {"mlx5_6": (0.7, 0.7)}, all_at(found, 0.75)
    before = rounds(found, 9, alone)
    assert set(judged(before)) == {"mlx5_6"}
    during = before + rounds(found, 3, every, 9)
    assert set(judged(during)) == {NODE}
    assert set(judged(during + rounds(found, 1, alone, 12))) == {"mlx5_6"}


def test_a_nic_that_is_gone_does_not_count_among_those_that_are_there() -> None:
    found = nics(8)
    few = found[:3]
    trials = rounds(found, 2, {}) + rounds(few, 3, all_at(few, 0.5), 60)
    assert trials[-1].time - trials[7].time > GAP + 7 * DAY
    assert set(judged(trials)) == {NODE}


def noisy(trials: Sequence[Trial], draw: random.Random) -> list[Trial]:
    """The same with 2 % of noise."""
    flows = [tuple(replace(flow, rate=flow.rate * draw.gauss(1, 0.02)) for flow in trial.flows) for trial in trials]
    return [replace(trial, flows=mine) for trial, mine in zip(trials, flows, strict=True)]


def test_noise_changes_no_name() -> None:
    draw, found = random.Random(7), nics(8)  # noqa: S311 - a repeatable draw
    before = rounds(found, 7, {})
    for _ in range(30):
        assert judged(noisy(before, draw)) == {}
        assert set(judged(noisy(before + rounds(found, 4, all_at(found, 0.8), 7), draw))) == {NODE}
        assert set(judged(noisy(before + rounds(found, 4, {"mlx5_2": (0.8, 0.8)}, 7), draw))) == {"mlx5_2"}
        # at the threshold it is seen or not, and nobody is blamed for what all have
        assert set(judged(noisy(before + rounds(found, 4, all_at(found, 0.89), 7), draw))) <= {NODE}


def test_of_a_leaf_of_three_two_pairs_alone_may_be_the_leaf_and_it_is_said() -> None:
    found = nics(3)
    (finding,) = judged(rounds(found, 2, all_at(found, 0.5))).values()
    assert "which were not measured without it: it may be what they share" in finding.message
    assert set(judged(rounds(found, 3, all_at(found, 0.5)))) == {NODE}


def test_a_good_round_ends_it() -> None:
    found = nics(8)
    trials = rounds(found, 4, all_at(found, 0.8))
    assert set(judged(trials)) == {NODE}
    assert judged(trials + rounds(found, 1, {}, 4)) == {}


def test_a_finding_on_the_nics_explains_what_is_slow() -> None:
    found = nics(8)
    others = tuple(nic.subject for nic in found)
    assert judged([replace(trial, others=others) for trial in rounds(found, 4, all_at(found, 0.8))]) == {}


capable = st.floats(0.02, 0.85)


@st.composite
def slow_nics(draw: st.DrawFn) -> tuple[list[Nic], dict[str, tuple[float, float]]]:
    """One to four leaves, any of their NICs slow, one way or both."""
    found = nics(*draw(st.lists(st.integers(2, 8), min_size=1, max_size=4)))
    slow = {}
    for nic in draw(st.lists(st.sampled_from(found), unique=True)):
        factor = draw(capable)
        slow[nic.device] = draw(st.sampled_from([(factor, factor), (factor, 1.0), (1.0, factor)]))
    return found, slow


@quick
@given(slow_nics(), st.integers(0, 8), st.integers(1, 12), st.integers(1, 16))
def test_never_more_findings_than_causes_and_none_on_a_nic_that_is_fast_with_another(
    node: tuple[list[Nic], dict[str, tuple[float, float]]], before: int, turns: int, stop: int
) -> None:
    found, slow = node
    since = rounds(found, turns, slow, before, stop)
    seen = judged(rounds(found, before, {}) + since) if before or since else {}
    assert len(seen) <= len(slow)
    fast = {
        (nic, place) for trial in since for flow in trial.flows if not flow.slow
        for place, nic in enumerate((flow.source, flow.target))
    }  # fmt: skip
    for finding in seen.values():
        if finding.subject != NODE:
            blamed = [("transmit", "receive").index(way) for way in str(finding.evidence["direction"]).split("+")]
            assert not {(finding.subject, place) for place in blamed} & fast, "fast with somebody since"


@quick
@given(
    st.lists(st.integers(2, 8), min_size=1, max_size=4), st.integers(3, 12), st.integers(0, 8), st.floats(0.02, 0.89)
)
def test_uniform_is_exactly_one(leaves: list[int], turns: int, before: int, factor: float) -> None:
    found = nics(*leaves)
    seen = judged(rounds(found, before, {}) + rounds(found, turns, all_at(found, factor), before))
    assert len(seen) == 1
    assert set(seen) == {NODE} or leaves == [2]
