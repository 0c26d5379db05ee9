"""The daemon's probes: asked every few seconds whether one is due, they run it in a thread of their own."""

import json
import logging
import random
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import Any

from exporter.checks.base import Keeper, Report
from exporter.judge.probes import ProbeScene, judge_probes
from exporter.probes.figures import costs, samples
from exporter.probes.launch import Stop
from exporter.probes.prober import Prober, Round

NAME = "probes"
JITTER = 0.1
"""Share of min_gap by which a probe is late at random, so that a fleet that was started at once does not stay so."""
RETRY_SECONDS = 60.0
STOP_SECONDS = 3.5
"""An aborted probe takes 1 s, and 1 s more to be looked after; the daemon has 5 s to end."""
log = logging.getLogger(__name__)


class ScheduledProbes:
    """A check like the others, that reads no hardware itself: `run` begins a round if one is due, and shows results.

    `draw` gives a random number from 0 to 1; `keeper` keeps since when this node is to be probed.
    """

    def __init__(self, prober: Prober, draw: Callable[[], float] = random.random, keeper: Keeper | None = None) -> None:
        self._prober = prober
        self._draw = draw
        self._lock = Lock()
        self._thread: Thread | None = None
        self._stop: Stop | None = None
        self._ended = False
        self._said = ""
        self._next = self._first()
        self._keeper = keeper
        self._since = prober.means.wall()
        self._against = ""
        if keeper is not None:
            keeper.recall(NAME, self._load)
            keeper.keep(NAME, lambda _: {"since": self._since}, urgent=False)

    def run(self, now: float) -> Report:  # noqa: ARG002 - due by the wall clock, which outlives a restart
        """See checks.base.Check."""
        prober = self._prober
        if prober.means.wall() >= self._next:
            self._begin()
        prober.journal.refresh()
        prober.totals.refresh()
        records = prober.journal.records(prober.means.wall())
        findings = tuple(judge_probes(self._scene()))
        return Report((*costs(prober.tally), *samples(records)), findings=findings)

    def document(self) -> bytes:
        """`/api/v1/probes`: results of the last 24 h, newest first."""
        prober = self._prober
        prober.journal.refresh()
        records = prober.journal.records(prober.means.wall())
        content: Mapping[str, Any] = {"enabled": True, "next": self._next, "probes": list(reversed(records))}
        return json.dumps(content, allow_nan=False).encode()

    def inherit(self, before: "ScheduledProbes") -> None:
        """Go on where the probes of an earlier configuration, stopped by now, left off."""
        self._prober.totals.inherit(before._prober.totals)  # noqa: SLF001 - another object of this class
        self._next = min(self._next, before._next)  # noqa: SLF001 - as above
        self._against = before._against  # noqa: SLF001 - as above

    def abort(self, reason: str) -> None:
        """Abort what runs and begin nothing more; waits for nothing."""
        with self._lock:
            self._ended = True
            if self._stop is not None:
                self._stop.set(reason)

    def stop(self, reason: str = "daemon_stops") -> None:
        """As abort, and wait for the worker's end."""
        self.abort(reason)
        thread = self._thread
        if thread is not None:
            thread.join(STOP_SECONDS)

    def _first(self) -> float:
        """A node that never probed begins at a random moment of its first min_gap, an overdue one soon."""
        now, gap = self._prober.means.wall(), self._prober.settings.limits.min_gap
        since = self._prober.journal.since_last(now)
        if since is None:
            return now + self._draw() * gap
        return now + max(0.0, gap - since) + self._draw() * JITTER * gap

    def _load(self, content: Mapping[str, Any], _now: float, _to_wall: float, _same_boot: bool) -> None:
        self._since = min(self._since, float(content["since"]))

    def _scene(self) -> ProbeScene:
        """Due is what has not been measured for min_gap: a probe that failed or gave way measured nothing."""
        prober, now = self._prober, self._prober.means.wall()
        trials, gap = prober.journal.trials, prober.settings.limits.min_gap
        measured = max((trial.time for trial in trials if trial.result == "ok"), default=self._since)
        return ProbeScene(now, trials, gap, min(measured, now) + gap, self._against)

    def _begin(self) -> None:
        with self._lock:
            if self._ended or self._thread is not None:
                return
            self._stop = Stop()
            self._thread = Thread(target=self._work, args=(self._stop,), name="probe", daemon=True)
            self._thread.start()

    def _work(self, stop: Stop) -> None:
        try:
            done = self._prober.round(stop, told=lambda record: log.info("%s", one_line(record)))
            self._plan(done)
        except Exception:
            log.exception("a bug in the probes, please report it")
            self._next = self._prober.means.wall() + self._prober.settings.limits.min_gap
        finally:
            with self._lock:
                self._thread, self._stop = None, None
            stop.close()

    def _plan(self, done: Round) -> None:
        """The next: after min_gap and a little, or, where something was against it, soon."""
        now, gap = self._prober.means.wall(), self._prober.settings.limits.min_gap
        against = ", ".join(sorted({refusal.reason for refusal in done.refusals}))
        if against and not done.records:
            self._next = now + min(RETRY_SECONDS, gap / 2) * (0.5 + self._draw())
            if against != self._said:
                log.info("a probe is due and waits: %s", "; ".join(str(refusal) for refusal in done.refusals))
        else:
            self._next = now + gap * (1 + JITTER * self._draw())
        self._said = against
        self._against = against or ", ".join(sorted({record["reason"] for record in done.records if record["reason"]}))


def one_line(record: Mapping[str, Any]) -> str:
    """A result for the log."""
    head = f"probe scope={record['scope']} engine={record['engine']} result={record['result']}"
    if record["result"] != "ok":
        return f"{head} reason={record['reason']}: {record['message']}"
    shown = [flow for flow in record["flows"] if "bytes_per_second" in flow]
    return f"{head} " + " ".join(
        f"{flow['source'] or 'gpus'}>{flow['target'] or 'gpus'}={flow['bytes_per_second'] / 1e9:.1f}GB/s"
        for flow in shown[:4]
    )
