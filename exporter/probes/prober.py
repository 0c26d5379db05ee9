"""Probes of one node: when they are due, whether they may run, what they gave. Runs them in the thread that asks."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exporter.hardware.gpu_load import GpuLoad
from exporter.judge.trials import MIN_RATIO
from exporter.model import Ports, SourceError, Unavailable
from exporter.probes import evidence, jobs
from exporter.probes.gate import Limits, Permission, Refusal, allowed
from exporter.probes.journal import Journal, Lock, Record
from exporter.probes.launch import Stop, interrupts_held, measure
from exporter.probes.leave import STOPPED, Leave
from exporter.probes.pause import Pause
from exporter.probes.protocol import Algorithm, Deadlines, Nic, Outcome, Phase, Scope, Spec
from exporter.probes.record import make_record, make_trial, shown_flow, spent
from exporter.probes.survey import Survey, Watch
from exporter.probes.totals import Tally, Totals
from exporter.rails import Assignment, Subject
from exporter.windows import Window

BY_HAND = frozenset({"paused", "locked", "stuck"})
"""The limits that an operator who asks for a probe now is held to."""
ALWAYS = float("inf")
"""Every pair of GPUs is measured."""
NOT_HERE: Mapping[str, str] = {"tcp": "it measures between nodes, nothing inside one"}
Assign = Callable[[Ports], Mapping[Subject, Assignment]]


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's wishes."""

    enabled: bool = False
    engines: tuple[str, ...] = ("nccl", "rdma", "tcp")
    size: int = 64 << 20
    limits: Limits = Limits()  # noqa: RUF009 - frozen
    quiet: tuple[Window, ...] = ()
    deadlines: Deadlines = Deadlines()  # noqa: RUF009 - frozen
    algorithm: Algorithm = "ring"


@dataclass(frozen=True, slots=True)
class Means:
    """What a prober works with. `others` are the subjects of the findings of weight, not of the probes themselves, that
    are open: nothing is learnt then.

    `launch` is launch.measure, `wall` Unix time.
    """

    survey: Survey
    witness: evidence.Witness
    assign: Assign
    state: Path | None
    sysfs: str = "/sys"
    others: Callable[[], Sequence[str]] = tuple
    launch: Callable[..., Outcome] = measure
    wall: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic
    lock: Callable[[], Lock] = Lock


