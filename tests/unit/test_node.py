"""Runs, deadlines and what is said of them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

import pytest

from exporter.board import CheckView, Timing
from exporter.checks.base import Report
from exporter.clock import Clock
from exporter.metrics import NoLabels, gauge
from exporter.model import Fault, Finding, Severity, SourceError, Unavailable
from exporter.node import Node, Plan

VALUE = gauge("test_value", "A value.", NoLabels)
TIMING = Timing(interval=5, timeout=0.05)


@dataclass
class Scripted:
    """A check that does what it is told, run after run."""

    steps: list[Callable[[], Report]]

    def run(self, now: float) -> Report:
        """One step."""
        assert now >= 0
        return self.steps.pop(0)()


@dataclass
class HandClock:
    """Both times at once."""

    now: float = 100.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(lambda: self.now, lambda: self.now)


def raising(error: Exception) -> Callable[[], Report]:
    def step() -> Report:
        raise error

    return step


def good(value: int = 1, *faults: Fault) -> Callable[[], Report]:
    return lambda: Report((VALUE(NoLabels(), value),), faults)


def one(time: HandClock, *steps: Callable[[], Report], required: bool = False) -> Node:
    return Node({"only": Plan(Scripted(list(steps)), TIMING, required)}, time.clock)


def view(node: Node, name: str = "only") -> CheckView:
    return next(view for view in node.board.snapshot().checks if view.name == name)


def test_a_check_that_hangs_fails_past_its_deadline_and_holds_up_no_other() -> None:
    release, time = Event(), HandClock()

    def hang() -> Report:
        release.wait()
        return Report()

    node = Node(
        {"stuck": Plan(Scripted([good(), hang]), TIMING), "free": Plan(Scripted([good(), good(2)]), TIMING)}, time.clock
    )
    node.turn(node.plans)
    node.turn(node.plans)
    assert view(node, "stuck").success
    time.now += 0.06
    assert view(node, "stuck").overdue
    assert not view(node, "stuck").success
    assert view(node, "free").success
    assert len(node.board.snapshot().reports()) == 2
    node.turn(["stuck"])
    assert view(node, "stuck").overruns == 1
    time.now += 60
    assert [report.samples[0].value for report in node.board.snapshot().reports()] == []
    release.set()
    assert node.wait(5)
    assert view(node, "stuck").success


def test_before_its_first_run_a_check_says_nothing_of_itself() -> None:
    node = one(HandClock())
    assert (view(node).ran, view(node).success, view(node).running) == (False, False, None)


@pytest.mark.parametrize(
    ("step", "required", "status", "success"),
    [
        (raising(Unavailable("none here")), False, "absent", True),
        (raising(Unavailable("none here")), True, "failed", False),
        (raising(SourceError("eacces", "denied")), False, "failed", False),
        (raising(ZeroDivisionError("a bug")), False, "failed", False),
        (good(), True, "ok", True),
    ],
)
def test_how_a_run_ends(step: Callable[[], Report], required: bool, status: str, success: bool) -> None:
    node = one(HandClock(), step, required=required)
    node.turn(["only"])
    outcome = view(node).outcome
    assert outcome is not None
    assert (outcome.status, view(node).success) == (status, success)


def test_samples_outlive_a_failure_until_they_are_too_old() -> None:
    time = HandClock()
    node = one(time, good(), raising(SourceError("eio", "io")))
    node.turn(["only"])
    node.turn(["only"])
    assert len(node.board.snapshot().reports()) == 1
    time.now += 60
    assert len(node.board.snapshot().reports()) == 1
    time.now += 1
    assert node.board.snapshot().reports() == ()


def test_hardware_that_went_away_takes_its_samples_with_it() -> None:
    node = one(HandClock(), good(), raising(Unavailable("gone")))
    node.turn(["only"])
    node.turn(["only"])
    assert [report.samples for report in node.board.snapshot().reports()] == [()]


def test_faults_are_counted_at_every_run_and_said_when_they_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fault = Fault("ports", "mlx5_0/1", "eio", "/a")
    twin = Fault("ports", "mlx5_0/1", "eio", "/b")
    node = one(HandClock(), good(1, fault, twin), good(1, fault, twin), good())
    for _ in range(3):
        node.turn(["only"])
    assert node.board.snapshot().source_errors == {("ports", "eio"): 4}
    assert caplog.messages == [
        "check=only subject=mlx5_0/1 reason=eio: /a (and 1 more)",
        "check=only subject=mlx5_0/1 reason=eio: no more (it answers, or is not asked)",
    ]


def test_a_failure_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    error = raising(SourceError("eio", "broken"))
    node = one(HandClock(), error, error, good(), good())
    for _ in range(4):
        node.turn(["only"])
    said = [message for message in caplog.messages if "subject" not in message]
    assert said == ["check=only: broken", "check=only: works again"]


def test_a_run_that_hangs_is_said_once_and_so_is_the_first_that_answers_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    release, time = Event(), HandClock()

    def hang() -> Report:
        release.wait()
        return Report()

    def late() -> Report:
        time.now += 0.06
        node.watch()
        return Report()

    node = one(time, good(), hang, late, late, good(), good())
    node.turn(["only"])
    node.turn(["only"])
    node.watch()
    assert caplog.messages == []
    for _ in range(100):
        time.now += 1
        node.watch()
        if time.now % 30 == 0:
            node.turn(["only"])
    assert caplog.messages == ["check=only: no answer within its deadline of 0.05 s"]
    release.set()
    assert node.wait(5)
    for _ in range(4):
        node.turn(["only"])
        node.watch()
    assert caplog.messages[1:] == ["check=only: answers in time again"]


def test_a_hang_that_goes_on_after_a_new_configuration_is_not_said_again(caplog: pytest.LogCaptureFixture) -> None:
    release, time = Event(), HandClock()

    def hang() -> Report:
        release.wait()
        return Report()

    before, after = one(time, hang), one(time, hang)
    for node in (before, after):
        node.start("only")
        time.now += 1
        node.watch()
        after.inherit(before)
    assert len(caplog.messages) == 1
    release.set()
    assert all(node.wait(5) for node in (before, after))


def test_a_board_goes_on_counting_after_a_new_configuration() -> None:
    fault = Fault("ports", "mlx5_0/1", "eio", "/a")
    before, after = one(HandClock(), good(1, fault)), one(HandClock(), good(1, fault))
    before.turn(["only"])
    after.board.inherit(before.board)
    after.turn(["only"])
    assert after.board.snapshot().source_errors == {("ports", "eio"): 2}


def test_findings_of_a_check_that_was_turned_off_do_not_stand_for_ever() -> None:
    finding = Finding("only", "node", Severity.CRITICAL, "probe_intra_slow", "is slow")
    time = HandClock()
    before = one(time, lambda: Report(findings=(finding,)))
    before.turn(["only"])
    assert [shown.finding for shown in before.board.snapshot().findings] == [finding]
    for elsewhere, kept in (((), []), (("only",), [finding])):
        after = Node({"other": Plan(Scripted([good()]), TIMING)}, time.clock, elsewhere=elsewhere)
        after.inherit(before)
        assert [shown.finding for shown in after.board.snapshot().findings] == kept
