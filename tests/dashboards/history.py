"""The past of simulated nodes, as OpenMetrics text for `promtool tsdb create-blocks-from`.

The values come from the real checks over the simulated hardware, stepped through the scenario's own time: hours of
a fleet in seconds, the same every time.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from exporter.build import build_node
from exporter.clock import Clock
from exporter.config import Config
from exporter.exposition import Exposition
from exporter.sources import Simulated
from exporter.state import State

JOB = "eastwest"
ALERTING = {"flapping": "EastwestPortFlapping", "slow-port": "EastwestPortSlow"}
ALERT = 'ALERTS{{alertname="{}",alertstate="firing",severity="critical"}}'
"""What Prometheus would say of a firing rule, for these scenarios; the rules are tested on their own."""
_OWN_NODE = "eastwest_node_info{node="


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the fleet. `silent_for` is how many seconds before the end its daemon stopped to answer."""

    name: str
    scenario: str
    checks: Mapping[str, object]
    silent_for: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` (Unix seconds) on, `seconds` long, a scrape every `step`."""

    start: float
    seconds: float
    step: float = 15.0

    @property
    def end(self) -> float:
        """The time of the last scrape."""
        return self.start + self.seconds

    def times(self) -> Iterator[float]:
        """When it is scraped."""
        yield from (self.start + count * self.step for count in range(int(self.seconds // self.step) + 1))


def member(scenario: str, name: str = "", silent_for: float = 0.0, **checks: object) -> Member:
    """A node with a scenario's hardware, called after it; `checks` are settings that differ from the defaults."""
    return Member(name or scenario, scenario, checks, silent_for)


def write(out: TextIO, members: Iterable[Member], span: Span) -> None:
    """All series of all members over the span."""
    for each in members:
        _write_member(out, each, span)
    out.write("# EOF\n")


def _write_member(out: TextIO, each: Member, span: Span) -> None:
    target = f'job="{JOB}",instance="{each.name}:10428",node="{each.name}"'
    quick = {"infiniband": {"timeout": "200ms"}} if each.scenario == "hang" else {}
    config = Config.model_validate({"node": {"name": each.name}, "checks": {**quick, **each.checks}})
    now = [span.start]
    clock = Clock(wall=lambda: now[0], monotonic=lambda: now[0] - span.start)
    with tempfile.TemporaryDirectory(prefix="eastwest-") as root:
        hardware = Simulated(each.scenario, Path(root), lambda: now[0] - span.start).open(config)
        node = build_node(config, hardware, State(None), clock)
        exposition = Exposition(each.name, "", process=True)
        for moment in span.times():
            now[0] = moment
            silent = moment > span.end - each.silent_for
            out.write(f"up{{{target}}} {int(not silent)} {moment:.3f}\n")
            if silent:
                continue
            node.turn(node.plans)
            text = exposition.render(node.board.snapshot()).decode()
            lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
            samples = [(head, value) for head, _, value in lines]
            if each.scenario in ALERTING:
                samples.append((ALERT.format(ALERTING[each.scenario]), "1"))
            out.writelines(f"{_with(head, target)} {value} {moment:.3f}\n" for head, value in samples)


def _with(head: str, target: str) -> str:
    """The series as Prometheus stores it: with the target's labels, which win over its own."""
    if head.startswith(_OWN_NODE):
        head = head.replace("{node=", "{exported_node=")
    return f"{head[:-1]},{target}}}" if head.endswith("}") else f"{head}{{{target}}}"
