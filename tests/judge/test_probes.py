"""Each reason of the probes at its threshold, its near miss, and how it clears."""

from dataclasses import replace

import pytest

from exporter.judge.probes import ProbeScene, judge_probes
from exporter.judge.trials import Trial, kept
from tests.judge.probing import DAY, EDGE, GAP, GOOD, SLOW, found, intra, loop, pairs, scene


def failed(reason: str = "init_timeout", nics: tuple[int, ...] = (), left: int = 0) -> Trial:
    return Trial(
        0,
        "loopback" if nics else "intra",
        "nccl",
        "timeout",
        reason,
        "init",
        tuple(f"mlx5_{n}/1" for n in nics),
        (),
        left,
    )


INTRA = {("node", "probe_intra_slow")}


@pytest.mark.parametrize(
    ("ratios", "reasons"),
    [
        ([SLOW, SLOW], INTRA),
        ([GOOD, SLOW, SLOW, SLOW], INTRA),
        ([SLOW], set()),
        ([SLOW, GOOD, SLOW], set()),
        ([SLOW, EDGE], set()),
        ([EDGE, EDGE], set()),
        ([SLOW, SLOW, GOOD], set()),
    ],
)
def test_all_gpus(ratios: list[float], reasons: set[tuple[str, str]]) -> None:
    assert set(found(scene(*map(intra, ratios)))) == reasons


def test_what_is_found_says_how_slow() -> None:
    (finding,) = found(scene(intra(0.5), intra(0.5))).values()
    assert finding.severity == "critical"
    assert "1920 Gbit/s, 50% of the usual 3840 Gbit/s, in 2 probes in a row" in finding.message
    assert finding.evidence["ratio"] == 0.5


def test_a_link_whose_usual_value_is_not_known_is_not_judged() -> None:
    unknown = Trial(0, "intra", "nccl", "ok")
    assert not found(scene(unknown, unknown, intra(SLOW), unknown))
    assert found(scene(intra(SLOW), unknown, intra(SLOW)))


def test_failed_ones_between_say_nothing() -> None:
    assert set(found(scene(intra(SLOW), failed(), failed(), intra(SLOW)))) == INTRA
    assert set(found(scene(intra(SLOW), intra(SLOW), failed(), failed(), failed()))) == {
        *INTRA,
        ("node", "probe_failing"),
    }


def test_a_slow_one_while_a_gpu_has_a_finding_does_not_count_and_a_good_one_does() -> None:
    assert not found(scene(intra(SLOW, others=["gpu3"]), intra(SLOW)))
    assert found(scene(intra(SLOW, others=["mlx5_0/1"]), intra(SLOW))), "a NIC does not slow NVLink down"
    assert not found(scene(intra(SLOW), intra(SLOW), intra(GOOD, others=["gpu3/link01"])))


def test_one_pair_is_named_instead_of_the_node() -> None:
    slow = intra(0.6, pairs(8, g0g3=0.5))
    (key,) = (seen := found(scene(slow, slow)))
    assert key == ("gpu0/gpu3", "probe_pair_slow")
    assert seen[key].evidence["direction"] == ("gpu0>gpu3",)
    both = intra(0.6, pairs(8, g0g3=0.5, g3g0=0.7))
    assert found(scene(both, both))[key].evidence["direction"] == ("gpu0>gpu3", "gpu3>gpu0")


def test_a_pair_that_is_slow_once_is_not_named() -> None:
    first, second = intra(0.6, pairs(8, g0g3=0.5)), intra(0.6, pairs(8, g1g2=0.5))
    assert set(found(scene(first, second))) == INTRA
    assert set(found(scene(intra(0.6, pairs(8)), first))) == INTRA


def test_a_pair_clears_with_an_all_reduce_as_usual_which_measures_no_pairs() -> None:
    slow = intra(0.6, pairs(8, g0g3=0.5))
    assert not found(scene(slow, slow, intra(GOOD)))


def test_a_gpu_that_is_slow_with_most_others_is_one_finding() -> None:
    slow = intra(0.6, pairs(8, g3=0.5, g0g1=0.8))
    seen = found(scene(slow, slow))
    assert set(seen) == {("gpu3", "probe_pair_slow"), ("gpu0/gpu1", "probe_pair_slow")}
    assert "with 7 of 7 GPUs" in seen["gpu3", "probe_pair_slow"].message


NIC5 = ("mlx5_5/1", "probe_loopback_slow")


