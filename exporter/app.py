"""The daemon: one node, its schedule and its server, put together here. The only file that knows them all."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING

from exporter.acks import Acks
from exporter.answers import Answers, Shown
from exporter.build import PROBES, build_node, build_prober, judgement, node_name, origin
from exporter.clock import Clock
from exporter.config import Config, load
from exporter.exposition import Exposition
from exporter.hardware.base import Hardware
from exporter.hardware.scenarios import END, SCENARIOS
from exporter.hardware.simulated import elapsed_since
from exporter.health import troubled
from exporter.logs import set_up
from exporter.model import UserError
from exporter.node import Node
from exporter.notify import Notifier
from exporter.page import Page
from exporter.passwords import Passwords
from exporter.quantities import address
from exporter.release import DEFAULT as RELEASE_SECONDS
from exporter.release import Release
from exporter.schedule import Schedule
from exporter.server import Listener, listen, serve
from exporter.signals import Told, held, scratch
from exporter.sources import Machine, Simulated, Sources
from exporter.state import State
from exporter.web import Web

if TYPE_CHECKING:
    from exporter.probes.scheduled import ScheduledProbes

log = logging.getLogger(__name__)


class Daemon:
    """Runs the checks at their intervals and answers for them."""

    def __init__(  # noqa: PLR0913 - the one place where a daemon is put together
        self,
        path: Path | None,
        config: Config,
        scenario: str | None,
        sources: Sources,
        state: State,
        web: Web | None,
        release: Release,
        manager: Notifier,
    ) -> None:
        self._path = path
        self._manager = manager
        self._alive: Callable[[], object] = manager.alive
        self._web = web
        self._release = release
        self._releasing = Lock()
        self._scenario = scenario
        self._sources = sources
        self._reloading = Lock()
        self._state = state
        self._acks = Acks(config.paths.state if scenario is None else None)
        self._beat = time.monotonic()
        self._schedule = Schedule(self._turned)
        self._shown = self._build(config)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin the schedule; from now on the watchdog is fed, each time through the schedule's loop and `loop`."""
        self._alive = partial(loop.call_soon_threadsafe, self._manager.alive)
        self._use(self._shown)
        self._schedule.start()

    def stop(self) -> None:
        """Start nothing more, and give the driver and the state back."""
        self._schedule.stop()
        if self._shown.probes is not None:
            self._shown.probes.stop()
        self._sources.let_go()
        self._state.close()

    def end_probes(self) -> None:
        """Abort a probe, if one runs, while what else the daemon does comes to its end."""
        if self._shown.probes is not None:
            self._shown.probes.abort("daemon_stops")

    def release(self, seconds: float) -> None:
        """Let go of NVML for so long."""
        self._release.ask(seconds)
        Thread(target=self._let_go, name="release", daemon=True).start()

    def reload(self) -> None:
        """Read the configuration again; a bad one is said, in the log and a metric, and the old one kept."""
        with self._reloading:
            self._manager.reloading()
            try:
                self._reload(self._shown)
            finally:
                self._manager.ready("the configuration was read again")

    def _reload(self, before: Shown) -> None:
        try:
            config = load(self._path)
        except UserError as error:
            log.error("the new configuration is not used:\n%s", error)  # noqa: TRY400 - a user's mistake
            before.node.board.note_reload(successful=False)
            return
        if (config.web, config.paths.state) != (before.config.web, before.config.paths.state):
            log.warning("a change of web or paths.state needs a restart; the rest of the new configuration is used")
        self._schedule.replace({})
        if before.probes is not None:
            before.probes.stop("reload")
        if not before.node.wait(max(plan.timing.timeout for plan in before.node.plans.values())):
            self._sources.renew()
        shown = self._build(config)
        shown.node.inherit(before.node)
        if shown.probes is not None and before.probes is not None:
            shown.probes.inherit(before.probes)
        shown.node.board.note_reload(successful=True)
        shown.node.turn(shown.node.plans)
        self._use(shown)
        log.info("the new configuration is in use")

    def answers(self) -> Answers:
        """What it serves."""
        return Answers(lambda: self._shown, lambda: time.monotonic() - self._beat)

    def _build(self, config: Config) -> Shown:
        hardware = self._sources.open(config)
        verdict = judgement(config, self._acks)
        probes = self._make_probes(config, hardware)
        node = build_node(config, hardware, self._state, Clock(), verdict, probes)
        name, rack = node_name(config, self._scenario), config.node.labels.get("rack", "")
        return Shown(config, name, node, Exposition(name, rack, process=True), Page(name), probes)

    def _make_probes(self, config: Config, hardware: Hardware) -> "ScheduledProbes | None":
        """None where they are off, and on a simulated node: nothing of the machine is touched for it."""
        if not config.probes.enabled or self._scenario is not None:
            return None
        from exporter.probes.scheduled import ScheduledProbes  # noqa: PLC0415 - a node without probes pays for none

        prober = build_prober(config, hardware, self._state, others=self._others)
        return ScheduledProbes(prober, keeper=self._state)

    def _others(self) -> Sequence[str]:
        """What has a finding of weight: then what a probe gives is not what is usual. Not counting the probes' own
        findings, which would keep themselves alive.
        """
        return troubled((shown.finding for shown in self._shown.node.board.snapshot().findings), PROBES)

    def _use(self, shown: Shown) -> None:
        self._shown = shown
        self._schedule.replace(
            {
                name: (plan.timing.interval, partial(self._start, shown.node, name))
                for name, plan in shown.node.plans.items()
            }
        )

    @staticmethod
    def _start(node: Node, name: str) -> None:
        node.start(name)

    def _turned(self) -> None:
        self._beat = time.monotonic()
        with suppress(RuntimeError):  # the event loop is closed: the daemon ends
            self._alive()
        self._shown.node.watch()
        if self._web is not None:
            self._web.refresh()
        if self._release.unmet():
            Thread(target=self._let_go, name="release", daemon=True).start()

    def _let_go(self) -> None:
        """Close NVML and say so; tried every second until nothing holds it."""
        if not self._releasing.acquire(blocking=False):
            return
        try:
            if self._release.unmet() and self._sources.let_go():
                self._release.met()
                log.info("NVML is released")
        finally:
            self._releasing.release()