@dataclass(frozen=True, slots=True)
class Round:
    """What became of one round: the results, in order, and what was against a probe.

    `unkept` is why a result was not kept, '' where all were.
    """

    records: tuple[Record, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    unkept: str = ""


class Prober:
    """One round at a time; see Schedule for the daemon's."""

    def __init__(self, settings: Settings, means: Means, journal: Journal) -> None:
        self.settings = settings
        self.means = means
        self.journal = journal
        self.totals = Totals(means.state)
        self._pause = Pause(means.state)
        self._stuck = 0
        self._first = 0

    @property
    def tally(self) -> Tally:
        """What all probes of this node have cost."""
        return self.totals.tally

    def round(  # noqa: PLR0913 - what a hook, a hand and the schedule each want differently
        self,
        stop: Stop,
        scopes: Sequence[Scope] = ("intra", "loopback"),
        by_hand: bool = False,
        progress: Callable[[Spec, Phase], None] = lambda *_: None,
        told: Callable[[Record], None] = lambda _: None,
        until: float | None = None,
    ) -> Round:
        """Measure what there is to measure, while nothing is against it and `until` (by means.clock) has not come."""
        lock = self.means.lock()
        taken = lock.take()
        try:
            self.journal.refresh()
            against = [
                refusal
                for refusal in allowed(self._permission(taken, until is not None), self.settings.limits)
                if not by_hand or refusal.reason in BY_HAND
            ]
            if against:
                return self._skip(against, taken)
            done = self._measure(stop, scopes, by_hand, progress, told, until, lock)
            launched = any(record["result"] != "refused" for record in done.records)
            return replace(done, unkept=self.journal.unkept if launched else "")
        finally:
            self.means.survey.load.close()
            lock.give()

    def _measure(  # noqa: PLR0913 - as round; each return another reason to end
        self,
        stop: Stop,
        scopes: Sequence[Scope],
        by_hand: bool,
        progress: Callable[[Spec, Phase], None],
        told: Callable[[Record], None],
        until: float | None,
        lock: Lock,
    ) -> Round:
        leave = Leave(self.settings, self.means, stop, until, by_hand, self._pause)
        if against := leave.refused():
            return self._skip(against)
        records: list[Record] = []
        wishes = list(self._jobs(scopes, by_hand, leave.situation.gpus))
        # what the budget cut off the last time comes first: where setting up is slow it would never come
        first, self._first = min(self._first, len(wishes)), 0
        for position, wanted in enumerate(wishes[first:] + wishes[:first]):
            for engine in self.settings.engines:
                spec = replace(wanted, engine=engine)
                if ended := leave.ended():
                    return Round(tuple(records), tuple(ended))
                if not by_hand and (over := self._over_budget()):
                    self._first = (first + position) % len(wishes)
                    return Round(tuple(records), over)
                if against := leave.refused() or self._begin(spec, by_hand):
                    return Round(tuple(records), self._skip(against).refusals)
                with interrupts_held(stop):
                    record = self._one(spec, stop, progress, lock, leave.unwanted)
                records.append(record)
                told(record)
                if record["preempted"] or self._stuck:
                    return Round(tuple(records))
                if record["result"] != "refused":
                    break
        return Round(tuple(records))

    def _skip(self, against: Sequence[Refusal], locked: bool = True) -> Round:
        counted = Counter({refusal.reason for refusal in against} - {STOPPED})
        self.totals.add(Tally(skipped=counted), locked)
        return Round(refusals=tuple(against))

    def _over_budget(self) -> tuple[Refusal, ...]:
        limits = replace(self.settings.limits, min_gap=0.0)
        seconds, moved = self.journal.used(self.means.wall())
        return tuple(allowed(Permission(seconds_used=seconds, bytes_used=moved), limits))

    def _permission(self, taken: bool, once: bool) -> Permission:
        """`once`: this process ends with the round, so that its memory is no journal."""
        now = self.means.wall()
        seconds, moved = self.journal.used(now)
        return Permission(
            self.journal.since_last(now),
            seconds,
            moved,
            paused=self._pause.holds(now),
            why_paused=self._pause.trouble,
            unusable=self.journal.trouble or ("there is no state folder" if once and self.means.state is None else ""),
            quiet=any(window.holds(now) for window in self.settings.quiet),
            locked=not taken,
            stuck=self._stuck,
        )

    def _jobs(self, scopes: Sequence[Scope], by_hand: bool, gpus: Sequence[GpuLoad] | None) -> Iterator[Spec]:
        settings = self.settings
        if "intra" in scopes:
            wanted = jobs.intra(settings.size, gpus, ALWAYS, settings.deadlines, settings.algorithm)
            each = [jobs.usual(replace(wanted, engine=engine), self.journal.expected) for engine in settings.engines]
            known = next(filter(None, each), 0.0)
            first_pair = jobs.key("intra", "nccl", settings.size, "gpu0", "gpu1", settings.algorithm)
            # while what is usual is learnt, that of the pairs is too: later it tells which of them is slow
            learning = self.journal.expected(first_pair) is None and not self.means.others()
            yield replace(wanted, slow_below=ALWAYS if learning else MIN_RATIO * known)
        turn = int(self.means.wall() // max(settings.limits.min_gap, 1.0))
        if "loopback" in scopes:
            pairs: list[jobs.Pair | None] = [*jobs.pairs(self._nics(gpus), turn)]
            for pair in pairs or ([None] if by_hand else []):
                yield jobs.loopback(settings.size, pair, self.means.sysfs, settings.deadlines)
        if "latency" in scopes:
            for one in (None, *jobs.pairs(self._nics(gpus), turn)):
                yield jobs.latency(one, gpus, self.means.sysfs, settings.deadlines)

    def _nics(self, gpus: Sequence[GpuLoad] | None) -> Sequence[Nic]:
        try:
            reading = self.means.survey.ports.read()
        except (Unavailable, SourceError):
            return ()
        return jobs.nics(reading.ports, self.means.assign(reading), gpus)

    def _begin(self, spec: Spec, by_hand: bool) -> Sequence[Refusal]:
        """Note that a probe is launched. Where that can't be kept the next hook would not know of it: nothing is
        measured then, but by hand.
        """
        why = "" if spec.engine in NOT_HERE else self.journal.begin(self.means.wall())
        return [Refusal("journal_unusable", why)] if why and not by_hand else []

    def _one(
        self,
        spec: Spec,
        stop: Stop,
        progress: Callable[[Spec, Phase], None],
        lock: Lock,
        unwanted: Callable[[], Sequence[Refusal]],
    ) -> Record:
        """One probe, watched, with what happened beside it; kept if it was launched in earnest."""
        if spec.engine in NOT_HERE:
            outcome = Outcome(spec, "refused", "not_for_this", NOT_HERE[spec.engine], began=self.means.wall())
            return make_record(outcome, {}, (), None, self.means.wall())
        before = self.means.witness.read()
        watch = Watch(self.means.survey, stop, unwanted)
        found: Refusal | None = None
        try:
            outcome = self.means.launch(
                spec, stop, lambda phase: progress(spec, phase), keep=lock.descriptors, started=watch.follow
            )
        finally:
            found = watch.end()
        self._stuck = outcome.left
        sent, after = outcome.bytes, self.means.witness.read()
        beside = evidence.between(before, after)
        beside["gpudirect_module"] = self.means.witness.gpudirect()
        outcome = self._checked(outcome, before, after)
        if found is not None:
            outcome = replace(
                outcome, result="aborted", reason=found.reason, message=f"work appeared: {found}", flows=()
            )
        flows, learn, ran = self._flows(outcome)
        others = self.means.others()
        record = make_record(outcome, beside, flows, found, self.means.wall(), others, sent)
        # the lock is ours while it runs
        self.totals.add(spent(record), locked=True)
        if record["result"] == "refused":
            self.journal.withdraw()
        else:
            good = record["result"] == "ok"
            self.journal.add(record, learn if good and not others else {}, make_trial(record), ran if good else {})
        return record

    def _checked(self, outcome: Outcome, before: evidence.Reading, after: evidence.Reading) -> Outcome:
        """An error and no result: GPUs connected worse than usual; a loopback that its own ports have not seen."""
        if outcome.result != "ok":
            return outcome
        if why := jobs.fell_back(outcome.spec, outcome.flows, self.journal.expected):
            return replace(outcome, result="error", reason="wrong_transport", message=why, flows=())
        if outcome.spec.scope != "loopback":
            return outcome
        inside = evidence.stayed_inside(before, after, outcome.flows)
        if not inside:
            return outcome
        message = f"{', '.join(inside)} did not count what was sent: it never left the machine"
        return replace(outcome, result="error", reason="not_on_the_wire", message=message, flows=())

    def _flows(self, outcome: Outcome) -> tuple[tuple[dict[str, Any], ...], Mapping[str, float], Mapping[str, float]]:
        """The flows for people and metrics, what may be learnt of them (values that are not slow), and all values."""
        rails = {nic.subject: nic.rail for nic in outcome.spec.nics}
        shown, learn, slow = [], {}, False
        unknown: dict[str, float] = {}
        ran: dict[str, float] = {}
        for flow in outcome.flows:
            key = jobs.key_of(outcome.spec, flow)
            expected = self.journal.expected(key) if flow.kind != "latency" else None
            shown.append(shown_flow(flow, rails, expected, self.journal.recent(key)))
            if flow.kind == "latency":
                continue
            ran[key] = flow.bandwidth
            if expected is None:
                unknown[key] = flow.bandwidth
            elif flow.bandwidth >= MIN_RATIO * expected:
                learn[key] = flow.bandwidth
            else:
                slow = True
        # a slow run does not teach what is usual of links that nothing is known of yet: they may be why it is slow
        learn |= {} if slow else unknown
        return tuple(shown), learn, ran
