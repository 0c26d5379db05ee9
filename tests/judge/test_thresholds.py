"""Each reason of a port at its threshold: it is said just above, and not just below."""

from dataclasses import replace

import pytest

from exporter.checks.infiniband import Settings
from exporter.health import Shown
from exporter.model import Fault, Port, Role
from exporter.rails import NicRule
from tests.judge.players import RATE, Change, Play, counting, names, only, port, severities, steady

WHICH = "mlx5_5/1"


def found(change: Change, seconds: float = 1200, **values: object) -> dict[tuple[str, str], str]:
    """What one port's change comes to, after a minute without it."""
    play = Play(**values)  # type: ignore[arg-type] # each test gives what Play takes
    play.run(60, steady)
    return dict(severities(play.run(seconds, only(WHICH, change))))


def rising(name: str, per_second: float) -> Change:
    """A counter that rises so fast."""
    return lambda one, now: counting(one, **{name: int(per_second * max(0.0, now - 60))})


def once(name: str, count: int) -> Change:
    """A counter that moved one time."""
    return lambda one, now: counting(one, **{name: count if now > 300 else 0})


@pytest.mark.parametrize(
    ("name", "above", "below", "reason"),
    [
        ("symbol_errors", 0.42, 0.38, "symbol_errors"),
        ("receive_errors", 10.5, 9.5, "receive_errors"),
        ("link_error_recovery", 0.09, 0.08, "link_recoveries"),
        ("transmit_discards", 105, 95, "transmit_discards"),
    ],
)
def test_rates(name: str, above: float, below: float, reason: str) -> None:
    assert found(rising(name, above)) == {(WHICH, reason): "degraded"}
    assert found(rising(name, below)) == {}


def test_a_storm_of_symbol_errors_that_is_over_was_none() -> None:
    assert found(lambda one, now: counting(one, symbol_errors=50_000 if now > 300 else 0)) == {}


def test_symbol_errors_of_every_like_port_are_the_generation_not_the_cable() -> None:
    play = Play()
    assert names(play.run(1800, lambda one, now: counting(one, symbol_errors=int(now)))) == set()
    tenfold = lambda one, now: counting(one, symbol_errors=int(now * (15 if one.subject == WHICH else 1)))  # noqa: E731
    assert names(Play().run(1800, tenfold)) == {(WHICH, "symbol_errors")}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("local_link_integrity_errors", "link_integrity_errors"), ("excessive_buffer_overrun_errors", "buffer_overruns")],
)
def test_what_must_not_happen_once(name: str, reason: str) -> None:
    assert found(once(name, 1)) == {(WHICH, reason): "degraded"}
    assert found(once(name, 1), seconds=7200) == {}, "an hour later it is over"


def test_icrc_errors() -> None:
    assert found(once("icrc_errors", 10), ports=[counting(port(n), icrc_errors=0) for n in range(8)]) == {
        (WHICH, "icrc_errors"): "degraded"
    }
    assert found(once("icrc_errors", 9), ports=[counting(port(n), icrc_errors=0) for n in range(8)]) == {}


def test_leftovers_of_boot_are_no_errors_of_today() -> None:
    old = [counting(port(n), symbol_errors=70_000, local_link_integrity_errors=3, link_downed=9) for n in range(8)]
    assert names(Play(ports=old).run(3700, steady, step=30)) == set()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"rate": RATE / 4, "width": 1}, "width_reduced"),
        ({"rate": RATE / 2, "width": 2, "speed": "NDR"}, "width_reduced"),
        ({"rate": RATE / 2, "width": 4, "speed": "HDR"}, "speed_reduced"),
        ({"rate": RATE / 2, "width": None, "speed": ""}, "rate_low"),
        ({"rate": RATE * 0.98}, "rate_low"),
        ({"rate": RATE * 0.995}, None),
        ({"rate": RATE * 2, "width": 4, "speed": "XDR"}, None),
    ],
)
def test_slow_but_up(values: dict[str, object], reason: str | None) -> None:
    assert found(lambda one, _now: replace(one, **values)) == ({(WHICH, reason): "critical"} if reason else {})  # type: ignore[arg-type]


def test_ethernet_is_not_told_by_lanes() -> None:
    ports = [port(n, link_layer="Ethernet") for n in range(8)]
    slow: Change = lambda one, _now: replace(one, rate=RATE / 4, width=1)  # noqa: E731
    assert found(slow, ports=ports) == {(WHICH, "rate_low"): "critical"}


def test_a_port_without_peers_is_held_to_its_own_best() -> None:
    play = Play(ports=[port(0)])
    play.run(120, steady)
    slow: Change = lambda one, _now: replace(one, rate=RATE / 40, width=None, speed="")  # noqa: E731
    assert severities(play.run(120, slow)) == {("mlx5_0/1", "rate_low"): "critical"}
    assert names(play.run(60, steady)) == set()


def test_a_port_that_always_was_slow_and_has_no_peer_is_as_it_is() -> None:
    assert names(Play(ports=[port(0, rate=RATE / 16)]).run(600, steady)) == set()


