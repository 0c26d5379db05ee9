"""The process that measures: one for each probe, started as `python -m` with the Spec as its argument.

It alone loads an engine, and it is small: what it imports is memory beside a measurement. It never outlives the daemon
by more than a moment: its standard input closes, the kernel sends SIGTERM, and what it started is killed with it.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from exporter.probes.control import Aborted, Control, TimedOut, stop_on_signals
from exporter.probes.protocol import Failed, Refused, Spec, event, read_spec

PR_SET_PDEATHSIG = 1
ENGINES: Mapping[str, str] = {
    "nccl": "exporter.probes.engines.nccl",
    "rdma": "exporter.probes.engines.rdma",
}
"""The module of each; its `measure(spec, control)` measures, or raises Refused, Failed."""


def main() -> int:
    """Measure what the argument says, once."""
    try:
        spec = read_spec(sys.argv[1])
        module = ENGINES[spec.engine]
    except (IndexError, KeyError, TypeError, ValueError):
        sys.stderr.write("usage: python -m exporter.probes.worker SPEC\n")
        return 2
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signalled = stop_on_signals()
    # What a library prints would garble the events.
    out = os.dup(1)
    os.dup2(2, 1)
    control = Control(out, (0, signalled), spec.deadlines)
    try:
        control.enter("start")
        ending = _ending(import_module(module).measure, spec, control)
    except Aborted:
        return 3
    control.say(ending)
    return 0


def _ending(measure: Callable[[Spec, Control], None], spec: Spec, control: Control) -> bytes:
    """The last event: how it ended."""
    try:
        measure(spec, control)
    except Refused as refused:
        return event("end", result="refused", reason=refused.reason, message=str(refused))
    except Failed as failed:
        return event("end", result="error", reason=failed.reason, message=str(failed))
    except TimedOut:
        seconds = control.deadlines.of(control.phase)
        return event(
            "end",
            result="timeout",
            reason=f"{control.phase}_timeout",
            message=f"{control.phase} took longer than {seconds:g} s",
        )
    return event("end", result="ok", reason="", message="")


if __name__ == "__main__":
    sys.exit(main())
