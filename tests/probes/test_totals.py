"""What probes have cost: one sum of every process on the node, that only grows."""

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.metrics import Sample
from exporter.probes.gate import Limits
from exporter.probes.journal import Lock
from exporter.probes.launch import Stop
from exporter.probes.protocol import Outcome
from exporter.probes.scheduled import ScheduledProbes
from exporter.probes.totals import FILE, Tally, Totals, dump, read
from tests.probes.lab import LOCK, Lab, good
from tests.props import few, junk

SOME = Tally(Counter({("intra", "nccl", "ok"): 2}), Counter({"min_gap": 3}), 1, 2.5, 1000)


def served(probes: ScheduledProbes) -> dict[str, Any]:
    """What the daemon exports of the cost."""
    return {_named(sample): sample.value for sample in probes.run(0.0).samples if "_total" in sample.metric.name}


def _named(sample: Sample) -> str:
    return "/".join((sample.metric.name.removeprefix("eastwest_probe_").removesuffix("_total"), *sample.labels))


def test_the_daemon_serves_what_hooks_and_hands_have_cost(tmp_path: Path) -> None:
    lab, stop = Lab(tmp_path), Stop()
    daemon = ScheduledProbes(lab.prober(), lambda: 0.99)
    assert served(daemon) == {"preempted": 0, "seconds": 0, "bytes": 0}
    lab.prober().round(stop, until=1e12)
    moved = 10**9 + 2 * 10**6
    cost = {"preempted": 0, "seconds": 4, "bytes": moved, "runs/intra/nccl/ok": 1, "runs/loopback/nccl/ok": 1}
    assert served(daemon) == cost
    lab.prober().round(stop, until=1e12)
    assert served(daemon) == cost | {"skipped/min_gap": 1}, "a hook that min_gap refused is one refusal"
    lab.prober().round(stop, by_hand=True)
    assert served(daemon)["seconds"] == 8
    lab.load.said = (replace(lab.load.read()[0], processes=(77,)),)
    lab.prober().round(stop, by_hand=True)
    assert served(daemon)["skipped/gpu_process"] == 1
    restarted = ScheduledProbes(lab.prober(), lambda: 0.99)
    assert served(restarted) == served(daemon)
    stop.close()


def test_what_was_dropped_has_cost_its_bytes_too(tmp_path: Path) -> None:
    lab, stop = Lab(tmp_path), Stop()

    def late(spec: Any, _: Stop) -> Outcome:
        lab.slurm.said = ("job 7",)
        return good(spec)

    lab.gives = late
    prober = lab.prober()
    prober.round(stop)
    stop.close()
    assert (prober.tally.preempted, prober.tally.bytes, prober.tally.runs) == (1, 10**9, {})
    assert prober.journal.used(lab.clock.now) == (2.0, 10**9)


def test_that_another_probe_runs_is_counted_by_the_daemon_and_written_when_it_may(tmp_path: Path) -> None:
    lab, other, stop = Lab(tmp_path), Lock(LOCK), Stop()
    prober = lab.prober()
    assert other.take()
    for waiting in (prober, prober, lab.prober()):
        waiting.round(stop)
    assert prober.tally.skipped == {"locked": 2}
    assert not (tmp_path / FILE).exists(), "without the lock nothing is written"
    other.give()
    prober.round(stop)
    prober.round(stop)
    stop.close()
    assert Totals(tmp_path).tally.skipped == {"locked": 2, "min_gap": 1}


def test_a_new_configuration_takes_over_what_could_not_be_written() -> None:
    lab, stop = Lab(), Stop()
    before = ScheduledProbes(lab.prober(), lambda: 0.99)
    before._prober.round(stop)  # noqa: SLF001 - a round of its own
    after = ScheduledProbes(lab.prober(), lambda: 0.99)
    after.inherit(before)
    assert served(after)["seconds"] == 4
    stop.close()


def test_where_it_cannot_be_written_this_process_counts_for_itself(tmp_path: Path) -> None:
    totals = Totals(tmp_path / "missing")
    totals.add(SOME, locked=True)
    totals.add(SOME, locked=True)
    assert totals.tally == SOME.plus(SOME)
    (tmp_path / "missing").mkdir()
    totals.add(Tally(), locked=True)
    assert Totals(tmp_path / "missing").tally == SOME.plus(SOME)
    assert totals.tally == SOME.plus(SOME), "nothing is counted twice"


def test_a_file_that_was_removed_begins_anew(tmp_path: Path) -> None:
    totals = Totals(tmp_path)
    totals.add(SOME, locked=True)
    (tmp_path / FILE).unlink()
    totals.refresh()
    assert totals.tally == Tally()
    totals.add(SOME, locked=True)
    assert Totals(tmp_path).tally == SOME


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_file_that_cannot_be_read_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], None]
) -> None:
    make(tmp_path / FILE)
    totals = Totals(tmp_path)
    totals.add(SOME, locked=True)
    totals.refresh()
    assert (totals.tally, (tmp_path / FILE).is_file(), len(caplog.records)) == (SOME, False, 1)


def test_it_is_read_as_it_was_written() -> None:
    assert read(dump(SOME)) == SOME


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"bytes": -1},
        {"bytes": 1.5},
        {"seconds": float("inf")},
        {"seconds": float("nan")},
        {"preempted": True},
        {"skipped": {"x" * 41: 1}},
        {"skipped": {"a\nb": 1}},
        {"skipped": {"min_gap": 10**400}},
        {"runs": [["intra", "nccl", 1]]},
        {"runs": [["intra", "nccl", "ok", None]]},
        {"runs": [["intra", "nccl", f"r{number}", 1] for number in range(201)]},
    ],
)
def test_what_is_none_begins_anew_and_is_said(
    change: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text(json.dumps(json.loads(dump(SOME)) | change))
    totals = Totals(tmp_path)
    assert totals.tally == Tally()
    assert FILE in caplog.text
    totals.add(SOME, locked=True)
    assert Totals(tmp_path).tally == SOME


@given(content=st.one_of(junk, st.just(b"[" * 100_000)))
@few
def test_nothing_in_it_stops_anything(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("state", numbered=True)
    (folder / FILE).write_bytes(content)
    assert Totals(folder).tally == Tally()


def test_the_budget_of_bytes_refuses_once_an_hour_has_moved_so_much(tmp_path: Path) -> None:
    lab, stop = Lab(tmp_path), Stop()
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=2 * (10**9 + 2 * 10**6))
    moved = []
    for _ in range(2):
        done = lab.prober().round(stop)
        moved += [record["bytes"] for record in done.records]
        assert done.refusals == ()
        lab.clock.now += 100
    assert moved == [10**9, 2 * 10**6] * 2
    (refusal,) = lab.prober().round(stop).refusals
    assert str(refusal) == "budget (1.9 GiB in the last hour)"
    assert lab.settings.limits.max_seconds != Limits().max_seconds, "of bytes, not of seconds"
    lab.clock.now += 3600
    assert lab.prober().round(stop).records
    stop.close()
