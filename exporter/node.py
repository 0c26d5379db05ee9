"""One node: its checks, run in turns. What the schedule starts and a one-shot command calls."""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread

from exporter.board import Board, CheckView, Judgement, Snapshot, Timing
from exporter.checks.base import Check, Keeper
from exporter.clock import Clock
from exporter.health import dump, load
from exporter.model import Fault, Severity
from exporter.runner import run_check

FINDINGS = "findings"
PAST_DEADLINE = 0.1
"""Seconds that a round waits beyond a deadline, so that a run which missed it is known to have."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """A check, how often and how long it may run, and whether its hardware must be there."""

    check: Check
    timing: Timing
    required: bool = False


class Node:
    """Runs each check on a thread of its own, so that one which hangs in a driver holds up nothing else.

    The threads are daemon threads: one that is stuck in the kernel does not keep the process from ending.
    """

    def __init__(
        self,
        plans: Mapping[str, Plan],
        clock: Clock,
        judgement: Judgement | None = None,
        keeper: Keeper | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        self.plans = plans
        self.board = Board({name: plan.timing for name, plan in plans.items()}, clock, judgement, elsewhere)
        self._clock = clock
        self._keeper = keeper
        # what a single look finds is what the command prints: said in the log as well, it would be noise in cron's mail
        self._aloud = judgement is None or judgement.patient
        self._telling = Lock()
        self._told: dict[tuple[str, str, str], Severity] = {}
        if keeper is not None:
            keeper.recall(
                FINDINGS, lambda content, now, to_wall, _same_boot: self.board.stand(load(content, now, to_wall))
            )
        self._threads: list[Thread] = []
        self._said: dict[str, frozenset[tuple[str, str]]] = {}
        self._failing: dict[str, str] = {}
        self._hanging: set[str] = set()
        self._speaking = Lock()

    def start(self, name: str) -> Event | None:
        """Begin a run of one check; None where its last run still goes on, else an event for its end."""
        if not self.board.begin(name):
            return None
        done = Event()
        thread = Thread(target=self._run, args=(name, done), name=f"check-{name}", daemon=True)
        thread.start()
        self._threads = [known for known in self._threads if known.is_alive()] + [thread]
        return done

    def turn(self, names: Iterable[str]) -> None:
        """One round of checks: begin all, then wait for each until its deadline."""
        began = time.monotonic()
        runs = [(self.start(name), self.plans[name].timing.timeout) for name in names]
        for done, timeout in runs:
            if done is not None:
                done.wait(max(0.0, began + timeout + PAST_DEADLINE - time.monotonic()))

    def inherit(self, before: "Node") -> None:
        """Go on where the node of an earlier configuration left off: counts, and what has been said."""
        self.board.inherit(before.board)
        self._said.update(before._said)  # noqa: SLF001 - another object of this class
        self._failing.update(before._failing)  # noqa: SLF001 - as above
        self._told.update(before._told)  # noqa: SLF001 - as above
        self._hanging |= before._hanging & self.plans.keys()  # noqa: SLF001 - as above

    def watch(self) -> None:
        """Log which runs are past their deadline, each once; to be called every second.

        A run that hangs for ever never ends, so that nothing else says so. It is over, in the log, with the first
        run that ends in time: a check that is late every time is said once.
        """
        with self._speaking:
            for view in self.board.snapshot().checks:
                if view.overdue and view.name not in self._hanging:
                    self._hanging.add(view.name)
                    log.warning("check=%s: no answer within its deadline of %g s", view.name, view.timing.timeout)

    def wait(self, seconds: float) -> bool:
        """Wait for the runs that go on, at most so long; whether all have ended."""
        deadline = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, name: str, done: Event) -> None:
        plan = self.plans[name]
        run_check(name, plan.check, self.board, self._clock, plan.required)
        snapshot = self.board.snapshot()
        self._say(next(view for view in snapshot.checks if view.name == name))
        self._tell(snapshot)
        done.set()

    def _tell(self, snapshot: Snapshot) -> None:
        """Log the findings that came and went, and keep them for the time after a restart."""
        with self._telling:
            now = {
                (one.finding.check, one.finding.subject, one.finding.reason): one.finding for one in snapshot.findings
            }
            if {key: finding.severity for key, finding in now.items()} == self._told:
                return
            for key, finding in now.items():
                if self._told.get(key) is not finding.severity:
                    log.log(
                        (logging.INFO if finding.severity is Severity.INFO else logging.WARNING)
                        if self._aloud
                        else logging.DEBUG,
                        "finding severity=%s subject=%s reason=%s: %s",
                        finding.severity,
                        finding.subject,
                        finding.reason,
                        finding.message,
                    )
            for _, subject, reason in sorted(self._told.keys() - now.keys()):
                log.info("finding over: subject=%s reason=%s", subject, reason)
            self._told = {key: finding.severity for key, finding in now.items()}
            if self._keeper is not None:
                standing = self.board.standing()
                self._keeper.keep(FINDINGS, lambda to_wall: dump(standing, to_wall), urgent=True)

    def _say(self, view: CheckView) -> None:
        """Log what changed since the last run, and only that: a fault that stays is said once."""
        outcome = view.outcome
        if outcome is None:
            return
        with self._speaking:
            if view.name in self._hanging and outcome.seconds <= view.timing.timeout:
                self._hanging.discard(view.name)
                log.info("check=%s: answers in time again", view.name)
        failing = outcome.message if outcome.status == "failed" else ""
        if failing != self._failing.get(view.name, ""):
            log.log(
                logging.WARNING if failing else logging.INFO,
                "check=%s: %s",
                view.name,
                failing or "works again",
            )
            self._failing[view.name] = failing
        faults: dict[tuple[str, str], list[Fault]] = {}
        for fault in outcome.report.faults:
            faults.setdefault((fault.subject, fault.reason), []).append(fault)
        before = self._said.get(view.name, frozenset())
        for subject, reason in sorted(faults.keys() - before):
            log.warning("check=%s %s", view.name, _describe(faults[subject, reason]))
        for subject, reason in sorted(before - faults.keys()):
            log.info("check=%s subject=%s reason=%s: no more (it answers, or is not asked)", view.name, subject, reason)
        self._said[view.name] = frozenset(faults)


def _describe(alike: list[Fault]) -> str:
    """The first of several faults of one subject and reason, and how many more there are."""
    first, more = alike[0], len(alike) - 1
    return f"subject={first.subject} reason={first.reason}: {first.detail}" + (f" (and {more} more)" if more else "")
