"""Findings over time: when one is raised, how long it stays, what it silences, and the verdict. Pure.

A check says at each run what it finds. A finding is raised once it has lasted `delay` of its reason, and cleared
once it has been gone for `hold`, so that a value at its threshold does not come and go. Of several findings with
one cause only the cause is shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from exporter.model import Finding, Severity
from exporter.reasons import REASONS

Key = tuple[str, str, str]
"""Check, subject, reason."""
_RANK = {Severity.INFO: 0, Severity.DEGRADED: 1, Severity.UNKNOWN: 2, Severity.CRITICAL: 3}
_STATUS = {0: "ok", 1: "degraded", 2: "unknown", 3: "critical"}
STATUSES = ("ok", "degraded", "critical", "unknown")
GONE = frozenset({"port_down", "port_missing", "gpu_lost"})
"""What is gone has no other fault worth telling."""
GONE_TOGETHER = frozenset({"ports_down", "ports_missing"})
"""The same, of the subjects that the evidence lists as `ports`."""
SILENCES: Mapping[str, frozenset[str]] = {
    "port_flapping": frozenset({"link_went_down", "symbol_errors", "receive_errors", "link_recoveries", "bit_errors"}),
    "symbol_errors": frozenset({"receive_errors", "link_recoveries", "link_integrity_errors", "bit_errors"}),
    "bit_errors": frozenset({"receive_errors", "link_integrity_errors"}),
    "pause_storm": frozenset({"congestion", "transmit_discards"}),
    "width_reduced": frozenset({"probe_loopback_slow"}),
    "speed_reduced": frozenset({"probe_loopback_slow"}),
    "rate_low": frozenset({"probe_loopback_slow"}),
    "pcie_downgraded": frozenset({"probe_loopback_slow"}),
    "fabric_incomplete": frozenset(
        {"fabric_unhealthy", "nvlinks_inactive", "xid_error", "nvlink_errors", "probe_pair_slow"}
    ),
    "fabric_unhealthy": frozenset({"nvlinks_inactive", "xid_error", "probe_pair_slow"}),
    "nvlinks_inactive": frozenset({"xid_error", "nvlink_errors", "nvlink_bit_errors", "probe_pair_slow"}),
    "nvlink_errors": frozenset({"xid_error", "nvlink_bit_errors"}),
}
"""A reason and those that are its consequences, on the same device."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A finding that is watched: since when (monotonic seconds), when it was last found, and whether it is raised."""

    finding: Finding
    since: float
    seen: float
    raised: bool


@dataclass(frozen=True, slots=True)
class Ack:
    """An operator knows of what concerns a subject, until Unix time `until`."""

    subject: str
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Shown:
    """A raised finding as people see it; `since` is Unix time, `ack` the operator's word on it."""

    finding: Finding
    since: float
    ack: Ack | None = None


def fold(
    standing: Mapping[Key, Standing], check: str, findings: Iterable[Finding], now: float, patient: bool = True
) -> Mapping[Key, Standing]:
    """One run of a check later. Without patience (a single look) every finding is raised at once."""
    found = {(finding.check, finding.subject, finding.reason): finding for finding in findings}
    mine = {key: known for key, known in standing.items() if key[0] == check}
    if not found and not mine:
        return standing
    folded = {key: known for key, known in standing.items() if key[0] != check}
    for key, finding in found.items():
        known = mine.get(key)
        since = known.since if known else now
        raised = (known is not None and known.raised) or not patient or now - since >= REASONS[finding.reason].delay
        folded[key] = Standing(finding, since, now, raised)
    held = {
        key: known
        for key, known in mine.items()
        if key not in found and known.raised and now - known.seen < REASONS[key[2]].hold
    }
    return folded | held


def shown(
    standing: Iterable[Standing], to_wall: float, acks: Sequence[Ack] = (), cap: Severity | None = None
) -> tuple[Shown, ...]:
    """What is raised and not silenced by its cause, worst first. `to_wall` + monotonic is Unix time."""
    causes = [known for known in _unsilenced(list(standing)) if known.raised]
    found = [
        Shown(replace(known.finding, severity=_capped(known.finding.severity, cap)), known.since + to_wall)
        for known in causes
    ]
    told = [_acknowledged(one, acks) for one in found]
    return tuple(sorted(told, key=lambda one: (-_RANK[one.finding.severity], one.finding.subject, one.finding.reason)))


def status(findings: Iterable[Shown], all_ran: bool) -> str:
    """The verdict: critical > unknown > degraded > ok; info never counts. Unknown before every check has run."""
    worst = max((_RANK[one.finding.severity] for one in findings), default=0)
    return _STATUS[worst if all_ran else max(worst, _RANK[Severity.UNKNOWN])]


def troubled(findings: Iterable[Finding], check: str) -> tuple[str, ...]:
    """The subjects of findings of weight, other than those of one check."""
    return tuple(sorted({one.subject for one in findings if one.severity is not Severity.INFO and one.check != check}))


def _unsilenced(watched: Sequence[Standing]) -> list[Standing]:
    """Those that are no other's consequence; a cause that waits for its delay keeps its consequences waiting too."""
    gone = {_device(known.finding.subject) for known in watched if known.finding.reason in GONE}
    together = {
        _device(str(subject))
        for known in watched
        if known.finding.reason in GONE_TOGETHER
        for subject in _listed(known.finding.evidence.get("ports"))
    }
    consequences = {
        (_device(known.finding.subject), reason)
        for known in watched
        for reason in SILENCES.get(known.finding.reason, ())
    }
    return [
        known
        for known in watched
        if not (
            (known.finding.reason not in GONE and _device(known.finding.subject) in gone)
            or _device(known.finding.subject) in together
            or (_device(known.finding.subject), known.finding.reason) in consequences
        )
    ]


def _listed(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _device(subject: str) -> str:
    return subject.partition("/")[0]


def _capped(severity: Severity, cap: Severity | None) -> Severity:
    """A first week's mercy: nothing above the cap. What is unknown stays so."""
    return cap if cap is not None and severity is not Severity.UNKNOWN and _RANK[severity] > _RANK[cap] else severity


def _acknowledged(one: Shown, acks: Sequence[Ack]) -> Shown:
    """What somebody knows of is information, whatever it was."""
    subject = one.finding.subject
    known = next((ack for ack in acks if subject == ack.subject or subject.startswith(f"{ack.subject}/")), None)
    if known is None:
        return one
    return Shown(replace(one.finding, severity=Severity.INFO), one.since, known)


def dump(standing: Mapping[Key, Standing], to_wall: float) -> dict[str, Any]:
    """What is raised, fit for JSON, times in Unix seconds."""
    return {
        "raised": [
            {
                "check": known.finding.check,
                "subject": known.finding.subject,
                "severity": known.finding.severity.value,
                "reason": known.finding.reason,
                "message": known.finding.message,
                "since": round(known.since + to_wall, 1),
            }
            for known in standing.values()
            if known.raised
        ]
    }


def load(content: Mapping[str, Any], now: float, to_wall: float) -> Mapping[Key, Standing]:
    """What an earlier process had raised. Raises ValueError and kin where the content is not that.

    It stands as if it had been found just now: the next run of its check says whether it still holds.
    """
    found = {}
    for entry in content["raised"]:
        finding = Finding(
            str(entry["check"]),
            str(entry["subject"]),
            Severity(entry["severity"]),
            str(entry["reason"]),
            str(entry["message"]),
        )
        if finding.reason in REASONS:
            since = min(now, float(entry["since"]) - to_wall)
            found[finding.check, finding.subject, finding.reason] = Standing(finding, since, now, raised=True)
    return found
