"""Run one check, once, and post its outcome. The only place that catches whatever a check raises."""

import logging

from exporter.board import Board, Outcome, Status
from exporter.checks.base import Check, Report
from exporter.clock import Clock
from exporter.model import Fault, SourceError, Unavailable

log = logging.getLogger(__name__)


def run_check(name: str, check: Check, board: Board, clock: Clock, required: bool) -> None:
    """Run `check` and post what it says; `required` makes absent hardware a failure.

    The caller has called `board.begin(name)`.
    """
    began = clock.monotonic()
    report, message = Report(), ""
    status: Status = "ok"
    try:
        report = check.run(began)
    except Unavailable as absent:
        status, message = ("failed" if required else "absent"), str(absent)
    except SourceError as error:
        status, message = "failed", str(error)
        report = Report(faults=(Fault(name, "node", error.reason, str(error)),))
    except Exception as bug:
        status, message = "failed", f"a bug in this check: {type(bug).__name__}: {bug}"
        log.exception("check=%s: a bug, please report it", name)
    now = clock.monotonic()
    board.post(Outcome(name, status, report, now, clock.wall(), now - began, message))
