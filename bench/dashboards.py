"""How long the dashboards' queries take on a large fleet: `python -m bench.dashboards` (`make bench-dashboards`).

Each node is a copy of a simulated one: two scrapes of a scenario, 15 minutes apart, give every series its value and its
slope. To keep the text that promtool reads below a few gigabytes, all series of all nodes are there for the last
five minutes and a half at a scrape every 15 s (what instant queries read), and for three hours only what panels over
time read: all nodes' verdicts, and everything of the nodes in trouble, a scrape every 30 s.
"""

import argparse
import io
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.dashboards.history import Span, member, write
from tests.dashboards.promql import named
from tests.dashboards.server import prometheus_over
from tests.dashboards.viewer import Json, Viewer, dashboards, expressions, panels

BAR = 2.0
"""Seconds that a query may take."""
AGAIN = 4
"""Times that a late query is asked again; the fastest counts."""
HOURS = 3
LATELY = Span(0, 330, 15)
LONG = Span(0, HOURS * 3600, 30)
TROUBLED = (
    "slow-port",
    "flapping",
    "symbol-errors",
    "pfc-storm",
    "nvlink-down",
    "throttled",
    "pcie-downgrade",
    "gpu-lost",
)
COPIES = 3
"""Nodes with each of the troubles."""
OF_ONE_NODE = {"eastwest-nvlink", "eastwest-node"}


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a scenario's node, without the target's labels; `text` says its value where it does not move."""

    name: str
    labels: str
    value: float
    slope: float
    text: str


def main() -> int:
    """Print the slowest queries; 0 if all are under the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=512)
    nodes = parser.parse_args().nodes
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        print("skipped: prometheus and promtool are not installed")
        return 0
    logging.disable(logging.CRITICAL)
    end = time.time() // 60 * 60
    with tempfile.TemporaryDirectory(prefix="eastwest-") as folder:
        past = Path(folder) / "past.om"
        began = time.monotonic()
        with past.open("w") as file:
            samples = _fleet(file, nodes, end)
        print(
            f"{nodes} nodes, {samples / 1e6:.1f} million samples written in {time.monotonic() - began:.0f} s",
            flush=True,
        )
        with prometheus_over(past, Path(folder)) as server:
            past.unlink()
            print(f"put into Prometheus after {time.monotonic() - began:.0f} s", flush=True)
            took = sorted(_asked(Viewer(server, end - LONG.seconds, end, {"node": ""})), reverse=True)
    print("\n| query | s |\n|---|---|")
    for seconds, where in took[:12]:
        print(f"| {where} | {seconds:.2f} |")
    late = sum(seconds >= BAR for seconds, _ in took)
    print(f"\n{len(took)} queries, {late} of {BAR:.0f} s or more; median {took[len(took) // 2][0]:.3f} s")
    return int(late > 0)


def _asked(fleet: Viewer) -> Iterator[tuple[float, str]]:
    """Seconds of every query: as the dashboards begin, and those of one node with a node in trouble."""
    for uid, dashboard in dashboards().items():
        chosen = {"node": "slow-port-0"} if uid in OF_ONE_NODE else {}
        viewer = Viewer(fleet.server, fleet.start, fleet.end, chosen)
        values, found = viewer.variables(dashboard)
        for _ in range(AGAIN):
            found = {name: min(one, found[name]) for name, one in viewer.variables(dashboard)[1].items()}
        yield from ((seconds, f"{uid}: variable {name}") for name, (_, seconds) in found.items())
        for panel in panels(dashboard):
            for number, answer in enumerate(viewer.see(panel, values)):
                if answer.error:
                    raise SystemExit(f"{uid}: {panel['title']}: {answer.error}")
                again = answer.seconds if answer.seconds < BAR else min(_again(viewer, panel, number, values))
                yield again, f"{uid}: {panel['title']} {chr(ord('A') + number)}"


def _again(viewer: Viewer, panel: Json, number: int, values: Mapping[str, str]) -> Iterator[float]:
    """Seconds of a late query, asked again: other programs' load is no property of the query."""
    for _ in range(AGAIN):
        yield viewer.see(panel, values)[number].seconds


def _fleet(out: TextIO, nodes: int, end: float) -> int:
    """Write all nodes; how many samples."""
    wanted = _wanted()
    written = 0
    troubled = [(name, copy) for name in TROUBLED for copy in range(COPIES)]
    for scenario in TROUBLED:
        kept = _series(scenario, wanted)
        for copy in range(COPIES):
            written += _node(out, f"{scenario}-{copy}", kept, _times(LONG, end))
    healthy = _series("healthy", wanted)
    verdicts = [one for one in healthy if one.name == "eastwest_node_health"]
    others = [one for one in healthy if one.name != "eastwest_node_health"]
    for number in range(nodes - len(troubled)):
        name = f"gpu-{number:04}"
        written += _node(out, name, verdicts, _times(LONG, end))
        written += _node(out, name, others, _times(LATELY, end))
    out.write("# EOF\n")
    return written


def _times(span: Span, end: float) -> Sequence[float]:
    return [end - span.seconds + moment for moment in span.times()]


def _wanted() -> frozenset[str]:
    """The metrics that dashboards name."""
    found = (named(expr).selectors for dashboard in dashboards().values() for _, expr in expressions(dashboard))
    return frozenset(name for selectors in found for name, _ in selectors)


def _series(scenario: str, wanted: frozenset[str]) -> Sequence[Series]:
    """What a node of this scenario has, and how it grows."""
    apart = 900.0
    text = io.StringIO()
    write(text, [member(scenario)], Span(0.0, 2 * apart, 60.0))
    lines = [line.split(" ") for line in _unfolded(text.getvalue())]
    late = {head: value for head, value, moment in lines if float(moment) == 2 * apart}
    early: Mapping[str, str] = {head: value for head, value, moment in lines if float(moment) == apart}
    kept = []
    for head, value in late.items():
        name, _, labels = head.partition("{")
        if name in wanted or name.removesuffix("_total") in wanted:
            own = labels[: labels.index("job=")]
            slope = (float(value) - float(early.get(head, value))) / apart
            kept.append(Series(name, own, float(value), slope, value))
    return kept


def _unfolded(text: str) -> Iterator[str]:
    """Lines of samples, the spaces in label values put away."""
    for line in text.splitlines():
        if not line.startswith("#"):
            head, value, moment = line.rsplit(" ", 2)
            yield f"{head.replace(' ', '_')} {value} {moment}"


def _node(out: TextIO, node: str, kept: Iterable[Series], times: Sequence[float]) -> int:
    target = f'job="eastwest",instance="{node}:10428",node="{node}"}}'
    count = 0
    for one in kept:
        head = f"{one.name}{{{one.labels}{target} "
        if "last_run_timestamp" in one.name:
            out.writelines(f"{head}{moment - 5:.0f} {moment:.0f}\n" for moment in times)
        elif one.slope == 0:
            out.writelines(f"{head}{one.text} {moment:.0f}\n" for moment in times)
        else:
            out.writelines(
                f"{head}{one.value + one.slope * (moment - times[0]):.3f} {moment:.0f}\n" for moment in times
            )
        count += len(times)
    return count


if __name__ == "__main__":
    sys.exit(main())