def run(path: Path | None, listen_on: str | None, scenario: str | None) -> int:
    """`eastwest serve`: until SIGTERM or SIGINT. Raises UserError for a bad configuration or address."""
    config = load(path)
    set_up(config.log.level, config.log.format)
    where = config.web.listen
    if listen_on is not None:
        try:
            where = address(listen_on)
        except ValueError as error:
            raise UserError(f"--listen: {error} (got {listen_on!r})") from error
    # Held from before the first folder is made until the last is gone: a second SIGTERM finds no default handler.
    with listen(where) as listener, held((signal.SIGTERM, signal.SIGINT)) as told:
        return _run(path, config, scenario, listener, told)


def _run(path: Path | None, config: Config, scenario: str | None, listener: Listener, told: Told) -> int:
    ending: list[str] = []
    web = Web(config.web.config_file) if config.web.config_file else None
    with ExitStack() as stack:
        sources: Sources
        release = Release(config.paths.state if scenario is None else None)
        if scenario is None:
            sources = Machine(release, partial(_give_up, ending))
            state = State(config.paths.state, create=True, origin=origin(config))
        else:
            root = stack.enter_context(scratch("eastwest-"))
            begins = SCENARIOS[scenario].begins if scenario in SCENARIOS else END
            sources = Simulated(scenario, root, elapsed_since(time.monotonic(), begins))
            state = State(None)
        manager = Notifier(os.environ)
        daemon = Daemon(path, config, scenario, sources, state, web, release, manager)
        asyncio.run(_until_told(daemon, listener, web, manager, told))
    return int(bool(ending))


def _give_up(ending: list[str], why: str) -> None:
    """End with status 1, so that whoever started this container makes it anew."""
    if not ending:
        ending.append(why)
        log.error("ending, for a new container to take over: %s", why)
        os.kill(os.getpid(), signal.SIGTERM)


async def _until_told(daemon: Daemon, listener: Listener, web: Web | None, manager: Notifier, told: Told) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def end() -> None:
        if not stop.is_set():
            manager.stopping()
            daemon.end_probes()
            stop.set()

    def reload() -> None:
        Thread(target=daemon.reload, name="reload", daemon=True).start()

    # Not by the loop's add_signal_handler: closing, it gives signals back to the system, which kills what tidies up.
    others: dict[signal.Signals, Callable[[], object]] = {
        signal.SIGHUP: reload,
        signal.SIGUSR1: partial(daemon.release, RELEASE_SECONDS),
    }
    for number, call in others.items():
        signal.signal(number, partial(_in_loop, loop, call))
    daemon.start(loop)
    told.then(partial(_in_loop, loop, end))
    host, port = listener.getsockname()[:2]
    tls = web.context if web else None
    shown = f"[{host}]" if ":" in host else host
    where = f"listening on {'https' if tls else 'http'}://{shown}:{port}"
    if not told.number:
        log.info("%s", where)
        manager.ready(where)
    admit = Passwords(lambda: web.users).status if web else None
    try:
        await serve(daemon.answers().routes(), listener, stop, tls, admit)
    finally:
        told.then(None)
        for number in others:
            signal.signal(number, signal.SIG_IGN)
        daemon.stop()


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], object], *_signal: object) -> None:
    """A signal's handler: it may run in the middle of any line, so all it does is have `call` called between two."""
    loop.call_soon_threadsafe(call)
