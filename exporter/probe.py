"""`eastwest probe`: measure now, by hand or as a scheduler's hook; or want no probes for a while."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import NoReturn

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
from exporter.output import write_out
from exporter.probes import pause as pauses
from exporter.probes.assemble import hook_job
from exporter.probes.hints import hint
from exporter.probes.journal import Record
from exporter.probes.launch import Stop
from exporter.probes.leave import DEADLINE
from exporter.probes.prober import Prober, Round
from exporter.probes.protocol import PHASES, Phase, Scope, Spec
from exporter.quantities import duration
from exporter.release import Release
from exporter.sources import Machine
from exporter.state import State

HOOK_RESERVE = 3.0
"""Seconds before a hook's deadline at which a probe is aborted, for its worker to be gone in time."""
GRACE = 0.5
"""Seconds past its deadline at which a hook ends, whatever still hangs."""
OK, SLOW, ERROR = 0, 1, 2
SHOWN_PAIRS = 5
log = logging.getLogger(__name__)


def by_hand(path: Path | None, scope: Scope, engine: str | None) -> int:
    """Measure, with progress; 0 measured or not (it says why), 1 slow, 2 error, as usual where a signal ended it."""
    config = load(path)
    set_up("error", config.log.format)
    if engine is not None:
        config = config.model_copy(update={"probes": config.probes.model_copy(update={"engines": (engine,)})})
    with _prober(config) as prober, _stop() as (stop, told), _bar() as (bar, task):

        def progress(spec: Spec, phase: Phase) -> None:
            nics = " > ".join(nic.subject for nic in spec.nics)
            bar.update(task, completed=PHASES.index(phase), description=f"{spec.engine} {nics or spec.scope}: {phase}")

        done = prober.round(stop, (scope,), by_hand=True, progress=progress)
    text, status = outcome(done)
    write_out(text)
    return 128 + told[0] if told else status


def hook(path: Path | None, deadline: str) -> int:
    """Measure if due and free, within a deadline that holds whatever hangs. Its caller ends well if this raises."""
    began = time.monotonic() - _age()
    try:
        seconds = duration(deadline)
    except ValueError as error:
        raise UserError(f"--deadline: {error} (got {deadline!r})") from error
    _timer(began + seconds + GRACE, _give_up, deadline)
    config = load(path)
    set_up(config.log.level, config.log.format)
    if not config.probes.enabled:
        write_out(f"probes are off ({f'probes.enabled in {path}' if path else 'no --config was given'})\n")
        return OK
    with _prober(config, hook_job(), seconds) as prober, _stop() as (stop, _):
        until = began + seconds - HOOK_RESERVE
        timer = _timer(until, stop.set, DEADLINE)
        done = prober.round(stop, until=until)
        timer.cancel()
        write_out(outcome(done)[0])
    return OK


def _timer(at: float, what: Callable[[str], object], word: str) -> Timer:
    timer = Timer(max(0.0, at - time.monotonic()), what, (word,))
    timer.daemon = True
    timer.start()
    return timer


def _give_up(deadline: str) -> NoReturn:
    """The last resort: something hangs that has no deadline of its own. A worker notices that we are gone, and ends."""
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"eastwest: not done within {deadline}, given up\n".encode())
    os._exit(OK)


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
    folder = load(path).paths.state
    until = pauses.pause(folder, seconds, time.time())
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(until))
    # a daemon with another folder does not see it: so say which one it was
    whose = f"for daemons and hooks whose paths.state is {folder}" + ("" if path else " (no --config was given)")
    write_out(f"no probes until {when}, {whose}\n" if seconds else f"probes may run again, {whose}\n")
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
def _stop() -> Iterator[tuple[Stop, list[int]]]:
    """A stop that SIGTERM and SIGINT tell, so that a probe ends in good order, and the signal that did. A second one
    ends us as it would have.
    """
    stop, told = Stop(), list[int]()
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT) if main}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def tell(number: int, _frame: object) -> None:
        restore()  # before the stop, whose lock a second signal must not meet
        told.append(number)
        stop.set(signal.Signals(number).name)

    for number in before:
        signal.signal(number, tell)
    try:
        yield stop, told
    finally:
        restore()
        stop.close()


@contextmanager
def _bar() -> Iterator[tuple[Progress, TaskID]]:
    """On a terminal only, and gone after."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar, bar.add_task("is this node free?", total=len(PHASES))


def outcome(done: Round) -> tuple[str, int]:
    """What to say of a round, and its exit status."""
    said = [line for record in done.records for line in lines(record)]
    if done.unkept:
        said.append(f"not kept, so that later probes know nothing of it: {done.unkept}")
    said += [f"not measured: {refusal}" for refusal in done.refusals]
    measured = [record for record in done.records if record["result"] == "ok"]
    if not done.refusals and all(record["result"] == "refused" for record in done.records):
        said.append("nothing was measured")
    text = "".join(f"{line}\n" for line in said)
    if any(record["result"] in ("error", "timeout") for record in done.records):
        return text, ERROR
    slow = any((flow.get("ratio") or 1.0) < MIN_RATIO for record in measured for flow in record["flows"])
    return text, SLOW if slow else OK


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