@pytest.mark.parametrize(
    ("trials", "direction"),
    [
        ([loop("5", "1", SLOW), loop("5", "2", SLOW)], "transmit"),
        ([loop("1", "5", SLOW), loop("5", "2", 1.0, SLOW)], "receive"),
        ([loop("5", "1", 0.5, 0.6), loop("2", "5", 0.5, 0.5)], "receive+transmit"),
        ([loop("5", "1", SLOW), loop("1", "2"), loop("5", "2", SLOW)], "transmit"),
        ([loop("5", "1", SLOW)], None),
        ([loop("5", "1", EDGE), loop("5", "2", EDGE)], None),
        ([loop("5", "1", SLOW), loop("5", "2", 1.0, SLOW)], None),
        ([loop("5", "1", SLOW), loop("5", "2", SLOW), loop("5", "3")], None),
        ([loop("5", "1", SLOW), loop("5", "3"), loop("5", "2", SLOW)], None),
        ([loop("5", "1", SLOW, others=["mlx5_5/pcie"]), loop("5", "2", SLOW)], None),
        ([loop("5", "1", SLOW, others=["mlx5_7/1", "gpu1"]), loop("5", "2", SLOW)], "transmit"),
    ],
)
def test_a_nic(trials: list[Trial], direction: str | None) -> None:
    seen = found(scene(*trials))
    assert set(seen) == ({NIC5} if direction else set())
    if direction:
        assert seen[NIC5].evidence["direction"] == direction


def test_the_partners_of_a_slow_nic_are_not_blamed() -> None:
    seen = found(scene(loop("5", "1", SLOW), loop("5", "2", SLOW), loop("5", "1", SLOW)))
    assert set(seen) == {NIC5}
    assert seen[NIC5].evidence["partners"] == ("mlx5_1/1", "mlx5_2/1")


def test_with_one_partner_alone_it_is_said_that_it_may_be_that_one() -> None:
    (finding,) = found(scene(loop("5", "1", SLOW), loop("5", "1", SLOW))).values()
    assert (finding.subject, finding.severity) == ("mlx5_5/1", "critical")
    assert "it may be that one" in finding.message


FAILS = ("node", "probe_failing")


@pytest.mark.parametrize(
    ("trials", "subjects"),
    [
        ([failed()] * 3, {FAILS}),
        ([failed()] * 2, set()),
        ([failed(), failed(), intra(GOOD), failed()], set()),
        ([*[failed()] * 3, intra(GOOD)], set()),
        ([failed(left=4711)], {FAILS}),
        ([failed(nics=(5, 1)), failed(nics=(5, 2)), failed(nics=(5, 3))], {("mlx5_5/1", "probe_failing")}),
        ([failed(nics=(5, 1)), failed(nics=(5, 2)), loop("5", "3")], set()),
        ([failed(nics=(0, 1)), failed(nics=(0, 1)), failed(nics=(0, 1)), loop("2", "3")], {
            ("mlx5_0/1", "probe_failing"), ("mlx5_1/1", "probe_failing")
        }),
        ([failed(nics=(0, 1))] * 3, {FAILS}),
        ([failed(), failed(nics=(0, 1))] * 3, {FAILS}),
    ],
)  # fmt: skip
def test_failures(trials: list[Trial], subjects: set[tuple[str, str]]) -> None:
    seen = found(scene(*trials))
    assert set(seen) == subjects
    assert {one.severity.value for one in seen.values()} <= {"degraded"}


@pytest.mark.parametrize("trial", [intra(SLOW), loop("5", "1", SLOW), failed()])
def test_without_newer_ones_a_verdict_stands_until_the_links_are_unverified(trial: Trial) -> None:
    trials = [trial] * 3
    assert found(scene(*trials, after=GAP + 7 * DAY))
    assert not found(scene(*trials, after=GAP + 7 * DAY + 1))


def test_unverified_is_information_and_says_what_was_against_it() -> None:
    seen = scene(after=30 * DAY, due=23 * DAY)
    (finding,) = judge_probes(seen)
    assert (finding.subject, finding.reason, finding.severity) == ("node", "probe_unverified", "info")
    assert "7 days (slurm_allocation)" in finding.message
    assert not list(judge_probes(replace(seen, due=23 * DAY + 1)))
    assert not list(judge_probes(replace(seen, due=None)))


def test_what_is_kept_is_enough_and_not_more() -> None:
    many = [replace(loop(str(n % 3), str(3 + n % 5), SLOW), time=float(n)) for n in range(1000)]
    few = kept(many)
    assert len(few) == 3 * 15
    assert list(few) == sorted(few, key=lambda one: one.time)
    assert kept(few) == few


def test_a_clock_that_was_set_back_does_not_keep_a_finding() -> None:
    back = [replace(intra(ratio), time=when) for ratio, when in ((SLOW, 1000.0), (SLOW, 2000.0), (GOOD, 500.0))]
    assert not list(judge_probes(ProbeScene(600.0, kept(back), GAP)))
