"""The life of a link: falls counted once, outages measured, all of it the same after a restart."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.life import DAY, Life, Outage, dump, forgotten, live, load, ran

UP, DOWN = True, False


def lived(*steps: tuple[float, bool | None, int | None]) -> Life:
    life = Life()
    for now, up, downed in steps:
        life = live(life, now, up, downed)
    return life


@pytest.mark.parametrize(
    ("steps", "falls"),
    [
        ([(0, UP, 0), (5, DOWN, 1), (10, UP, 1)], 1),
        ([(0, UP, 0), (5, DOWN, 0), (10, UP, 1)], 1),
        ([(0, UP, 0), (5, DOWN, 0), (10, DOWN, 1), (15, UP, 1)], 1),
        ([(0, UP, 0), (5, UP, 1)], 1),
        ([(0, UP, 0), (5, UP, 3)], 3),
        ([(0, UP, 0), (5, DOWN, 2), (10, UP, 2)], 2),
        ([(0, UP, None), (5, DOWN, None), (10, UP, None)], 1),
        ([(0, UP, 255), (5, DOWN, 255), (10, UP, 255), (15, DOWN, 255)], 2),
        ([(0, UP, 9), (5, UP, 0), (10, UP, 1)], 1),
        ([(0, DOWN, 0), (5, UP, 0)], 0),
        ([(0, UP, 0), (5, None, None), (10, UP, 0)], 0),
        ([(0, UP, 4), (5, None, None), (10, UP, 0)], 0),
        ([(0, UP, 0), (5, DOWN, 0), (400, UP, 0), (405, UP, 1)], 2),
    ],
)
def test_a_fall_that_state_and_counter_both_saw_is_one(
    steps: list[tuple[float, bool | None, int | None]], falls: int
) -> None:
    assert lived(*steps).fallen(steps[-1][0], DAY) == falls


def test_outages_are_measured_and_windows_end() -> None:
    life = lived((0, UP, 0), (100, DOWN, 1), (145, UP, 1), (200, UP, 1))
    assert life.outages == (Outage(145, 45),)
    assert life.fallen(200, 600) == 1
    assert life.fallen(800, 600) == 0
    assert live(life, 100 + DAY, UP, 1).falls == ()


def test_never_up_is_not_ever_up() -> None:
    assert not lived((0, DOWN, 0), (5, DOWN, 0)).ever_up
    assert lived((0, DOWN, 0), (5, UP, 0), (10, DOWN, 1)).ever_up


def test_the_best_rate_of_a_week() -> None:
    life = ran(ran(Life(), 0, 50e9), 60, 12.5e9)
    assert life.best_since(60) == 50e9
    assert ran(life, 8 * DAY, 12.5e9).best_since(8 * DAY) == 12.5e9


def test_a_link_that_is_gone_for_a_month_is_forgotten() -> None:
    gone = lived((0, UP, 0), (5, None, None))
    assert not forgotten(gone, 29 * DAY)
    assert forgotten(gone, 31 * DAY)


def test_a_restart_keeps_it_and_a_reboot_begins_counters_anew() -> None:
    lives = {"a": ran(lived((0, UP, 0), (100, DOWN, 1), (145, UP, 1)), 145, 50e9)}
    kept = json.loads(json.dumps(dump(lives, 1e9)))
    same = load(kept, 20.0, 1e9 + 180, same_boot=True)["a"]
    assert (same.up, same.downed, same.ever_up, same.best) == (True, 1, True, 50e9)
    assert same.falls == ((-80.0, 1),)
    assert live(same, 25.0, UP, 2).fallen(25.0, DAY) == 2
    other = load(kept, 20.0, 1e9 + 180, same_boot=False)["a"]
    assert live(other, 25.0, DOWN, 9).fallen(25.0, DAY) == 1
    assert other.ever_up


def test_a_clock_that_was_set_back_leaves_nothing_in_the_future() -> None:
    kept = json.loads(json.dumps(dump({"a": lived((0, UP, 0), (100, DOWN, 1))}, 1e9)))
    life = load(kept, 10.0, 1e9 - 5000, same_boot=True)["a"]
    assert life.since <= 10.0
    assert all(at <= 10.0 for at, _ in life.falls)


@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.none() | st.integers(0, 300)), max_size=60))
def test_any_readings_give_a_life_that_survives_the_file(steps: list[tuple[bool | None, int | None]]) -> None:
    life = lived(*((5.0 * index, up, downed) for index, (up, downed) in enumerate(steps)))
    now = 5.0 * len(steps)
    assert 0 <= life.fallen(now, 600) <= life.fallen(now, DAY)
    assert life.ever_up == any(up for up, _ in steps)
    again = load(json.loads(json.dumps(dump({"a": life}, 0.0))), now, 0.0, same_boot=True)["a"]
    assert (again.falls, again.outages, again.up, again.ever_up) == (life.falls, life.outages, life.up, life.ever_up)