def test_what_the_operator_expects_wins_over_the_peers() -> None:
    asked = Settings(expected_rates={Role.COMPUTE: 2 * RATE})
    assert {reason for _, reason in names(Play(settings=asked).run(120, steady))} == {"rate_low"}


def test_a_storage_port_is_at_most_degraded_and_a_management_port_information() -> None:
    def slow(role: Role) -> dict[tuple[str, str], str]:
        rules = (NicRule("mlx5_[4567]", role),)
        return found(lambda one, _now: replace(one, rate=RATE / 4, width=1), settings=Settings(rules=rules))

    assert slow(Role.STORAGE) == {(WHICH, "width_reduced"): "degraded"}
    assert slow(Role.MANAGEMENT) == {(WHICH, "width_reduced"): "info"}


@pytest.mark.parametrize(
    ("names_", "side"), [(("cnp_handled",), "victim"), (("ecn_marked_packets", "cnp_sent"), "culprit")]
)
def test_congestion_is_information_and_has_a_side(names_: tuple[str, ...], side: str) -> None:
    fresh = [counting(port(n), **dict.fromkeys(names_, 0)) for n in range(8)]

    def crowded(one: Port, now: float) -> Port:
        return counting(one, **{name: int(now * 150) for name in names_})

    play = Play(ports=fresh)
    (one,) = play.run(600, only(WHICH, crowded))
    assert (one.finding.subject, one.finding.reason, one.finding.severity) == (WHICH, "congestion", "info")
    assert one.finding.evidence["side"] == side
    assert play.board.snapshot().status == "ok"
    (all_of_them,) = Play(ports=fresh).run(600, crowded)
    assert all_of_them.finding.subject == "node"
    assert names(Play(ports=fresh).run(600, lambda one, now: counting(one, cnp_handled=int(now * 90)))) == set()


def test_waits_per_byte_against_the_other_rails_and_unknown_at_the_ceiling() -> None:
    waits: Change = lambda one, now: counting(one, transmit_wait_ticks=one.counters["transmit_wait_ticks"] * 5)  # noqa: ARG005, E731
    assert found(waits) == {(WHICH, "congestion"): "info"}
    pinned: Change = lambda one, now: replace(waits(one, now), saturated=("port_xmit_wait",))  # noqa: E731
    assert names_of(found(pinned)) == {"counters_saturated"}


def names_of(findings: dict[tuple[str, str], str]) -> set[str]:
    """The reasons alone."""
    return {reason for _, reason in findings}


def test_a_byte_counter_that_stands_still_while_packets_move_is_not_trusted() -> None:
    def frozen(one: Port, now: float) -> Port:
        return counting(one, receive_bytes=7, receive_packets=int(now * 1000))

    ports = [counting(port(n), receive_bytes=7) for n in range(8)]
    play = Play(ports=ports)
    assert severities(play.run(1800, only(WHICH, frozen))) == {(WHICH, "counter_frozen"): "unknown"}
    assert play.board.snapshot().status == "unknown"
    idle: Change = lambda one, _now: counting(one, receive_bytes=7, receive_packets=9)  # noqa: E731
    assert names(Play(ports=ports).run(1800, only(WHICH, idle))) == set()


def test_saturated_counters_are_one_line_unless_one_port_stands_out() -> None:
    everywhere = [port(n, saturated=("excessive_buffer_overrun_errors",)) for n in range(8)]
    assert severities(Play(ports=everywhere).run(60, steady)) == {("node", "counters_saturated"): "info"}
    everywhere[5] = replace(everywhere[5], saturated=("excessive_buffer_overrun_errors", "link_downed"))
    assert severities(Play(ports=everywhere).run(60, steady)) == {
        ("node", "counters_saturated"): "info",
        (WHICH, "counter_saturated"): "degraded",
    }


def test_a_network_namespace_that_hides_the_counters_is_one_finding() -> None:
    bare = [port(n, counters={}) for n in range(8)]
    play = Play(ports=bare)
    play.now = 5.0
    assert severities(play.poll(bare)) == {("node", "counters_hidden"): "unknown"}


def test_what_can_not_be_read_is_unknown_and_a_refusal_is_not_there() -> None:
    play = Play()
    refused = Fault("infiniband", WHICH, "einval", "counters/x")
    broken = Fault("infiniband", WHICH, "eio", "ports/1/state")
    shown: tuple[Shown, ...] = ()
    for _ in range(8):
        play.now += 5
        shown = play.poll(play.ports, (refused,))
    assert names(shown) == set()
    for _ in range(4):
        play.now += 5
        shown = play.poll(play.ports, (broken,))
    assert severities(shown) == {(WHICH, "unreadable"): "unknown"}


def test_a_device_that_is_no_longer_chosen_is_not_missing() -> None:
    play = Play(settings=Settings(chosen=lambda name: name != "mlx5_5"))
    play.run(60, steady)
    play.ports = [one for one in play.ports if one.subject != WHICH]
    assert names(play.run(300, steady)) == set()
