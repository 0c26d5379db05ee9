"""Hours of a node, replayed: what is said, when, and that it goes away again."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.board import Board, Timing
from exporter.checks.infiniband import Settings
from exporter.clock import Clock
from exporter.health import Shown
from exporter.model import Port, Role
from exporter.state import Origin, State
from tests.judge.players import Play, counting, down, names, only, port, severities, steady

HOUR = 3600.0


def test_a_flap_every_three_minutes_for_an_hour_is_one_finding_that_stays() -> None:
    play = Play()
    play.run(60, steady)

    def flap(one: Port, now: float) -> Port:
        counted = counting(one, link_downed=int(now // 180))
        return down(counted) if now % 180 < 20 and now >= 180 else counted

    shown = play.run(HOUR, only("mlx5_3/1", flap))
    assert severities(shown) == {("mlx5_3/1", "port_flapping"): "critical"}
    said = {reason for _, found in play.log for _, reason in found}
    assert said == {"port_down", "link_went_down", "port_flapping"}
    flapping = [("mlx5_3/1", "port_flapping") in found for _, found in play.log]
    assert flapping == sorted(flapping), "once it flaps it does not stop and start"
    life = play.check._lives["0000:03:00.0/1"]  # noqa: SLF001 - what the metric is made of
    assert life.fallen(play.now, 86_400) == 20, "state and counter saw the same flaps"
    steady_again = only("mlx5_3/1", lambda one, _now: counting(one, link_downed=20))
    assert names(play.run(3 * HOUR, steady_again, step=30)) == {("mlx5_3/1", "port_flapping")}, "5 in 24 hours"
    assert names(play.run(24 * HOUR, steady_again, step=600)) == set()


@pytest.mark.parametrize("reboot", [False, True])
def test_a_link_that_went_down_while_the_daemon_was_away(tmp_path: Path, reboot: bool) -> None:
    def life(start: float, boot: str) -> Play:
        clock = Clock(wall=lambda: 1_800_000_000.0 + start, monotonic=lambda: start)
        state = State(tmp_path, create=True, origin=Origin("/sys", boot), clock=clock)
        return Play(state=state, start=start)

    first = life(0.0, "a")
    first.run(120, steady)
    assert first.state is not None
    first.state.close()
    second = life(300.0, "b" if reboot else "a")
    shown = second.run(60, only("mlx5_2/1", lambda one, _now: counting(one, link_downed=1)))
    expected = {} if reboot else {("mlx5_2/1", "link_went_down"): "degraded"}
    assert severities(shown) == expected, "after a reboot the counter counts the boot"
    assert second.state is not None
    second.state.close()


def test_a_driver_reload_that_resets_every_counter_says_nothing() -> None:
    play = Play(ports=[counting(port(n), link_downed=3, symbol_errors=900, receive_errors=50) for n in range(8)])
    play.run(600, steady)
    for _ in range(6):
        play.now += 5
        assert not play.poll(None), "half a minute without any device"
    play.ports = [port(n) for n in range(8)]
    assert names(play.run(1200, steady)) == set()


def test_a_driver_that_does_not_come_back_is_missed() -> None:
    play = Play()
    play.run(60, steady)
    shown: tuple[Shown, ...] = ()
    for _ in range(14):
        play.now += 5
        shown = play.poll(None)
    assert severities(shown) == {("node", "ports_missing"): "critical"}
    assert names(play.run(30, steady)) == set()


def test_a_wrap_at_2_to_the_32_is_traffic_and_no_burst() -> None:
    play = Play()
    top = 2**32

    def wrapping(one: Port, now: float) -> Port:
        return counting(one, out_of_sequence=int(top - 300 + now) % top, symbol_errors=0)

    assert names(play.run(1200, wrapping)) == set()
    moved = play.check._history.moved(play.now, "mlx5_0/1", "out_of_sequence", 600)  # noqa: SLF001
    assert moved is not None
    assert moved.amount == pytest.approx(moved.seconds)


def test_boot_with_two_ports_unplugged_troubles_nobody_who_did_not_ask() -> None:
    unplugged = ("mlx5_6/1", "mlx5_7/1")

    def boot(one: Port, _now: float) -> Port:
        return down(one) if one.subject in unplugged else one

    play = Play()
    assert severities(play.run(600, boot)) == {(subject, "port_never_up"): "info" for subject in unplugged}
    assert play.board.snapshot().status == "ok"
    asked = Play(settings=Settings(wanted_ports={Role.COMPUTE: 8}))
    assert severities(asked.run(600, boot))["node", "too_few_ports"] == "critical"


def test_boot_with_two_ports_dead_that_were_up_in_the_boot_before(tmp_path: Path) -> None:
    now = [0.0]
    clock = Clock(wall=lambda: 1_800_000_000.0 + now[0], monotonic=lambda: now[0])
    state = State(tmp_path, create=True, origin=Origin("/sys", "a"), clock=clock)
    Play(state=state).run(60, steady)
    state.close()
    again = Play(state=State(tmp_path, create=True, origin=Origin("/sys", "b"), clock=clock))
    dead = ("mlx5_6/1", "mlx5_7/1")
    shown = again.run(60, lambda one, _now: down(one) if one.subject in dead else one)
    assert severities(shown) == {(subject, "port_down"): "critical" for subject in dead}


def test_a_leaf_switch_that_reboots_is_one_finding_then_one_and_then_none() -> None:
    play = Play()
    play.run(120, steady)

    def reboot(one: Port, _now: float) -> Port:
        return counting(down(one), link_downed=1)

    def back(one: Port, _now: float) -> Port:
        return counting(one, link_downed=1)

    assert severities(play.run(240, reboot)) == {("node", "ports_down"): "critical"}
    assert severities(play.run(600, back)) == {("node", "ports_went_down"): "degraded"}
    everything = {key for _, found in play.log for key in found}
    assert everything == {("node", "ports_down"), ("node", "ports_went_down")}
    assert names(play.run(25 * HOUR, back, step=300)) == set()


def test_one_fall_after_a_leaf_that_rebooted_is_told_beside_it() -> None:
    play = Play()
    play.run(60, steady)
    play.run(60, lambda one, _now: counting(down(one), link_downed=1))
    play.run(120, lambda one, _now: counting(one, link_downed=1))
    alone = only("mlx5_4/1", lambda one, _now: counting(down(one), link_downed=2))
    again = lambda one, now: counting(alone(one, now), link_downed=1 + (one.subject == "mlx5_4/1"))  # noqa: E731
    assert names(play.run(15, again)) == {("node", "ports_went_down"), ("mlx5_4/1", "port_down")}
    back = lambda one, _now: counting(one, link_downed=1 + (one.subject == "mlx5_4/1"))  # noqa: E731
    assert names(play.run(60, back)) == {("node", "ports_went_down"), ("mlx5_4/1", "link_went_down")}


def test_a_device_that_is_renamed_or_exchanged_is_not_missing() -> None:
    play = Play()
    play.run(60, steady)
    other = replace(port(9), device=replace(port(9).device, name="ibp9s0", pci_address="0000:99:00.0"))
    play.ports = [*play.ports[:7], other]
    assert names(play.run(300, steady)) == set()


def test_a_check_that_is_switched_off_takes_its_findings_with_it() -> None:
    play = Play()
    play.run(60, only("mlx5_3/1", lambda one, _now: replace(one, rate=12.5e9, width=1)))
    assert play.board.snapshot().status == "critical"
    other = Board({"gpu": Timing(5.0, 5.0)}, play.clock)
    other.inherit(play.board)
    other.stand(play.board.standing())
    assert other.snapshot().findings == ()


def test_24_hours_of_healthy_noise_say_nothing() -> None:
    noise = random.Random(7)  # noqa: S311 - a replay, not a secret
    counts = {f"mlx5_{n}/1": {"symbol_errors": 0, "receive_errors": 0} for n in range(8)}

    def healthy(one: Port, _now: float) -> Port:
        mine = counts[one.subject]
        mine["symbol_errors"] += noise.random() < 0.01
        mine["receive_errors"] += noise.random() < 0.002
        return counting(one, **mine, ack_timeouts=mine["receive_errors"], rnr_nak_retries=mine["symbol_errors"])

    play = Play()
    play.run(24 * HOUR, healthy, step=60)
    assert play.log == [(60.0, frozenset())]


def test_a_remote_job_that_dies_is_no_finding() -> None:
    """rnr_nak and ack timeouts rise by thousands when the other end goes away."""
    play = Play()
    play.run(300, steady)
    died = lambda one, now: counting(one, rnr_nak_retries=int(now * 50), ack_timeouts=int(now * 20))  # noqa: E731
    assert names(play.run(1200, died)) == set()


def test_a_dead_nic_is_one_finding_not_nine() -> None:
    play = Play()
    play.run(900, only("mlx5_1/1", lambda one, now: counting(one, symbol_errors=int(now * 5), receive_errors=int(now))))

    def dies(one: Port, now: float) -> Port:
        return down(
            counting(one, symbol_errors=int(now * 5), receive_errors=int(now * 20), transmit_discards=int(now * 500))
        )

    assert names(play.run(300, only("mlx5_1/1", dies))) == {("mlx5_1/1", "port_down")}
    gone = [one for one in play.ports if one.subject != "mlx5_1/1"]
    play.ports = gone
    assert names(play.run(120, steady)) == {("mlx5_1/1", "port_missing")}


def test_one_flap_is_degraded_for_an_hour_and_then_forgotten() -> None:
    play = Play()
    play.run(60, steady)
    play.run(10, only("mlx5_4/1", lambda one, _now: counting(down(one), link_downed=1)))
    back = only("mlx5_4/1", lambda one, _now: counting(one, link_downed=1))
    assert severities(play.run(60, back)) == {("mlx5_4/1", "link_went_down"): "degraded"}
    assert play.board.snapshot().status == "degraded"
    assert names(play.run(3500, back, step=30)) == {("mlx5_4/1", "link_went_down")}
    assert names(play.run(120, back, step=30)) == set()


def test_a_flap_between_two_polls_is_seen_by_the_counter() -> None:
    play = Play()
    play.run(60, steady)
    shown = play.run(5, only("mlx5_4/1", lambda one, _now: counting(one, link_downed=1)))
    assert names(shown) == {("mlx5_4/1", "link_went_down")}


def test_a_port_that_swings_at_the_threshold_does_not_come_and_go() -> None:
    play = Play()
    play.run(60, steady)
    slow = only("mlx5_5/1", lambda one, now: replace(one, rate=12.5e9, width=1) if int(now / 5) % 2 else one)
    play.run(600, slow)
    assert len(play.log) <= 2


def test_a_slow_port_is_known_since_it_began() -> None:
    play = Play()
    play.run(60, steady)
    began = play.now
    slow = only("mlx5_5/1", lambda one, _now: replace(one, rate=12.5e9, width=1))
    (one,) = play.run(600, slow)
    assert one.since == 1_800_000_000.0 + began + 5
    assert one.finding.reason == "width_reduced"
    assert "1 of 4 lanes" in one.finding.message
