"""The last outcome of every check: the one thing that threads share."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal

from exporter.checks.base import Report
from exporter.clock import Clock
from exporter.health import Ack, Key, Shown, Standing, fold, shown, status
from exporter.judge.base import duration
from exporter.model import Finding, Severity
from exporter.reasons import REASONS

Status = Literal["ok", "absent", "failed"]


@dataclass(frozen=True, slots=True)
class Timing:
    """How a check is run, in seconds: past `timeout` a run counts as failed though it goes on."""

    interval: float
    timeout: float

    @property
    def lifetime(self) -> float:
        """How long samples are shown after the run that gave them."""
        return max(3 * self.interval, 60.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended: `absent` is no such hardware, `failed` a source that could not be read, or a bug.

    `finished` is monotonic, `finished_wall` Unix time, `seconds` how long the run took, `message` why it failed.
    """

    check: str
    status: Status
    report: Report
    finished: float
    finished_wall: float
    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check at the moment of a snapshot; `outcome` is None before its first run ended.

    `good` is the last outcome that was not a failure: what is shown until it is too old. `running` is seconds
    since a run began that has not ended, None while none runs. `failing_since` is monotonic.
    """

    name: str
    timing: Timing
    outcome: Outcome | None = None
    good: Outcome | None = None
    running: float | None = None
    overruns: int = 0
    failing_since: float | None = None

    @property
    def overdue(self) -> bool:
        """Whether a run is past its deadline."""
        return self.running is not None and self.running > self.timing.timeout

    @property
    def success(self) -> bool:
        """Whether the last run ended well and none is overdue."""
        return self.outcome is not None and self.outcome.status != "failed" and not self.overdue

    @property
    def ran(self) -> bool:
        """Whether the check has said anything yet, if only by missing its deadline."""
        return self.outcome is not None or self.overdue


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything there is to show, at one moment."""

    wall: float
    monotonic: float
    checks: tuple[CheckView, ...]
    source_errors: Mapping[tuple[str, str], int]
    reload_successful: bool
    findings: tuple[Shown, ...] = ()
    acks: tuple[Ack, ...] = ()

    @property
    def status(self) -> str:
        """The verdict: ok, degraded, critical or unknown."""
        return status(self.findings, all(view.ran for view in self.checks))

    def reports(self) -> tuple[Report, ...]:
        """The reports that are young enough to be shown."""
        return tuple(
            view.good.report
            for view in self.checks
            if view.good is not None and self.monotonic - view.good.finished <= view.timing.lifetime
        )


@dataclass(slots=True)
class _Entry:
    view: CheckView
    began: float | None = None


