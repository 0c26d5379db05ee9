"""What is measured when, what stops it, and what is made of the results."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.clock import Clock as ClockOfNode
from exporter.exposition import number
from exporter.model import Finding, SourceError
from exporter.probes.figures import costs, samples
from exporter.probes.journal import Lock, Record
from exporter.probes.launch import Stop
from exporter.probes.pause import pause
from exporter.probes.prober import Round
from exporter.probes.protocol import Algorithm, Flow, Outcome, Spec, read_spec
from exporter.probes.scheduled import ScheduledProbes
from exporter.quantities import window
from exporter.state import State
from tests.e2e.daemon import eventually
from tests.probes.fakes import PortsOf, gpus
from tests.probes.lab import LOCK, Lab, good


@pytest.fixture
def stop() -> Iterator[Stop]:
    made = Stop()
    yield made
    made.close()


def reasons(done: Round) -> list[str]:
    return [refusal.reason for refusal in done.refusals]


def test_a_round_is_all_gpus_and_then_each_pair_of_nics(stop: Stop) -> None:
    lab = Lab(ports=PortsOf(("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"), step=10**7))
    done = lab.prober().round(stop)
    assert reasons(done) == []
    assert [(spec.engine, spec.scope) for spec in lab.launched] == [("nccl", "intra")] + [("nccl", "loopback")] * 2
    assert lab.launched[0].gpus == ("GPU-0", "GPU-1")
    assert {nic.device for spec in lab.launched[1:] for nic in spec.nics} == {f"mlx5_{index}" for index in range(4)}
    assert lab.load.closed == 1


def test_the_first_engine_that_can_run_is_used(stop: Stop) -> None:
    lab = Lab(gives=lambda spec, _: Outcome(spec, "refused", "no_cuda") if spec.engine == "nccl" else good(spec))
    prober = lab.prober()
    done = prober.round(stop, ("loopback",))
    assert [(record["engine"], record["result"]) for record in done.records] == [("nccl", "refused"), ("rdma", "ok")]
    assert prober.tally.runs == {("loopback", "nccl", "refused"): 1, ("loopback", "rdma", "ok"): 1}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lab: setattr(lab.slurm, "said", ("job 7",)), "slurm_allocation"),
        (lambda lab: setattr(lab.slurm, "said", SourceError("eacces", "no")), "slurm_unreadable"),
        (lambda lab: setattr(lab.load, "said", (replace(gpus(1)[0], processes=(77,)),)), "gpu_process"),
        (lambda lab: setattr(lab, "ports", PortsOf(step=10**10)), "nic_busy"),
        (lambda lab: setattr(lab, "settings", replace(lab.settings, quiet=(window("* * * * * for 1h"),))), "quiet"),
        (lambda lab: lab.limit(max_seconds=0), "budget"),
    ],
)
def test_before_a_probe_any_reason_against_skips_and_is_counted(change: object, reason: str, stop: Stop) -> None:
    lab = Lab()
    change(lab)  # type: ignore[operator]  # one of the above
    prober = lab.prober()
    assert reason in reasons(prober.round(stop))
    assert lab.launched == []
    assert prober.tally.skipped[reason] >= 1


def test_once_per_min_gap_and_a_restart_knows(stop: Stop, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.prober().round(stop).records
    lab.clock.now += 5 * 3600
    assert reasons(lab.prober().round(stop)) == ["min_gap"]
    assert lab.prober().round(stop, by_hand=True).records, "a hand may all the same"
    lab.clock.now += 6 * 3600 + 1
    assert lab.prober().round(stop).records


def test_paused_by_an_operator(stop: Stop, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    pause(tmp_path, 4 * 3600, lab.clock.now)
    assert reasons(lab.prober().round(stop)) == ["paused"]
    assert reasons(lab.prober().round(stop, by_hand=True)) == ["paused"]
    lab.clock.now += 4 * 3600 + 1
    assert lab.prober().round(stop).records


def test_one_at_a_time_on_a_node(stop: Stop) -> None:
    lab, other = Lab(), Lock(LOCK)
    assert other.take()
    assert reasons(lab.prober().round(stop, by_hand=True)) == ["locked"]
    other.give()
    assert lab.prober().round(stop).records


def test_the_budget_ends_a_round(stop: Stop) -> None:
    lab = Lab(ports=PortsOf(("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"), step=10**7))
    lab.limit(max_seconds=3.0)
    done = lab.prober().round(stop)
    assert len(done.records) == 2
    assert reasons(done) == ["budget"]


def test_what_the_budget_cut_off_comes_first_the_next_time(stop: Stop) -> None:
    lab = Lab(ports=PortsOf(("mlx5_0", "mlx5_1"), step=10**7))
    lab.limit(max_seconds=1.0)
    prober = lab.prober()
    for _ in range(4):
        prober.round(stop)
        lab.clock.now += 7 * 3600
    assert [spec.scope for spec in lab.launched] == ["intra", "loopback", "intra", "loopback"]


def test_work_that_appears_during_a_probe_aborts_it_and_its_result_is_dropped(stop: Stop) -> None:
    lab = Lab()

    def busy(spec: Spec, told: Stop) -> Outcome:
        lab.load.said = (replace(gpus(1)[0], processes=(4711,)),)
        began = time.monotonic()
        eventually(lambda: told.reason, 2)
        assert time.monotonic() - began < 1.5
        return replace(good(spec), result="aborted", reason=told.reason)

    lab.gives = busy
    prober = lab.prober()
    done = prober.round(stop)
    (record,) = done.records
    assert (record["result"], record["reason"], record["preempted"]) == ("aborted", "gpu_process", True)
    assert record["flows"] == []
    assert prober.tally.preempted == 1
    assert prober.tally.runs == {}


def test_work_found_after_a_probe_drops_its_result(stop: Stop) -> None:
    lab = Lab()

    def late(spec: Spec, _: Stop) -> Outcome:
        lab.slurm.said = ("job 7",)
        return good(spec)

    lab.gives = late
    prober = lab.prober()
    (record,) = prober.round(stop).records
    assert (record["reason"], record["flows"], prober.tally.preempted) == ("slurm_allocation", [], 1)
    assert not [sample for sample in samples([record]) if sample.metric.name.endswith("bandwidth_bytes_per_second")]


def test_a_process_that_nothing_ends_holds_further_probes_off(stop: Stop) -> None:
    lab = Lab(gives=lambda spec, _: Outcome(spec, "timeout", "run_timeout", left=4711))
    lab.limit(min_gap=0.0)
    prober = lab.prober()
    assert len(prober.round(stop).records) == 1
    assert reasons(prober.round(stop, by_hand=True)) == ["stuck"]


def test_what_is_usual_is_learnt_but_not_from_the_first_run_nor_from_slow_ones(stop: Stop) -> None:
    lab = Lab(settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)
    rates = [100e9, 300e9, 302e9, 298e9, 300e9, 200e9, 200e9, 300e9]
    lab.gives = lambda spec, _: good(spec, rates[len(lab.launched) - 1])
    prober = lab.prober()
    flows = []
    for _ in rates:
        (record,) = prober.round(stop, ("intra",)).records
        flows.append(record["flows"][0])
        lab.clock.now += 100
    assert [flow["expected"] for flow in flows[:4]] == [None] * 4
    assert flows[4]["expected"] == pytest.approx(300e9)
    assert flows[5]["ratio"] == pytest.approx(2 / 3, rel=0.01)
    assert flows[7]["expected"] == pytest.approx(300e9), "the slow ones have not lowered it"
    assert lab.launched[-1].slow_below == pytest.approx(270e9), "a slow one is followed by the pairs"


def test_nothing_is_learnt_while_a_finding_is_open(stop: Stop) -> None:
    lab = Lab(others=("mlx5_7/1",))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)
    prober = lab.prober()
    for _ in range(6):
        (record,) = prober.round(stop, ("intra",)).records
    assert record["flows"][0]["expected"] is None


def test_evidence_is_what_moved_meanwhile(stop: Stop) -> None:
    record = Lab().prober().round(stop, ("loopback",)).records[0]
    found = record["evidence"]
    assert found["counters"]["mlx5_0/1"]["transmit_bytes"] > 10**6
    assert "symbol_errors" not in found["counters"]["mlx5_0/1"]
    assert found["counters"]["gpu0/link03"] == {"receive_bytes": 10**6, "transmit_bytes": 10**6, "crc_flit": 1}
    assert found["throttled_seconds"] == {"gpu0 power": 1.5}
    assert found["cpu"] == {"steal": 0.1, "softirq": 0.02}
    assert (found["driver"], found["gpudirect_module"]) == ("580.1", "none")


def test_a_loopback_that_never_left_the_machine_is_an_error(stop: Stop) -> None:
    lab = Lab(ports=PortsOf(step=1000))
    (record,) = lab.prober().round(stop, ("loopback",)).records
    assert (record["result"], record["reason"], record["flows"]) == ("error", "not_on_the_wire", [])
    assert "mlx5_0/1" in record["message"]


def test_metrics(stop: Stop) -> None:
    lab = Lab()
    prober = lab.prober()
    records = prober.round(stop).records
    shown = {}
    for sample in (*samples(records), *costs(prober.tally)):
        labels = ",".join(
            f"{name}={value}" for name, value in zip(sample.metric.label_names, sample.labels, strict=True)
        )
        shown[f"{sample.metric.name.removeprefix('eastwest_')}{{{labels}}}"] = sample.value
    assert shown["probe_transmit_bandwidth_bytes_per_second{scope=intra,engine=nccl,rail=}"] == pytest.approx(300e9)
    assert shown["probe_transmit_bandwidth_bytes_per_second{scope=loopback,engine=nccl,rail=0}"] == pytest.approx(48e9)
    assert shown["probe_receive_bandwidth_bytes_per_second{scope=loopback,engine=nccl,rail=0}"] == pytest.approx(24e9)
    assert shown["probe_receive_bandwidth_bytes_per_second{scope=loopback,engine=nccl,rail=1}"] == pytest.approx(48e9)
    assert shown["rail_best_recent_bandwidth_bytes_per_second{rail=1,scope=loopback}"] == pytest.approx(48e9)
    assert shown["probe_latency_seconds{scope=loopback,engine=nccl,rail=0}"] == 2e-6
    assert shown["probe_timestamp_seconds{scope=intra,engine=nccl,rail=}"] == records[0]["time"]
    assert shown["probe_init_seconds{scope=intra,engine=nccl,rail=}"] == 1.5
    assert shown["probe_runs_total{scope=intra,engine=nccl,result=ok}"] == 1
    assert shown["probe_seconds_total{}"] == 4
    assert shown["probe_bytes_total{}"] == 10**9 + 2 * 10**6
    assert all(number(value) for value in shown.values())  # type: ignore[arg-type]  # no histogram among them


def test_results_are_shown_for_a_day(stop: Stop, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.prober().round(stop)
    after = lab.prober()
    assert len(after.journal.records(lab.clock.now)) == 2
    assert after.journal.records(lab.clock.now + 86_401) == []


@pytest.mark.parametrize(
    "content", ["", "[]", '{"version": 9}', '{"version": 1, "last": "x", "records": [], "learnt": {}}']
)
def test_a_journal_that_is_none_is_left_alone(tmp_path: Path, content: str, stop: Stop) -> None:
    (tmp_path / "probes.json").write_text(content)
    assert Lab(tmp_path).prober().round(stop).records


def scheduled(lab: Lab, draw: float = 0.5) -> ScheduledProbes:
    return ScheduledProbes(lab.prober(), lambda: draw)


def turned(probes: ScheduledProbes) -> tuple[Finding, ...]:
    """One turn of the check, and the end of the round that it began."""
    found = probes.run(0.0).findings
    eventually(lambda: probes._thread is None)  # noqa: SLF001 - the round has ended
    return found


def rounds(lab: Lab, probes: ScheduledProbes, seconds: float) -> int:
    """Turn the schedule for so long; how many probes were launched meanwhile."""
    before = len(lab.launched)
    end = lab.clock.now + seconds
    while lab.clock.now < end:
        turned(probes)
        lab.clock.now += 300
    return len(lab.launched) - before


def test_a_new_node_begins_at_a_moment_of_its_own_and_then_once_per_gap() -> None:
    lab = Lab(ports=PortsOf(names=()))
    probes = scheduled(lab)
    assert rounds(lab, probes, 2.9 * 3600) == 0
    assert rounds(lab, probes, 0.3 * 3600) == 1
    assert rounds(lab, probes, 24 * 3600) in (3, 4)


def test_an_overdue_one_begins_soon_but_not_all_at_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ports=PortsOf(names=()))
    scheduled(lab)._prober.round(Stop())  # noqa: SLF001 - a round of an earlier life
    lab.clock.now += 30 * 3600
    lab.launched.clear()
    assert rounds(lab, scheduled(lab), 0.2 * 3600) == 0
    assert rounds(lab, scheduled(lab, draw=0.0), 600) == 1


def test_a_busy_node_is_tried_again_and_measured_when_it_is_free() -> None:
    lab = Lab(ports=PortsOf(names=()))
    lab.slurm.said = ("job 7",)
    probes = scheduled(lab, draw=0.0)
    assert rounds(lab, probes, 3600) == 0
    assert probes._prober.tally.skipped["slurm_allocation"] > 5  # noqa: SLF001 - as the metric has it
    lab.slurm.said = ()
    assert rounds(lab, probes, 600) == 1


def test_a_stop_aborts_what_runs_and_begins_nothing_more() -> None:
    def hang(spec: Spec, told: Stop) -> Outcome:
        eventually(lambda: told.reason, 10)
        return Outcome(spec, "aborted", told.reason)

    lab = Lab(gives=hang)
    probes = scheduled(lab, draw=0.0)
    probes.run(0.0)
    eventually(lambda: lab.launched)
    probes.stop()
    assert probes._thread is None  # noqa: SLF001 - it has ended
    assert b'"daemon_stops"' in probes.document()
    lab.clock.now += 1e6
    probes.run(0.0)
    assert len(lab.launched) == 1


def test_while_the_usual_is_learnt_the_pairs_are_measured_too_but_not_beside_a_finding(stop: Stop) -> None:
    lab = Lab(settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)
    prober = lab.prober()
    for others in ((), ("gpu3",), (), (), (), ()):
        lab.others = others
        prober.round(stop, ("intra",))
    below = [spec.slow_below for spec in lab.launched]
    assert below == [float("inf"), 0.0, *[float("inf")] * 3, pytest.approx(270e9)]
    assert read_spec(lab.launched[0].dump()).slow_below == float("inf"), "as the worker is told"


def test_a_slow_run_does_not_teach_what_is_usual_of_links_unknown_so_far(stop: Stop) -> None:
    lab = Lab(settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)

    def without_pairs(spec: Spec, _: Stop) -> Outcome:
        return replace(good(spec), flows=good(spec).flows[:1])

    lab.gives = without_pairs
    prober = lab.prober()
    for _ in range(4):
        prober.round(stop, ("intra",))
    lab.gives = lambda spec, _: good(spec, 200e9)
    for _ in range(5):
        (record,) = prober.round(stop, ("intra",)).records
    assert [flow["expected"] for flow in record["flows"][1:]] == [None, None]


def test_a_preempted_or_refused_probe_says_nothing_of_a_link(stop: Stop) -> None:
    lab = Lab(settings=replace(Lab().settings, engines=("nccl",)))
    prober = lab.prober()
    lab.gives = lambda spec, _: Outcome(spec, "refused", "no_nccl")
    prober.round(stop)
    lab.gives = lambda spec, _: Outcome(spec, "aborted", "deadline")
    prober.round(stop)
    assert prober.journal.trials == ()
    lab.clock.now += 86_400

    def late(spec: Spec, _: Stop) -> Outcome:
        lab.slurm.said = ("job 7",)
        return good(spec)

    lab.gives = late
    assert prober.round(stop).records[0]["preempted"]
    assert prober.journal.trials == ()


def test_a_journal_of_an_earlier_release_has_no_trials_and_is_read(tmp_path: Path) -> None:
    (tmp_path / "probes.json").write_text('{"version": 1, "last": 5.0, "records": [], "learnt": {"a": [9, 2, 3, 4]}}')
    journal = Lab(tmp_path).prober().journal
    assert (journal.expected("a"), journal.recent("a"), journal.trials) == (3, [], ())


def reasons_found(probes: ScheduledProbes) -> set[tuple[str, str]]:
    return {(one.subject, one.reason) for one in probes.run(0.0).findings}


def test_a_slow_link_is_found_in_the_second_probe_outlives_a_day_and_a_restart_and_is_over_when_repaired(
    stop: Stop, tmp_path: Path
) -> None:
    lab = Lab(tmp_path, settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=12 * 3600.0)
    prober = lab.prober()

    def round_at(rate: float) -> set[tuple[str, str]]:
        lab.gives = lambda spec, _: good(spec, rate)
        prober.round(stop, ("intra",))
        seen = reasons_found(scheduled(lab))
        lab.clock.now += 13 * 3600
        return seen

    assert [round_at(300e9) for _ in range(4)] == [set()] * 4
    assert round_at(200e9) == set()
    slow = {("node", "probe_intra_slow")}
    assert round_at(200e9) == slow
    lab.clock.now += 3 * 86_400
    assert prober.journal.records(lab.clock.now) == []
    assert reasons_found(scheduled(lab)) == slow
    lab.others = ("mlx5_1/1",)
    assert round_at(298e9) == set(), "another finding does not keep this one open"


def test_a_probe_that_is_never_possible_is_said_after_a_week_and_a_restart_forgets_nothing(tmp_path: Path) -> None:
    lab = Lab()
    lab.slurm.said = ("job 7",)
    clock = ClockOfNode(wall=lab.clock.read, monotonic=lab.clock.read)
    for day in range(9):
        state = State(tmp_path, create=True, clock=clock)
        probes = ScheduledProbes(lab.prober(), lambda: 0.0, state)
        turned(probes)
        found = turned(probes)
        state.close()
        assert {one.reason for one in found} == ({"probe_unverified"} if day > 7 else set()), day
        lab.clock.now += 86_400
    assert "slurm_allocation" in found[0].message
    lab.slurm.said = ()
    assert probes._prober.round(Stop()).records  # noqa: SLF001 - by its own prober
    assert probes.run(0.0).findings == ()


def test_nothing_is_learnt_from_a_probe_that_failed(stop: Stop) -> None:
    lab = Lab(settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)
    lab.gives = lambda spec, _: replace(good(spec), result="timeout", reason="run_timeout")
    prober = lab.prober()
    for _ in range(6):
        (record,) = prober.round(stop, ("intra",)).records
        assert record["flows"], "what was measured before is shown"
    assert record["flows"][0]["expected"] is None
    assert record["flows"][0]["recent"] == []


def test_the_numbers_of_another_algorithm_or_way_are_learnt_apart(stop: Stop) -> None:
    lab = Lab(settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)

    def last(transport: str, algorithm: Algorithm, rate: float, times: int) -> Record:
        def gives(spec: Spec, _: Stop) -> Outcome:
            outcome = good(spec, rate)
            return replace(outcome, flows=(replace(outcome.flows[0], transport=transport), *outcome.flows[1:]))

        prober.settings = replace(prober.settings, algorithm=algorithm)
        lab.gives = gives
        for _ in range(times):
            (record,) = prober.round(stop, ("intra",)).records
        assert lab.launched[-1].algorithm == algorithm
        return record

    prober = lab.prober()
    assert last("SHM/direct", "ring", 20e9, 5)["flows"][0]["expected"] == pytest.approx(20e9)
    assert lab.launched[-1].slow_below == pytest.approx(18e9)
    assert last("P2P/CUMEM", "ring", 300e9, 1)["flows"][0]["expected"] is None
    assert last("P2P/CUMEM", "ring", 300e9, 4)["flows"][0]["expected"] == pytest.approx(300e9)
    assert lab.launched[-1].slow_below == pytest.approx(270e9)
    assert last("P2P/CUMEM", "tree", 200e9, 1)["flows"][0]["expected"] is None
    fallen = last("SHM/direct", "ring", 20e9, 1)
    assert (fallen["result"], fallen["reason"], fallen["flows"]) == ("error", "wrong_transport", [])
    assert "SHM/direct" in fallen["message"]


def test_a_small_operation_by_hand_is_of_all_gpus_and_of_each_pair_of_nics_and_measures_no_link(stop: Stop) -> None:
    def gives(spec: Spec, _: Stop) -> Outcome:
        if spec.engine == "nccl" and spec.nics:
            return Outcome(spec, "refused", "no_gpu")
        source, target = [nic.subject for nic in spec.nics] or ["", ""]
        return Outcome(spec, "ok", flows=(Flow("latency", 8, (3e-6,), source, target),), seconds=1.0, phase="end")

    lab = Lab(gives=gives)
    prober = lab.prober()
    done = prober.round(stop, ("latency",), by_hand=True)
    asked = [(spec.engine, spec.scope, spec.size, len(spec.nics)) for spec in lab.launched]
    assert asked == [("nccl", "latency", 8, 0), ("nccl", "latency", 8, 2), ("rdma", "latency", 8, 2)]
    assert [record["result"] for record in done.records] == ["ok", "refused", "ok"]
    assert prober.journal.trials == ()
    shown = [sample for sample in samples(done.records) if sample.metric.name.endswith("latency_seconds")]
    assert [sample.labels for sample in shown] == [("latency", "nccl", ""), ("latency", "rdma", "0")]
