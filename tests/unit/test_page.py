"""What people read: the slow port first, the unknown as unknown, and no name that could be markup."""

import json
from dataclasses import replace

import pytest

from exporter.board import CheckView, Outcome, Snapshot, Timing
from exporter.checks.base import LinkRow, Report
from exporter.health import Ack, Shown
from exporter.model import Finding, Severity
from exporter.page import Page, bits, node_json, percent, seconds
from tests.replays import Replays

LINK = LinkRow(
    "mlx5_0/1", "compute", "0", "ACTIVE", 50e9, 50e9, 25e9, 10e9, 0.5, (("symbol_errors", 3),), (), {"leaf": "leaf-1"}
)


def snapshot(*links: LinkRow, running: float | None = None) -> Snapshot:
    outcome = Outcome("infiniband", "ok", Report(links=lambda: links), 10.0, 1e9, 0.5)
    view = CheckView("infiniband", Timing(5, 5), outcome, outcome, running)
    return Snapshot(1e9, 11.0, (view,), {}, reload_successful=True)


def test_hostile_names_stay_text() -> None:
    bad = "<script>alert('x')</script>"
    page = Page(bad).render(snapshot(replace(LINK, subject=bad, notes=(bad,), facts={"netdev": bad}))).decode()
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 5


def test_a_port_of_which_nothing_is_known_has_a_row() -> None:
    assert "mlx5_0/1" in Page("n").render(snapshot(replace(LINK, facts={}))).decode()


def test_unknown_is_never_shown_as_a_number() -> None:
    unknown = replace(
        LINK, state="unknown", rate=None, expected=None, receive=None, transmit=None, utilisation=None, moved=()
    )
    page = Page("n").render(snapshot(unknown)).decode()
    assert "<b>unknown</b>" in page
    assert page.count("–</td>") >= 3
    assert "0 bit/s" not in page


def test_a_slow_port_is_the_first_thing_said(replays: Replays) -> None:
    page = replays["slow-port"].page
    head = page[page.index("<h1>") : page.index("<h2>Ports")]
    assert head.index("critical") < head.index("mlx5_5/1") < head.index("rail 3")
    assert "runs at 100 Gbit/s (1X NDR), 25% of the 400 Gbit/s" in head


def test_findings_are_text_whatever_they_hold() -> None:
    evil = "<script>alert(1)</script>"
    finding = Finding("infiniband", evil, Severity.CRITICAL, "port_down", evil, {"rail": 3, evil: (evil, evil)})
    shown = Shown(finding, 1e9 - 5, Ack(evil, evil, 2e9))
    page = Page("n").render(replace(snapshot(), findings=(shown,))).decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 5


def test_a_check_that_hangs_and_a_node_without_ports_are_said() -> None:
    assert "hangs for 12 s" in Page("n").render(snapshot(running=12.0)).decode()
    assert "no InfiniBand, RoCE or EFA device" in Page("n").render(snapshot()).decode()


def test_node_json_has_rails_leaves_and_null_for_the_unknown() -> None:
    other = replace(LINK, subject="mlx5_9/1", role="storage", rail="", rate=None, facts={"leaf": "leaf-s"})
    content = json.loads(node_json(snapshot(other, LINK), "gpu-3", {"rack": "r1"}))
    assert (content["node"], content["labels"], content["rails"]) == ("gpu-3", {"rack": "r1"}, {"0": "mlx5_0/1"})
    assert content["leaves"] == {"0": "leaf-1"}
    assert [(port["subject"], port["rail"], port["rate_bytes_per_second"]) for port in content["ports"]] == [
        ("mlx5_0/1", 0, 50e9),
        ("mlx5_9/1", None, None),
    ]


@pytest.mark.parametrize(
    ("rate", "text"),
    [(50e9, "400 Gbit/s"), (0.0, "0 bit/s"), (125.0, "1 kbit/s"), (None, "–"), (2e11, "1.6 Tbit/s")],
)
def test_rates_as_people_say_them(rate: float | None, text: str) -> None:
    assert bits(rate) == text


def test_shares_and_ages() -> None:
    assert [percent(ratio) for ratio in (None, 0.0, 0.004, 0.5, 1.2)] == ["–", "0 %", "<1 %", "50 %", "120 %"]
    assert [seconds(age) for age in (None, 3.2, 119.0, 600.0)] == ["never", "3 s ago", "119 s ago", "10 min ago"]
