"""`eastwest demo`: a small simulated fleet with three faults, each found by the command that is meant for it.

Daemons on simulated nodes, whose pages can be looked at; `eastwest check` on each; and `eastwest locate` on bundled
pair measurements of eight nodes, of which one has a bad NIC.
"""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.hardware.child import own
from exporter.hardware.scenarios import SCENARIOS
from exporter.model import UserError
from exporter.output import write_out
from exporter.verdict import text

PAIRS = Path(__file__).parent / "data/demo-pairs.csv"
BAD_NIC = "gpu-3 rail 5"
FAULTS = {2: "slow-port", 4: "nvlink-down"}
"""Which node simulates what; the others are healthy."""
STOP_SECONDS = 5.0
AT_ONCE = 2
TURN_SECONDS = 0.2
_LISTENING = re.compile(r"listening on (http\S+)")
_EASTWEST = own("exporter")


@dataclass(frozen=True, slots=True)
class Simulated:
    """A node of the demo; `config` is the file that names it."""

    name: str
    scenario: str
    config: Path

    @property
    def injected(self) -> str | None:
        """What is wrong with it, as a finding names it: `gpu-2 mlx5_5/1`; None for a healthy one."""
        remarkable = SCENARIOS[self.scenario].remarkable
        # NVLinks that are down are a finding of their GPU
        subject = remarkable.partition("/")[0] if remarkable.startswith("gpu") else remarkable
        return f"{self.name} {subject}" if subject else None


def demo(seconds: float, count: int, listen: str) -> int:
    """Run for `seconds` in all; 0 if everything that was injected was named and nothing else, else 1."""
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eastwest-demo-")))
        nodes = _nodes(folder, count)
        write_out(f"{count} simulated nodes, and pair measurements of a fleet of eight.\n")
        urls = [stack.enter_context(_daemon(node, listen)) for node in nodes]
        named = list(_locate())
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for node, verdict in zip(nodes, pool.map(_verdict, nodes), strict=True):
                named += _check(node, verdict)
        after = time.monotonic() - began
        pages = "".join(f"  {node.name}  {url}/\n" for node, url in zip(nodes, urls, strict=True))
        write_out(f"\n--- Look while it runs\n\n{pages}")
        write_out("(a finding shows on a page once it has lasted half a minute; /metrics is for Prometheus)\n\n")
        _wait(began + seconds)
    injected = sorted([*(node.injected for node in nodes if node.injected), BAD_NIC])
    told = ", ".join(sorted(named)) or "nothing"
    write_out(f"demo: injected {', '.join(injected)}; named {told} after {after:.0f} s\n")
    return int(injected != sorted(named))


def _nodes(folder: Path, count: int) -> list[Simulated]:
    nodes = []
    for number in range(1, count + 1):
        config = folder / f"gpu-{number}.yml"
        config.write_text(f"node: {{name: gpu-{number}}}\n")
        nodes.append(Simulated(f"gpu-{number}", FAULTS.get(number, "healthy"), config))
    return nodes


@contextmanager
def _daemon(node: Simulated, listen: str) -> Iterator[str]:
    """The node's daemon; where it says it listens. Raises UserError with its last words where it does not."""
    argv = [*_EASTWEST, "serve", "--config", str(node.config), "--simulate", node.scenario, "--listen", listen]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)  # noqa: S603 - this very program
    try:
        yield _url(process)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _url(daemon: "subprocess.Popen[str]") -> str:
    said = ""
    for line in daemon.stderr or ():
        if found := _LISTENING.search(line):
            return found[1]
        said = line
    raise UserError(said.strip().removeprefix("eastwest: ") or "a daemon of the demo ended without a word")


def _locate() -> Iterator[str]:
    """Print what `locate` says of the bundled measurements; what it names."""
    write_out(f"\n--- eastwest locate --pairs {PAIRS.name}\n\n")
    write_out(_run(["locate", "--pairs", str(PAIRS)]))
    found: dict[str, Any] = json.loads(_run(["locate", "--pairs", str(PAIRS), "--format", "json"]))
    for link in found["links"]:
        yield f"{link['node']} rail {link['rail']}"


def _verdict(node: Simulated) -> dict[str, Any]:
    """What `check` says of the last quarter of an hour of a node."""
    flags = ["check", "--config", str(node.config), "--simulate", node.scenario, "--fail-on", "", "--format", "json"]
    said: dict[str, Any] = json.loads(_run(flags))
    return said


def _check(node: Simulated, verdict: dict[str, Any]) -> Iterator[str]:
    """Print a node's verdict; what it names."""
    write_out(f"\n--- eastwest check, on {node.name}\n\n")
    write_out(text(verdict))
    for finding in verdict["findings"]:
        if finding["severity"] != "info":
            yield f"{node.name} {finding['subject']}"


def _run(arguments: Sequence[str]) -> str:
    done = subprocess.run([*_EASTWEST, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - as above
    if done.returncode not in (0, 1) or not done.stdout:
        raise UserError(f"eastwest {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def _wait(end: float) -> None:
    try:
        write_out(f"It ends by itself in {max(0.0, end - time.monotonic()):.0f} s (Ctrl-C ends it now).\n")
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(TURN_SECONDS, left))
    except KeyboardInterrupt:
        write_out("\n")
