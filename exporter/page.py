"""What people read: the page at `/`, and the node as JSON. From a snapshot; escapes everything."""

import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from exporter import __version__
from exporter.board import Snapshot
from exporter.checks.base import LinkRow
from exporter.health import Shown
from exporter.judge.base import duration
from exporter.reasons import REASONS
from exporter.verdict import check_state, moment

UNKNOWN = "–"
_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def bits(rate: float | None) -> str:
    """A rate in bytes/s as people speak of links: `400 Gbit/s`."""
    if rate is None:
        return UNKNOWN
    amount = rate * 8
    for size, prefix in _SIZES:
        if amount >= size:
            return f"{amount / size:.3g} {prefix}bit/s"
    return f"{amount:.3g} bit/s"


def percent(ratio: float | None) -> str:
    """A ratio as `37 %`; never more exact than it is."""
    return UNKNOWN if ratio is None else f"{ratio:.0%}".replace("%", " %") if ratio >= 0.01 or ratio == 0 else "<1 %"


def seconds(age: float | None) -> str:
    """An age as `3 s ago`."""
    return "never" if age is None else f"{age:.0f} s ago" if age < 120 else f"{age / 60:.0f} min ago"


def slow(link: LinkRow) -> bool:
    """Whether the link runs below what is expected of it."""
    return link.rate is not None and link.expected is not None and link.rate < link.expected


class Page:
    """Renders the page; `node` is this node's name."""

    def __init__(self, node: str) -> None:
        self._node = node
        environment = Environment(
            loader=PackageLoader("exporter"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        environment.filters.update(bits=bits, percent=percent, ago=seconds)
        self._template = environment.get_template("page.html")

    def render(self, snapshot: Snapshot) -> bytes:
        """The page as HTML."""
        checks = [
            {
                "name": view.name,
                "state": check_state(view),
                "bad": not view.success and view.ran,
                "age": None if view.outcome is None else snapshot.monotonic - view.outcome.finished,
                "message": view.outcome.message if view.outcome else "",
            }
            for view in snapshot.checks
        ]
        links = _links(snapshot)
        findings = [_finding(one, snapshot.wall) for one in snapshot.findings]
        return self._template.render(
            node=self._node,
            version=__version__,
            status=snapshot.status,
            findings=findings,
            links=links,
            slow=slow,
            checks=checks,
            errors=sorted(snapshot.source_errors.items()),
        ).encode()


def _finding(one: Shown, now: float) -> dict[str, Any]:
    """A finding, in the words of the page."""
    finding, ack = one.finding, one.ack
    until = "" if ack is None else moment(ack.until) + (f": {ack.reason}" if ack.reason else "")
    evidence = [(key, _value(value)) for key, value in finding.evidence.items() if key != "rail" and value is not None]
    return {
        "severity": finding.severity.value,
        "subject": finding.subject,
        "rail": finding.evidence.get("rail"),
        "message": finding.message,
        "next": REASONS[finding.reason].action,
        "acknowledged": until,
        "check": finding.check,
        "reason": finding.reason,
        "evidence": evidence,
        "since": moment(one.since),
        "age": duration(max(0.0, now - one.since)),
    }


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def node_json(snapshot: Snapshot, node: str, labels: dict[str, str]) -> bytes:
    """`/api/v1/node`: identity, rails, leaves, versions; rates in bytes/s, null where unknown."""
    ports = [
        {
            **link.facts,
            "subject": link.subject,
            "role": link.role,
            "rail": int(link.rail) if link.rail else None,
            "state": link.state,
            "rate_bytes_per_second": link.rate,
            "expected_rate_bytes_per_second": link.expected,
            "notes": list(link.notes),
        }
        for link in _links(snapshot)
    ]
    rails = {str(port["rail"]): port["subject"] for port in ports if port["rail"] is not None}
    leaves = {str(port["rail"]): leaf for port in ports if port["rail"] is not None and (leaf := port.get("leaf"))}
    content: dict[str, Any] = {
        "node": node,
        "labels": labels,
        "version": __version__,
        "rails": dict(sorted(rails.items(), key=lambda rail: int(rail[0]))),
        "leaves": leaves,
        "ports": ports,
        "checks": {
            view.name: {"state": check_state(view), "success": view.success if view.ran else None}
            for view in snapshot.checks
        },
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def _links(snapshot: Snapshot) -> list[LinkRow]:
    """Every link, compute rails first, in the order of rails."""
    links = [link for report in snapshot.reports() for link in report.links()]
    return sorted(links, key=lambda link: (link.rail == "", int(link.rail or 0), link.role, link.subject))