@dataclass(slots=True)
class _Shared:
    entries: dict[str, _Entry] = field(default_factory=dict)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    reload_successful: bool = True
    standing: Mapping[Key, Standing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How findings become a verdict: the operator's `cap` on severity, what is acknowledged, and patience.

    Without `patient` (one look and no more) a finding does not wait for its delay.
    """

    cap: Severity | None = None
    acks: Callable[[], tuple[Ack, ...]] = tuple
    patient: bool = True


class Board:
    """Posts come from the runs, snapshots go to the renderers; both are short, under one lock.

    `elsewhere` are checks that run in another process only, whose findings are shown here as it left them.
    """

    def __init__(
        self,
        timings: Mapping[str, Timing],
        clock: Clock,
        judgement: Judgement | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        self._clock = clock
        self._judgement = judgement or Judgement()
        self._lock = Lock()
        self._known = {*timings, *elsewhere}
        self._shared = _Shared({name: _Entry(CheckView(name, timing)) for name, timing in sorted(timings.items())})

    def begin(self, check: str) -> bool:
        """Note that a run begins; False, and an overrun counted, where the one before still goes on."""
        with self._lock:
            entry = self._shared.entries[check]
            if entry.began is not None:
                entry.view = replace(entry.view, overruns=entry.view.overruns + 1)
                return False
            entry.began = self._clock.monotonic()
            return True

    def post(self, outcome: Outcome) -> None:
        """Note how a run ended."""
        with self._lock:
            entry = self._shared.entries[outcome.check]
            entry.began = None
            good = entry.view.good if outcome.status == "failed" else outcome
            since = None if outcome.status != "failed" else entry.view.failing_since or outcome.finished
            entry.view = replace(entry.view, outcome=outcome, good=good, failing_since=since)
            if outcome.status != "failed":
                self._shared.standing = fold(
                    self._shared.standing,
                    outcome.check,
                    outcome.report.findings,
                    outcome.finished,
                    self._judgement.patient,
                )
            self._shared.errors.update((fault.source, fault.reason) for fault in outcome.report.faults)

    def inherit(self, before: "Board") -> None:
        """Go on counting where another board, of the same process, left off."""
        counted = before.snapshot()
        with self._lock:
            self._shared.errors.update(counted.source_errors)
            self._shared.reload_successful = counted.reload_successful
            self._shared.standing = {**self._shared.standing, **self._mine(before.standing())}
            for view in counted.checks:
                if (entry := self._shared.entries.get(view.name)) is not None:
                    entry.view = replace(entry.view, overruns=entry.view.overruns + view.overruns)

    def note_reload(self, successful: bool) -> None:
        """Note how the last reading of the configuration went."""
        with self._lock:
            self._shared.reload_successful = successful

    def standing(self) -> Mapping[Key, Standing]:
        """Every finding that is watched, raised or not."""
        with self._lock:
            return self._shared.standing

    def stand(self, standing: Mapping[Key, Standing]) -> None:
        """Take up the findings of an earlier process."""
        with self._lock:
            self._shared.standing = {**self._mine(standing), **self._shared.standing}

    def _mine(self, standing: Mapping[Key, Standing]) -> Mapping[Key, Standing]:
        """What nobody looks at any more, since its check was turned off, would stand for ever."""
        return {key: known for key, known in standing.items() if key[0] in self._known}

    def snapshot(self) -> Snapshot:
        """Everything, frozen."""
        acks = self._judgement.acks()
        with self._lock:
            now, wall = self._clock.monotonic(), self._clock.wall()
            views = tuple(
                replace(entry.view, running=None if entry.began is None else now - entry.began)
                for entry in self._shared.entries.values()
            )
            standing = dict(self._shared.standing)
            errors, reloaded = dict(self._shared.errors), self._shared.reload_successful
        current = [known for known in acks if known.until > wall]
        known = [*_fresh(standing, views, now), *_failing(views, now, self._judgement.patient)]
        found = shown(known, wall - now, current, self._judgement.cap)
        return Snapshot(wall, now, views, errors, reloaded, found, tuple(current))


def _fresh(standing: Mapping[Key, Standing], views: Iterable[CheckView], now: float) -> Iterator[Standing]:
    """The findings of checks that spoke not too long ago, or have not yet spoken."""
    old = {view.name for view in views if view.good is not None and now - view.good.finished > view.timing.lifetime}
    for key, known in standing.items():
        if key[0] not in old:
            yield known


def _failing(views: Iterable[CheckView], now: float, patient: bool) -> Iterator[Standing]:
    """A finding for each check that does not answer, once that has lasted: a machine may stand still for a moment."""
    delay = REASONS["check_failing"].delay if patient else 0.0
    for view in views:
        if view.ran and not view.success:
            failed = view.outcome is not None and view.outcome.status == "failed" and not view.overdue
            message = (
                view.outcome.message if failed and view.outcome else f"has hung for {duration(view.running or 0.0)}"
            )
            overdue = now - (view.running or 0.0) if view.overdue else now
            began = min(overdue, view.failing_since if view.failing_since is not None else now)
            finding = Finding(
                view.name,
                "node",
                Severity.UNKNOWN,
                "check_failing",
                f"check {view.name} does not answer, so nothing is known of what it watches: {message}",
                {"check": view.name},
            )
            yield Standing(finding, began, now, raised=now - began >= delay)
