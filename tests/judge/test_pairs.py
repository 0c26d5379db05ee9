"""Which of the GPUs is slow, or whether all are: one finding a cause."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.probing import found, intra, pairs, scene
from tests.props import quick

NODE = ("node", "probe_intra_slow")


def of(*subjects: str) -> set[tuple[str, str]]:
    return {(subject, "probe_pair_slow") for subject in subjects}


def twice(ways: dict[str, float], ratio: float | None = None) -> set[tuple[str, str]]:
    trial = intra(min(ways.values()) if ratio is None else ratio, ways)
    return set(found(scene(trial, trial)))


def by_ends(transmit: dict[str, float], receive: dict[str, float]) -> dict[str, float]:
    """A way is as fast as the slower of its ends."""
    gpus = list(transmit)
    return {f"{a}>{b}": min(transmit[a], receive[b]) for a in gpus for b in gpus if a != b}


@pytest.mark.parametrize("factor", [0.8, 0.08, 0.89])
@pytest.mark.parametrize("number", [3, 4, 8, 16])
def test_all_pairs_slow_are_one_finding_on_the_node(number: int, factor: float) -> None:
    assert twice(dict.fromkeys(pairs(number), factor)) == {NODE}


def test_it_says_how_many_and_that_none_is_it() -> None:
    slow = intra(0.79, dict.fromkeys(pairs(8), 0.8))
    finding = found(scene(slow, slow))[NODE]
    assert "56 of the 56 ways between two GPUs are slow, half of all below 80% of the usual" in finding.message
    assert "no one GPU or pair is it" in finding.message
    assert (finding.evidence["slow_ways"], finding.evidence["ways_ratio"]) == (56, 0.8)


def test_a_common_slowdown_whose_noise_crosses_the_threshold_is_the_nodes() -> None:
    draw = random.Random(7)  # noqa: S311 - a repeatable draw
    for _ in range(50):
        ways = {way: draw.gauss(0.89, 0.02) for way in pairs(8)}
        again = {way: draw.gauss(0.89, 0.02) for way in pairs(8)}
        assert set(found(scene(intra(0.85, ways), intra(0.85, again)))) == {NODE}


@pytest.mark.parametrize("number", [3, 4, 8])
def test_one_gpu_with_all_others_stays_that_gpu(number: int) -> None:
    assert twice(pairs(number, g0=0.5)) == of("gpu0")
    for way in ("gpu1>", ">gpu1"):
        one_way = {ways: 0.5 if ways.startswith(way) or ways.endswith(way) else 1.0 for ways in pairs(number)}
        assert twice(one_way) == of("gpu1"), way


def test_two_gpus_stay_two_and_half_of_them_half() -> None:
    assert twice(pairs(8, g2=0.5, g5=0.7)) == of("gpu2", "gpu5")
    assert twice(pairs(4, g0=0.5, g1=0.5)) == of("gpu0", "gpu1")
    assert twice(pairs(8, g0=0.5, g1=0.5, g2=0.5, g3=0.5)) == of("gpu0", "gpu1", "gpu2", "gpu3")
    assert twice(pairs(8, g0=0.5, g1=0.5, g2=0.5, g3=0.5, g4=0.5)) == {NODE}, (
        "five of eight are what all have in common"
    )


def test_what_most_gpus_have_in_common_is_not_named_again_by_pairs() -> None:
    transmit = {"gpu0": 0.25, "gpu1": 0.25, "gpu2": 0.5, "gpu3": 0.5, "gpu4": 1.0, "gpu5": 1.0}
    assert twice(by_ends(transmit, dict.fromkeys(transmit, 1.0))) == {NODE, *of("gpu0", "gpu1")}


def test_of_two_gpus_the_pair_is_named() -> None:
    assert twice(pairs(2, g0g1=0.5)) == of("gpu0/gpu1")
    assert twice(pairs(2, g0g1=0.5, g1g0=0.5)) == of("gpu0/gpu1")


def test_what_stands_out_from_a_common_slowdown_is_named_beside_the_node() -> None:
    common = dict.fromkeys(pairs(8), 0.8)
    assert twice({**common, "gpu2>gpu5": 0.1, "gpu5>gpu2": 0.1}) == {NODE, *of("gpu2/gpu5")}
    assert twice({way: 0.3 if "gpu4" in way else 0.8 for way in common}) == {NODE, *of("gpu4")}
    seen = intra(0.1, {**common, "gpu2>gpu5": 0.1})
    assert "beside gpu2/gpu5, no one GPU or pair is it" in found(scene(seen, seen))[NODE].message
    assert twice({**common, "gpu2>gpu5": 0.74}) == {NODE}, "74 % where all give 80 is 8 % less than they"


def test_one_gpu_with_most_others_is_that_gpu_and_with_few_the_pairs() -> None:
    assert twice(pairs(8, g0g1=0.5, g0g2=0.5, g0g3=0.5, g0g4=0.5)) == of("gpu0")
    assert twice(pairs(8, g0g1=0.5, g0g2=0.5, g0g3=0.5)) == of("gpu0/gpu1", "gpu0/gpu2", "gpu0/gpu3")


def test_the_way_between_two_halves_is_no_gpus() -> None:
    """Every GPU is fast with its own half: GPUs of two sockets whose link is slow."""
    for half in (4, 5):
        ways = {way: 0.4 if (int(way[3]) < half) != (int(way[8]) < half) else 1.0 for way in pairs(8)}
        assert twice(ways) == {NODE}, half


def test_many_pairs_that_no_gpu_explains_are_the_nodes() -> None:
    assert len(twice(pairs(8, g0g1=0.5, g2g3=0.5, g4g5=0.5))) == 3
    assert twice(pairs(8, g0g1=0.5, g2g3=0.5, g4g5=0.5, g6g7=0.5)) == {NODE}


def test_a_gpu_with_most_others_is_not_it_where_as_many_pairs_are_slow_without_it() -> None:
    assert twice(pairs(8, g0g1=0.5, g0g2=0.5, g0g3=0.5, g0g4=0.5, g5g6=0.5, g5g7=0.5, g6g7=0.5)) == of(
        "gpu0", "gpu5/gpu6", "gpu5/gpu7", "gpu6/gpu7"
    )
    many = pairs(8, g0g1=0.5, g0g2=0.5, g0g3=0.5, g0g4=0.5, g5g6=0.5, g5g7=0.5, g6g7=0.5, g1g5=0.5)
    assert twice(many) == {NODE}


def test_a_way_whose_usual_value_is_not_known_each_time_says_nothing() -> None:
    few = {way: share for way, share in pairs(8, g0g3=0.5).items() if way in ("gpu0>gpu3", "gpu1>gpu2", "gpu2>gpu1")}
    assert set(found(scene(intra(0.5, few), intra(0.5, few)))) == of("gpu0/gpu3")
    assert set(found(scene(intra(0.5, pairs(8)), intra(0.5, {"gpu0>gpu3": 0.5})))) == {NODE}


factors = st.floats(0.02, 0.85)


@st.composite
def slow_ends(draw: st.DrawFn) -> tuple[dict[str, float], dict[str, float]]:
    """Some GPUs slow, one way or both."""
    gpus = [f"gpu{n}" for n in range(draw(st.integers(3, 9)))]
    transmit, receive = dict.fromkeys(gpus, 1.0), dict.fromkeys(gpus, 1.0)
    for gpu in draw(st.sets(st.sampled_from(gpus))):
        factor, ways = draw(factors), draw(st.sampled_from([(transmit,), (receive,), (transmit, receive)]))
        for end in ways:
            end[gpu] = factor
    return transmit, receive


@quick
@given(slow_ends(), st.sets(st.integers(0, 71), max_size=2), factors)
def test_never_more_findings_than_causes_and_none_on_a_gpu_that_is_fast_with_another(
    capable: tuple[dict[str, float], dict[str, float]], bad_pairs: set[int], factor: float
) -> None:
    transmit, receive = capable
    ways = by_ends(transmit, receive)
    both = [f"{a}>{b}" for a, b in combinations(transmit, 2)]
    broken = {both[number % len(both)] for number in bad_pairs}
    ways |= {way: min(ways[way], factor) for way in broken}
    slow = {gpu for gpu in transmit if min(transmit[gpu], receive[gpu]) < 1}
    seen = twice(ways, 0.5)
    assert len(seen) <= max(1, len(slow) + len(broken))
    assert seen if slow or broken else seen == {NODE}
    for subject, _ in seen - {NODE}:
        ends = subject.split("/")
        if len(ends) == 1:
            sends = [ratio for way, ratio in ways.items() if way.startswith(f"{subject}>")]
            receives = [ratio for way, ratio in ways.items() if way.endswith(f">{subject}")]
            assert max(sends) < 0.9 or max(receives) < 0.9, subject
        else:
            assert min(ways[">".join(ends)], ways[">".join(reversed(ends))]) < 0.9


@quick
@given(st.integers(3, 16), st.floats(0.02, 0.89))
def test_uniform_is_exactly_one_on_the_node(number: int, factor: float) -> None:
    assert twice(dict.fromkeys([f"gpu{a}>gpu{b}" for a in range(number) for b in range(number) if a != b], factor)) == {
        NODE
    }
