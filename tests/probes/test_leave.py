"""What ends a round between its probes, or one that runs: the node in use, an operator's word, the deadline."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.probes.launch import Stop
from exporter.probes.pause import pause
from exporter.probes.protocol import Outcome, Spec
from exporter.quantities import window
from tests.e2e.daemon import eventually
from tests.probes.lab import Lab, good


@pytest.fixture
def stop() -> Iterator[Stop]:
    made = Stop()
    yield made
    made.close()


def reasons_after_the_first(lab: Lab, stop: Stop, change: Callable[[], object], seconds: float = 0.0) -> list[str]:
    """Why a round ends after its first probe, during which something changed and so long passed."""

    def first(spec: Spec, _: Stop) -> Outcome:
        change()
        lab.clock.now += seconds
        return good(spec)

    lab.gives = first
    prober = lab.prober()
    done = prober.round(stop)
    assert len(done.records) == len(lab.launched) == 1
    assert prober.tally.skipped.keys() == {refusal.reason for refusal in done.refusals} - {"stopped"}
    return [refusal.reason for refusal in done.refusals]


def test_the_node_is_looked_at_anew_between_the_probes_of_a_round(stop: Stop) -> None:
    """Traffic is no work that the watch sees: only the look before the next probe does."""
    lab = Lab()
    assert reasons_after_the_first(lab, stop, lambda: setattr(lab.ports, "step", 10**10), 10) == ["nic_busy"] * 2


def test_a_pause_holds_between_the_probes_of_a_round(stop: Stop, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert reasons_after_the_first(lab, stop, lambda: pause(tmp_path, 3600, lab.clock.now)) == ["paused"]


def test_a_quiet_window_that_begins_between_the_probes_of_a_round_holds(stop: Stop) -> None:
    lab = Lab()
    lab.settings = replace(lab.settings, quiet=(window("0 * * * * for 5m"),))
    hour = time.mktime((2026, 11, 30, 12, 0, 0, 0, 0, -1))
    lab.clock.now = hour - 30
    assert reasons_after_the_first(lab, stop, lambda: None, 60) == ["quiet"]


def test_a_deadline_between_the_probes_of_a_round(stop: Stop, tmp_path: Path) -> None:
    lab = Lab(state=tmp_path, gives=lambda spec, _: good(spec))
    prober = lab.prober()
    assert [str(refusal) for refusal in prober.round(stop, until=lab.clock.now).refusals] == ["stopped (no time left)"]
    assert (lab.launched, lab.load.polls) == ([], 0)
    done = lab.prober().round(stop, until=lab.clock.now + 1.5)
    assert ([str(refusal) for refusal in done.refusals], lab.launched) == (["stopped (no time left)"], []), (
        "one that ran out in the survey"
    )
    assert prober.tally.skipped == {}


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_pause_aborts_the_probe_that_runs_and_is_no_work(stop: Stop, tmp_path: Path, by_hand: bool) -> None:
    def paused(spec: Spec, told: Stop) -> Outcome:
        pause(tmp_path, 3600, lab.clock.now)
        began = time.monotonic()
        eventually(lambda: told.reason, 2)
        assert time.monotonic() - began < 1.5
        return Outcome(spec, "aborted", told.reason)

    lab = Lab(tmp_path, gives=paused)
    prober = lab.prober()
    done = prober.round(stop, by_hand=by_hand)
    (record,) = done.records
    assert (record["result"], record["reason"], record["preempted"]) == ("aborted", "paused", False)
    assert prober.tally.preempted == 0
    assert [str(refusal) for refusal in done.refusals] == ["stopped (paused)"]
