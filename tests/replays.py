"""Scenarios replayed once for all tests, in processes of their own: a replay is 15 minutes of polling a whole node."""

import os
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

from exporter import __version__
from exporter.config import Config
from exporter.exposition import Exposition
from exporter.page import Page
from exporter.polled import polled_once
from exporter.verdict import document

WORKERS = 2
CHECKS = ("gpu", "host", "infiniband", "nvlink", "roce")
PATIENT = Config.model_validate({"checks": {name: {"timeout": "60s"} for name in CHECKS}})
"""A machine that stands still for some seconds, as busy ones do, must not change what a replay says."""
QUICK = Config.model_validate({"checks": {"infiniband": {"timeout": "2s"}}})
"""The `hang` scenario is waited for until its deadline."""


class Shown(NamedTuple):
    """What a scenario's node shows at its end: both formats, without the version, the page, and the verdict."""

    text: str
    openmetrics: str
    page: str
    health: dict[str, Any]


def replay(scenario: str) -> Shown:
    """What `eastwest metrics --simulate` prints, and the page of the same node."""
    snapshot = polled_once(QUICK if scenario == "hang" else PATIENT, scenario).board.snapshot()
    exposition = Exposition("simulated", "", process=False)
    text, openmetrics = (
        exposition.render(snapshot, of).decode().replace(f'version="{__version__}"', 'version="VERSION"')
        for of in (False, True)
    )
    return Shown(text, openmetrics, Page("simulated").render(snapshot).decode(), document(snapshot, "simulated"))


class Replays:
    """The scenarios' ends; each is worked out when it is first wanted."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self._found: dict[str, Future[Shown]] = {}

    def want(self, scenarios: Iterable[str]) -> None:
        """Begin with these, in this order."""
        for scenario in scenarios:
            if scenario not in self._found:
                self._found[scenario] = self._pool.submit(replay, scenario)

    def __getitem__(self, scenario: str) -> Shown:
        self.want([scenario])
        return self._found[scenario].result()


def pool() -> ProcessPoolExecutor:
    """Processes that share nothing with this one, so that the order of a set differs from one to the other.

    They give way to it: other tests have deadlines.
    """
    return ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"), initializer=os.nice, initargs=(10,))
