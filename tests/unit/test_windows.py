"""How far counters moved in windows of time, whatever the poll, the reset or the restart between."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.history import KEPT, STEP, History, Moved


def noted(values: list[tuple[float, float]], modulus: int | None = None) -> History:
    history = History()
    for now, value in values:
        history.note(now, "x", {"c": value}, {"c": modulus} if modulus else {})
    return history


def test_a_window_is_at_least_what_was_asked_for() -> None:
    history = noted([(5.0 * n, 10 * n) for n in range(200)])
    moved = history.moved(995.0, "x", "c", 300)
    assert moved is not None
    assert 300 <= moved.seconds <= 300 + STEP
    assert moved.per_second == pytest.approx(2.0)


def test_too_little_is_known_before_the_second_reading() -> None:
    assert noted([(0.0, 5)]).moved(0.0, "x", "c", 300) is None
    assert noted([]).moved(0.0, "x", "c", 300) is None
    assert Moved(5, 0.0).per_second == 0.0


def test_a_reset_loses_what_came_before_it_and_no_more() -> None:
    assert noted([(0, 90), (30, 100), (60, 3), (90, 7)]).moved(90, "x", "c", 90) == Moved(14, 90)


def test_a_wrap_is_movement() -> None:
    assert noted([(0, 2**32 - 5), (30, 10)], 2**32).moved(30, "x", "c", 30) == Moved(15, 30)


def test_absence_keeps_what_was_known() -> None:
    history = noted([(0, 1), (30, 2)])
    history.note(60, "x", {}, {})
    history.note(90, "x", {"c": 5}, {})
    assert history.moved(90, "x", "c", 90) == Moved(4, 90)


def test_a_counter_that_stands_costs_one_point_a_day() -> None:
    history = noted([(30.0 * n, 7) for n in range(2880)])
    assert len(history.dump(0.0)["x"]["counters"]["c"][1]) == 1
    assert history.moving("x") == []
    assert history.covers("x", "c", 86_000 - KEPT)


def test_it_outlives_a_restart_and_a_reboot_begins_anew() -> None:
    kept = json.loads(json.dumps(noted([(0, 1), (30, 4), (60, 9)]).dump(1e9)))
    same, other = History(), History()
    same.load(kept, 10.0, 1e9 + 100, same_boot=True)
    same.note(10.0, "x", {"c": 10}, {})
    assert same.moved(10.0, "x", "c", 600) == Moved(9, 110)
    other.load(kept, 10.0, 1e9 + 100, same_boot=False)
    other.note(10.0, "x", {"c": 50}, {})
    assert other.moved(10.0, "x", "c", 600) == Moved(8, 110)


def test_subjects_that_are_gone_are_forgotten() -> None:
    history = noted([(0, 1)])
    history.keep_only(["y"])
    assert len(history) == 0
    assert history.last("x", "c") is None


@given(st.lists(st.tuples(st.floats(0.1, 400), st.integers(0, 50)), min_size=2, max_size=80), st.floats(1, 4000))
def test_no_window_gives_more_than_what_came(steps: list[tuple[float, int]], window: float) -> None:
    history, now, total = History(), 0.0, 0
    for wait, more in steps:
        now, total = now + wait, total + more
        history.note(now, "x", {"c": total}, {})
    moved = history.moved(now, "x", "c", window)
    assert moved is not None
    assert 0 <= moved.amount <= total - steps[0][1]
    again = History()
    again.load(json.loads(json.dumps(history.dump(0.0))), now, 0.0, same_boot=True)
    repeated = again.moved(now, "x", "c", window)
    assert repeated is not None
    assert repeated.amount <= moved.amount or repeated.seconds >= moved.seconds - 0.2
