"""A node polled once: what the commands that look for themselves show."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from exporter.acks import Acks
from exporter.build import build_node, judgement, origin
from exporter.clock import Clock
from exporter.config import Config
from exporter.hardware.scenarios import END
from exporter.hardware.simulated import EPOCH
from exporter.node import Node
from exporter.release import Release
from exporter.signals import held, scratch
from exporter.sources import Machine, Simulated
from exporter.state import State

FIRST = ("gpu",)
"""Checks whose names for things the others show."""


@dataclass(slots=True)
class ReplayClock:
    """A scenario's own time, moved by hand."""

    elapsed: float = 0.0

    def clock(self) -> Clock:
        """The same time as a Clock."""
        return Clock(wall=lambda: EPOCH + self.elapsed, monotonic=lambda: self.elapsed)


def polled_once(config: Config, scenario: str | None, watch: float = 0.0) -> Node:
    """A node after one round of its checks, and another after `watch` seconds where that is not 0.

    A simulated one after the scenario's whole history.
    """
    if scenario is None:
        state = State(config.paths.state, origin=origin(config))
        machine = Machine(Release(config.paths.state))
        verdict = judgement(config, Acks(config.paths.state), patient=False)
        try:
            node = build_node(config, machine.open(config), state, Clock(), verdict)
            _round(node)
            if watch:
                time.sleep(watch)
                _round(node)
        finally:
            state.close()
            machine.let_go()
        return node
    replay = ReplayClock()
    with held() as told, scratch("eastwest-") as root:
        sources = Simulated(scenario, root, lambda: replay.elapsed)
        clock = replay.clock()
        state = State(None, clock=clock)
        node = build_node(config, sources.open(config), state, clock, judgement(config, Acks(None)))
        for moment, names in _turns(node):
            told.check()
            replay.elapsed = moment
            node.turn(names)
        told.check()
    return node


def _round(node: Node) -> None:
    """Every check once."""
    node.turn([name for name in node.plans if name in FIRST])
    node.turn([name for name in node.plans if name not in FIRST])


def _turns(node: Node) -> Iterator[tuple[float, list[str]]]:
    """When which checks are due, from the beginning of a scenario to its end."""
    due: dict[float, list[str]] = {}
    for name, plan in node.plans.items():
        interval = plan.timing.interval
        for count in range(int(END // interval) + 1):
            due.setdefault(END - count * interval, []).append(name)
    yield from sorted(due.items())
