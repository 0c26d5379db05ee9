"""`eastwest probe`: measure now, by hand or as a scheduler's hook; or want no probes for a while."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from exporter.build import PROBES, build_prober, origin
from exporter.config import Config, load
from exporter.health import Standing, troubled
from exporter.health import load as load_findings
from exporter.judge.trials import MIN_RATIO
from exporter.logs import set_up
from exporter.model import UserError
from exporter.node import FINDINGS
from exporter.probes import pause as pauses
from exporter.probes.assemble import hook_job
from exporter.probes.hints import hint
from exporter.probes.journal import Record
from exporter.probes.launch import Stop
from exporter.probes.prober import Prober, Round
from exporter.probes.protocol import PHASES, Phase, Scope, Spec
from exporter.quantities import duration
from exporter.release import Release
from exporter.sources import Machine
from exporter.state import State

HOOK_RESERVE = 3.0
"""Seconds before a hook's deadline at which a probe is aborted, for its worker to be gone in time."""
OK, SLOW, ERROR = 0, 1, 2
SHOWN_PAIRS = 5
log = logging.getLogger(__name__)


def by_hand(path: Path | None, scope: Scope, engine: str | None) -> int:
    """Measure, with progress; 0 measured or not (it says why), 1 slow, 2 error."""
    config = load(path)
    set_up("error", config.log.format)
    if engine is not None:
        config = config.model_copy(update={"probes": config.probes.model_copy(update={"engines": (engine,)})})
    with _prober(config) as prober, _stop() as stop, _bar() as (bar, task):

        def progress(spec: Spec, phase: Phase) -> None:
            nics = " > ".join(nic.subject for nic in spec.nics)
            bar.update(task, completed=PHASES.index(phase), description=f"{spec.engine} {nics or spec.scope}: {phase}")

        done = prober.round(stop, (scope,), by_hand=True, progress=progress)
    return _shown(done)


def hook(path: Path | None, deadline: str) -> int:
    """Measure if due and free, within a deadline. Always 0: a hook that fails drains the node."""
    try:
        began = time.monotonic() - _age()
        seconds = duration(deadline)
        config = load(path)
        set_up(config.log.level, config.log.format)
        if not config.probes.enabled:
            print("probes are off (probes.enabled)")
            return OK
        with _prober(config, hook_job(), seconds) as prober, _stop() as stop:
            until = began + seconds - HOOK_RESERVE
            timer = Timer(max(0.0, until - time.monotonic()), stop.set, ("deadline",))
            timer.daemon = True
            timer.start()
            done = prober.round(stop, until=until)
            timer.cancel()
        _shown(done)
    except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on
        print(f"eastwest: {error}", file=sys.stderr)
    return OK


def _age() -> float:
    """Seconds since this process was started: a scheduler counts from there, not from the end of our imports."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def pause(path: Path | None, length: str) -> int:
    """Want no probes of this node for a while."""
    try:
        seconds = duration(length)
    except ValueError as error:
        raise UserError(f"--for: {error} (got {length!r})") from error
    until = pauses.pause(load(path).paths.state, seconds, time.time())
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(until))
    print(f"no probes until {when}" if seconds else "probes may run again")
    return OK


@contextmanager
def _prober(config: Config, job: str = "", seconds: float | None = None) -> Iterator[Prober]:
    machine, state = Machine(Release(config.paths.state)), State(config.paths.state, origin=origin(config))
    try:
        yield build_prober(config, machine.open(config), state, job, seconds, lambda: others(state))
    finally:
        state.close()
        machine.let_go()


def others(state: State) -> Sequence[str]:
    """What the daemon has found of weight, as it last kept it: as probes.prober.Means has it."""
    standing: list[Standing] = []
    state.recall(
        FINDINGS, lambda content, now, to_wall, _: standing.extend(load_findings(content, now, to_wall).values())
    )
    return troubled((known.finding for known in standing), PROBES)


@contextmanager
def _stop() -> Iterator[Stop]:
    stop = Stop()
    try:
        yield stop
    finally:
        stop.close()


@contextmanager
def _bar() -> Iterator[tuple[Progress, TaskID]]:
    """On a terminal only, and gone after."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task("is this node free?", total=len(PHASES))


def _shown(done: Round) -> int:
    """Print a round; the exit status."""
    for record in done.records:
        for line in lines(record):
            print(line)
    if done.unkept:
        print(f"not kept, so that later probes know nothing of it: {done.unkept}")
    for refusal in done.refusals:
        print(f"not measured: {refusal}")
    measured = [record for record in done.records if record["result"] == "ok"]
    if not done.refusals and all(record["result"] == "refused" for record in done.records):
        print("nothing was measured")
    if any(record["result"] in ("error", "timeout") for record in done.records):
        return ERROR
    slow = any((flow.get("ratio") or 1.0) < MIN_RATIO for record in measured for flow in record["flows"])
    return SLOW if slow else OK


def lines(record: Record) -> Iterator[str]:
    """One result, for people."""
    engine, result = record["engine"], record["result"]
    if result == "refused":
        yield f"{engine}: can't run here ({record['reason']}): {record['message']}"
        return
    if result != "ok":
        yield f"{engine}: {result} in {record['phase']} ({record['reason']}): {record['message']}"
        return
    facts = ", ".join(f"{name} {value}" for name, value in record["facts"].items())
    yield f"{engine}: measured in {record['seconds']:.1f} s ({facts})"
    pairs = sorted((flow for flow in record["flows"] if _of_gpus(flow)), key=lambda flow: flow["bytes_per_second"])
    for flow in [flow for flow in record["flows"] if not _of_gpus(flow)] + pairs[:SHOWN_PAIRS]:
        yield "  " + "  ".join(_words(record, flow))
    if len(pairs) > SHOWN_PAIRS:
        middle = pairs[len(pairs) // 2]["bytes_per_second"]
        yield f"  ... the slowest of {len(pairs)} pairs of GPUs; half of them give at least {_gb(middle)} GB/s"
    if known := hint(record):
        yield f"  {known}"


def _of_gpus(flow: Record) -> bool:
    """Whether it is one of the pairs of GPUs."""
    return bool(flow["kind"] == "sendrecv" and flow["source"].startswith("gpu"))


def _words(record: Record, flow: Record) -> Iterator[str]:
    where = f"{flow['source']} > {flow['target']}" if flow["source"] else f"{record['facts'].get('ranks', '')} GPUs"
    yield f"{where} {flow['kind']}"
    if flow["kind"] == "latency":
        yield f"{flow['latency'] * 1e6:.1f} us"
        return
    yield f"{_gb(flow['bytes_per_second'])} GB/s = {flow['bytes_per_second'] * 8 / 1e9:.0f} Gbit/s"
    yield f"(batches {_gb(flow['slowest'])} to {_gb(flow['fastest'])})"
    if flow["expected"] is None:
        yield "expected: not known yet"
    else:
        yield f"expected {_gb(flow['expected'])} GB/s ({flow['ratio']:.0%})" + (
            " SLOW" if flow["ratio"] < MIN_RATIO else ""
        )
    if flow["recent"]:
        yield "last " + _list(flow["recent"])
    yield f"by {flow['transport']}"


def _list(values: Sequence[float]) -> str:
    return " ".join(_gb(value) for value in values)


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f}"
