"""A node's verdict and findings: as JSON for `/api/v1/health` and `check --format json`, and as a colleague's words."""

import textwrap
import time
from collections.abc import Mapping
from typing import Any

from exporter.board import CheckView, Snapshot
from exporter.health import Shown
from exporter.judge.base import duration
from exporter.reasons import REASONS

WIDTH = 110
INDENT = " " * 12


def document(snapshot: Snapshot, node: str) -> dict[str, Any]:
    """`{node, status, findings, checks, acknowledgements}`; times in Unix seconds, evidence in base units."""
    return {
        "node": node,
        "status": snapshot.status,
        "findings": [_finding(one) for one in snapshot.findings],
        "checks": {view.name: _check(view) for view in snapshot.checks},
        "acknowledgements": [
            {"subject": ack.subject, "reason": ack.reason, "until": round(ack.until, 3)} for ack in snapshot.acks
        ],
        "time": round(snapshot.wall, 3),
    }


def _finding(one: Shown) -> dict[str, Any]:
    finding = one.finding
    return {
        "check": finding.check,
        "subject": finding.subject,
        "severity": finding.severity.value,
        "reason": finding.reason,
        "message": finding.message,
        "since": round(one.since, 3),
        "evidence": {
            key: list(value) if isinstance(value, tuple) else value for key, value in finding.evidence.items()
        },
        "next": REASONS[finding.reason].action,
        "acknowledged": None if one.ack is None else {"reason": one.ack.reason, "until": round(one.ack.until, 3)},
    }


def check_state(view: CheckView) -> str:
    """One check in a word or two."""
    if view.overdue:
        return f"hangs for {view.running:.0f} s"
    if view.outcome is None:
        return "first run"
    return {"ok": "ok", "absent": "nothing there", "failed": "failed"}[view.outcome.status]


def _check(view: CheckView) -> dict[str, Any]:
    return {
        "state": check_state(view),
        "success": view.success if view.ran else None,
        "seen": view.good.report.seen if view.good and view.success else "",
        "message": view.outcome.message if view.outcome else "",
    }


def text(health: Mapping[str, Any], asked: str = "") -> str:
    """The same for people: what is wrong first, each with its evidence and what to do next; at the end who said so."""
    findings = health["findings"]
    counted = [one for one in findings if one["severity"] != "info"]
    if counted:
        summary = f"{len(counted)} finding{'s' if len(counted) > 1 else ''} to look at."
    elif health["status"] == "unknown":
        summary = "Not every check has answered yet."
    else:
        summary = "No finding to look at."
    lines = [f"{health['node']}: {health['status'].upper()}. {summary}"]
    lines += [line for one in findings for line in ("", *_lines(one, health["time"]))]
    lines += ["", *textwrap.wrap(_looked_at(health["checks"]), WIDTH), *([asked] if asked else [])]
    return "\n".join(lines) + "\n"


def _lines(one: Mapping[str, Any], now: float) -> list[str]:
    rail = one["evidence"].get("rail")
    subject = one["subject"] + (f" (rail {rail})" if rail is not None else "")
    told = (
        f"{subject} {one['message']}."
        if one["subject"] != "node"
        else f"{one['message'][:1].upper()}{one['message'][1:]}."
    )
    age = max(0.0, now - one["since"])
    since = f"Since {moment(one['since'])} ({duration(age)})."
    severity = one["severity"].upper() if one["severity"] != "info" else "info"
    if ack := one["acknowledged"]:
        since += f" Acknowledged until {moment(ack['until'])}" + (f": {ack['reason']}." if ack["reason"] else ".")
    return [
        *textwrap.wrap(f"{severity:<10}{told}", WIDTH, initial_indent="  ", subsequent_indent=INDENT),
        *_wrapped(since),
        *(_wrapped(f"Next: {one['next']}") if one["severity"] != "info" else ()),
        *_wrapped(f"[{one['reason']}]"),
    ]


def moment(wall: float) -> str:
    """Unix time as the clock on the wall shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall))


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)


def _looked_at(checks: Mapping[str, Any]) -> str:
    seen = [check["seen"] for check in checks.values() if check["seen"]]
    absent = [name for name, check in checks.items() if check["state"] == "nothing there"]
    silent = [name for name, check in checks.items() if check["state"] not in ("ok", "nothing there")]
    told = [f"Looked at: {', '.join(seen)}."] if seen else [] if silent else ["No port and no GPU was seen here."]
    told += [f"No answer from: {', '.join(silent)}."] if silent else []
    return " ".join([*told, *([f"Nothing there for: {', '.join(absent)}."] if absent else [])])
