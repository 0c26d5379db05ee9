"""Findings over time: delay, hold, causes, acknowledgement, the cap, the verdict."""

import json
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.health import SILENCES, STATUSES, Ack, Key, Standing, dump, fold, load, shown, status
from exporter.model import Finding, Severity
from exporter.reasons import REASONS
from exporter.state import UNUSABLE

NONE: Mapping[Key, Standing] = {}


def finding(reason: str, subject: str = "mlx5_5/1", severity: Severity | None = None, **evidence: object) -> Finding:
    return Finding("infiniband", subject, severity or REASONS[reason].severity, reason, "is so", evidence)  # type: ignore[arg-type]


def reasons(standing: Mapping[Key, Standing], acks: tuple[Ack, ...] = (), cap: Severity | None = None) -> list[str]:
    return [one.finding.reason for one in shown(standing.values(), 1e9, acks, cap)]


def test_a_finding_is_raised_after_its_delay_and_cleared_after_its_hold() -> None:
    slow = finding("width_reduced")
    standing = fold(NONE, "infiniband", [slow], 100.0)
    assert reasons(standing) == []
    standing = fold(standing, "infiniband", [slow], 129.0)
    assert reasons(standing) == []
    standing = fold(standing, "infiniband", [slow], 130.0)
    (one,) = shown(standing.values(), 1e9)
    assert one.since == 1e9 + 100
    standing = fold(standing, "infiniband", [], 159.0)
    assert reasons(standing) == ["width_reduced"]
    standing = fold(standing, "infiniband", [], 160.0)
    assert standing == {}


def test_a_single_look_has_no_patience() -> None:
    assert reasons(fold(NONE, "infiniband", [finding("width_reduced")], 1.0, patient=False)) == ["width_reduced"]


def test_a_check_speaks_for_itself_alone() -> None:
    standing = fold(NONE, "infiniband", [finding("port_flapping")], 1.0)
    standing = fold(standing, "gpu", [], 5.0)
    assert reasons(standing) == ["port_flapping"]


@pytest.mark.parametrize("cause", SILENCES)
def test_a_cause_silences_its_consequences_on_its_device_only(cause: str) -> None:
    consequences = [finding(reason, "gpu1/link03" if "link" in reason else "gpu1") for reason in SILENCES[cause]]
    elsewhere = [finding(reason, "gpu2") for reason in SILENCES[cause]]
    standing = fold(NONE, "infiniband", [finding(cause, "gpu1"), *consequences, *elsewhere], 1.0, patient=False)
    found = {(one.finding.subject, one.finding.reason) for one in shown(standing.values(), 0.0)}
    silenced_too = {reason for other in SILENCES[cause] for reason in SILENCES.get(other, ())}
    assert {one for one in found if one[0].startswith("gpu1")} == {("gpu1", cause)}
    assert {reason for subject, reason in found if subject == "gpu2"} == SILENCES[cause] - silenced_too


def test_a_cause_that_waits_keeps_its_consequences_waiting() -> None:
    both = [finding("fabric_incomplete", "gpu6"), finding("nvlinks_inactive", "gpu6")]
    standing: Mapping[Key, Standing] = NONE
    for now in range(0, 290, 10):
        standing = fold(standing, "infiniband", both, float(now))
        assert reasons(standing) == []
    assert reasons(fold(standing, "infiniband", both, 300.0)) == ["fabric_incomplete"]


def test_what_is_down_together_silences_its_ports() -> None:
    down = finding("ports_down", "node", ports=("mlx5_5/1", "mlx5_6/1"))
    rest = [finding("symbol_errors"), finding("module_hot", "mlx5_6/1"), finding("symbol_errors", "mlx5_7/1")]
    standing = fold(NONE, "infiniband", [down, *rest], 1.0, patient=False)
    assert sorted(reasons(standing)) == ["ports_down", "symbol_errors"]


def test_what_is_acknowledged_is_information_and_expires() -> None:
    standing = fold(NONE, "infiniband", [finding("port_flapping")], 1.0)
    known = Ack("mlx5_5", "cable is ordered", 2e9)
    (one,) = shown(standing.values(), 1e9, (known,))
    assert (one.finding.severity, one.ack) == (Severity.INFO, known)
    assert status([one], all_ran=True) == "ok"
    (other,) = shown(standing.values(), 1e9, (Ack("mlx5_50", "", 2e9), Ack("mlx5", "", 2e9)))
    assert other.finding.severity is Severity.CRITICAL


def test_the_cap_leaves_the_unknown_unknown() -> None:
    standing = fold(NONE, "infiniband", [finding("port_flapping"), finding("counter_frozen", "mlx5_6/1")], 1.0)
    severities = [one.finding.severity for one in shown(standing.values(), 0.0, (), Severity.DEGRADED)]
    assert severities == [Severity.UNKNOWN, Severity.DEGRADED]


@pytest.mark.parametrize(
    ("severities", "verdict"),
    [
        ([], "ok"),
        ([Severity.INFO], "ok"),
        ([Severity.INFO, Severity.DEGRADED], "degraded"),
        ([Severity.DEGRADED, Severity.UNKNOWN], "unknown"),
        ([Severity.UNKNOWN, Severity.CRITICAL, Severity.DEGRADED], "critical"),
    ],
)
def test_the_verdict_is_the_worst(severities: list[Severity], verdict: str) -> None:
    found = [finding("congestion", f"mlx5_{n}/1", severity) for n, severity in enumerate(severities)]
    listed = shown(fold(NONE, "infiniband", found, 0.0, patient=False).values(), 0.0)
    assert status(listed, all_ran=True) == verdict
    assert verdict in STATUSES
    before = status(listed, all_ran=False)
    assert before == ("critical" if verdict == "critical" else "unknown")


def test_what_was_raised_is_so_after_a_restart_and_keeps_its_time() -> None:
    standing = fold(NONE, "infiniband", [finding("port_flapping"), finding("port_down", "mlx5_6/1")], 50.0)
    kept = json.loads(json.dumps(dump(standing, 1e9)))
    again = load(kept, 7.0, 1e9 + 100)
    assert [(key[1], one.since) for key, one in again.items()] == [("mlx5_5/1", -50.0)]
    assert reasons(fold(again, "infiniband", [], 8.0)) == ["port_flapping"], "its hold is half an hour"


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"raised": 1},
        {"raised": [{}]},
        {
            "raised": [
                {"check": "x", "subject": "y", "severity": "bad", "reason": "port_down", "message": "", "since": 0}
            ]
        },
        {"raised": [{"check": "x", "subject": "y", "severity": "info", "reason": "r", "message": "", "since": "z"}]},
    ],
)
def test_nonsense_is_refused_and_a_reason_of_another_version_left_out(content: Mapping[str, object]) -> None:
    with suppress(*UNUSABLE):
        assert load(content, 0.0, 0.0) == {}


@given(st.lists(st.tuples(st.sampled_from(sorted(REASONS)), st.booleans()), max_size=40))
def test_no_order_of_findings_raises_before_the_delay_or_loses_a_time(runs: list[tuple[str, bool]]) -> None:
    standing: Mapping[Key, Standing] = NONE
    for now, (reason, there) in enumerate(runs):
        standing = fold(standing, "infiniband", [finding(reason)] if there else [], float(now))
        for one in standing.values():
            assert one.since <= one.seen <= now
            assert not one.raised or one.seen - one.since >= REASONS[one.finding.reason].delay
