"""One poll and one render of a large node, beside node_exporter's infiniband collector on the same tree.

Both are real daemons over the same simulated sysfs tree, scraped over HTTP in turns by the same client without
compression; CPU is user + system time from /proc/<pid>/stat. Ours polls on its own schedule, so the cost of a poll
is measured apart (in this process, by the same code) and added to the cost of a scrape.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from exporter.build import build_node
from exporter.clock import Clock
from exporter.config import Config, load
from exporter.exposition import Exposition
from exporter.hardware.scenarios import SCENARIOS
from exporter.hardware.simulated import Simulation
from exporter.runner import run_check
from exporter.sources import Machine
from exporter.state import State

TICK = os.sysconf("SC_CLK_TCK")
ROUNDS = 8
POLLS = 100
BAR = 0.5
"""CPU per series, of node_exporter's."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A running exporter, and the prefix of the series that count."""

    pid: int
    address: str
    prefix: str

    def scrape(self) -> str:
        """The text of /metrics."""
        request = urllib.request.Request(f"http://{self.address}/metrics")
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            return str(answer.read().decode())

    def series(self) -> int:
        """How many series it has of its own."""
        return sum(line.startswith(self.prefix) for line in self.scrape().splitlines())

    def cpu(self) -> float:
        """Seconds of user and system time since its start."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def rss(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> int:
    """Print the table; 0 if the bar of docs/design.md is met, 1 if not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scrapes", type=int, default=300, help=f"in each of {ROUNDS} rounds")
    scrapes = parser.parse_args().scrapes
    if shutil.which("prometheus-node-exporter") is None:
        print("skipped: prometheus-node-exporter is not installed")
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        simulation = Simulation(SCENARIOS["healthy"], folder, time.monotonic)
        file = folder / "eastwest.yml"
        file.write_text(f"paths: {{sysfs: '{simulation.sysfs}', state: '{folder}/state'}}\n")
        measure = in_process(load(file))
        ours = stack.enter_context(eastwest(file))
        theirs = stack.enter_context(node_exporter(simulation.sysfs))
        wait_for(ours)
        wait_for(theirs)
        return report(ours, theirs, scrapes, measure)


def report(ours: Peer, theirs: Peer, scrapes: int, measure: Callable[[], tuple[float, float]]) -> int:
    """Measure all in turns, since a machine's speed drifts, and print what a series costs each."""
    costs: dict[str, list[float]] = {ours.prefix: [], theirs.prefix: []}
    inner = []
    for _ in range(ROUNDS):
        inner.append(measure())
        for peer in (ours, theirs):
            before = peer.cpu()
            for _ in range(scrapes):
                peer.scrape()
            costs[peer.prefix].append((peer.cpu() - before) / scrapes)
    poll, render = (statistics.median(cost) for cost in zip(*inner, strict=True))
    our_scrape, their_scrape = (statistics.median(costs[peer.prefix]) for peer in (ours, theirs))
    our_series, their_series = ours.series(), theirs.series()
    inside = (poll + render) / our_series
    outside = (poll + our_scrape) / our_series
    peer_cost = their_scrape / their_series
    print(f"eastwest       {our_series} series, {ours.rss():.0f} MiB resident")
    print(
        f"               poll {poll * 1e3:.2f} ms, render {render * 1e3:.2f} ms, "
        f"scrape over HTTP {our_scrape * 1e3:.2f} ms"
    )
    print(f"               poll + render {inside * 1e6:.1f} us a series, poll + scrape {outside * 1e6:.1f} us")
    print(f"node_exporter  {their_series} series, {theirs.rss():.0f} MiB resident")
    print(f"               scrape over HTTP {their_scrape * 1e3:.2f} ms, {peer_cost * 1e6:.1f} us a series")
    print(f"ratio of CPU per series: poll + render {inside / peer_cost:.2f}, poll + scrape {outside / peer_cost:.2f}")
    print(f"the bar is {BAR}: {'met' if inside / peer_cost <= BAR else 'missed'}")
    return int(inside / peer_cost > BAR)


def in_process(config: Config) -> Callable[[], tuple[float, float]]:
    """A function that gives the CPU seconds of one poll at the default intervals, and of one render.

    The port check runs most often: another counts by how often it runs beside it (RoCE detail a third, verbs a
    sixtieth).
    """
    node = build_node(config, Machine().open(config), State(None), Clock())
    exposition = Exposition("bench", "", process=False)  # node_exporter's own process figures are off as well

    def measure() -> tuple[float, float]:
        polls: dict[str, list[float]] = {name: [] for name in node.plans}
        renders = []
        for _ in range(POLLS):
            for name, plan in node.plans.items():
                began = time.process_time()
                node.board.begin(name)
                run_check(name, plan.check, node.board, Clock(), required=False)
                polls[name].append(time.process_time() - began)
            began = time.process_time()
            exposition.render(node.board.snapshot())
            renders.append(time.process_time() - began)
        oftenest = min(plan.timing.interval for plan in node.plans.values())
        poll = sum(
            statistics.median(costs) * oftenest / node.plans[name].timing.interval for name, costs in polls.items()
        )
        return poll, statistics.median(renders)

    return measure


@contextmanager
def eastwest(config: Path, environment: Mapping[str, str] | None = None) -> Iterator[Peer]:
    """Our daemon."""
    address = free_address()
    with running(
        [sys.executable, "-m", "exporter", "serve", "--config", str(config), "--listen", address], environment
    ) as pid:
        yield Peer(pid, address, "eastwest_")


@contextmanager
def node_exporter(sysfs: Path) -> Iterator[Peer]:
    """The peer, with the one collector that reads the same files."""
    address = free_address()
    flags = ["--collector.disable-defaults", "--collector.infiniband", "--web.disable-exporter-metrics"]
    with running(
        ["prometheus-node-exporter", f"--path.sysfs={sysfs}", f"--web.listen-address={address}", *flags]
    ) as pid:
        yield Peer(pid, address, "node_infiniband_")


@contextmanager
def running(argv: list[str], environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """A program for as long as the context lasts."""
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, env=environment)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def wait_for(peer: Peer) -> None:
    """Until it has series, at most 20 s."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            if peer.series() > 20:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"nothing at {peer.address}")


def free_address() -> str:
    """An address of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


if __name__ == "__main__":
    sys.exit(main())
