"""`eastwest demo`: a small simulated fleet with three faults, each found by the command that is meant for it.

Daemons on simulated nodes, whose pages can be looked at; `eastwest check` on each; and `eastwest locate` on bundled
pair measurements of eight nodes, of which one has a bad NIC.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from exporter.hardware.child import own
from exporter.hardware.scenarios import SCENARIOS
from exporter.model import UserError
from exporter.output import write_out
from exporter.signals import Told, held, scratch
from exporter.verdict import text

PAIRS = Path(__file__).parent / "data/demo-pairs.csv"
BAD_NIC = "gpu-3 rail 5"
FAULTS = {2: "slow-port", 4: "nvlink-down"}
"""Which node simulates what; the others are healthy."""
STOP_SECONDS = 5.0
AT_ONCE = 2
TURN_SECONDS = 0.05
GROUP_SECONDS = 1.0
"""A terminal tells all of a process group: for so long nobody is told twice."""
_LISTENING = re.compile(r"listening on (http\S+)")
_EASTWEST = own("exporter")


def demo(seconds: float, count: int, listen: str) -> int:
    """Run for `seconds` in all; 0 if everything that was injected was named and nothing else, else 1.

    Whatever signals come, and when, nothing is left behind.
    """
    began = time.monotonic()
    with held() as told, scratch("eastwest-demo-") as folder, Programs(folder, told) as programs:
        nodes = _nodes(folder, count)
        write_out(f"{count} simulated nodes, and pair measurements of a fleet of eight.\n")
        urls = [programs.url(["serve", *_flags(node), "--listen", listen]) for node in nodes]
        named = list(_locate(programs))
        checks = [["check", *_flags(node), "--fail-on", "", "--format", "json"] for node in nodes]
        for node, said in zip(nodes, programs.outputs(checks), strict=True):
            named += _check(node, json.loads(said))
        after = time.monotonic() - began
        pages = "".join(f"  {node.name}  {url}/\n" for node, url in zip(nodes, urls, strict=True))
        write_out(f"\n--- Look while it runs\n\n{pages}")
        write_out("(a finding shows on a page once it has lasted half a minute; /metrics is for Prometheus)\n\n")
        _wait(began + seconds, told)
    injected = sorted([*(node.injected for node in nodes if node.injected), BAD_NIC])
    names = ", ".join(sorted(named)) or "nothing"
    write_out(f"demo: injected {', '.join(injected)}; named {names} after {after:.0f} s\n")
    return int(injected != sorted(named))


def _nodes(folder: Path, count: int) -> "list[Simulated]":
    nodes = []
    for number in range(1, count + 1):
        config = folder / f"gpu-{number}.yml"
        config.write_text(f"node: {{name: gpu-{number}}}\n")
        nodes.append(Simulated(f"gpu-{number}", FAULTS.get(number, "healthy"), config))
    return nodes


def _flags(node: "Simulated") -> list[str]:
    return ["--config", str(node.config), "--simulate", node.scenario]


def _locate(programs: "Programs") -> Iterator[str]:
    """Print what `locate` says of the bundled measurements; what it names."""
    write_out(f"\n--- eastwest locate --pairs {PAIRS.name}\n\n")
    pairs = ["locate", "--pairs", str(PAIRS)]
    words, found = programs.outputs([pairs, [*pairs, "--format", "json"]])
    write_out(words)
    for link in json.loads(found)["links"]:
        yield f"{link['node']} rail {link['rail']}"


def _check(node: "Simulated", verdict: dict[str, Any]) -> Iterator[str]:
    """Print a node's verdict, of the last quarter of an hour; what it names."""
    write_out(f"\n--- eastwest check, on {node.name}\n\n")
    write_out(text(verdict))
    for finding in verdict["findings"]:
        if finding["severity"] != "info":
            yield f"{node.name} {finding['subject']}"


def _wait(end: float, told: Told) -> None:
    """Until then, or until Ctrl-C. Other signals end the command."""
    write_out(f"It ends by itself in {max(0.0, end - time.monotonic()):.0f} s (Ctrl-C ends it now).\n")
    while (left := end - time.monotonic()) > 0 and not told.number:
        time.sleep(min(TURN_SECONDS, left))
    if told.number == signal.SIGINT:
        write_out("\n")
    else:
        told.check()


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


class Programs:
    """What the demo has started: all of it ends with the context, and writes nowhere but into `folder`."""

    def __init__(self, folder: Path, told: Told) -> None:
        self._folder = folder
        self._told = told
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        began = time.monotonic()
        self._gone(began + (GROUP_SECONDS if self._told.number else 0.0))
        for process in self._started:
            process.terminate()
        self._gone(time.monotonic() + STOP_SECONDS)
        for process in self._started:
            process.kill()
            process.wait()

    def url(self, arguments: Sequence[str]) -> str:
        """Where a daemon with these arguments says that it listens. Raises UserError with its last words."""
        number = self._start(arguments)
        while True:
            ended = self._started[number].poll() is not None
            said = self._said(number, "err")
            if found := _LISTENING.search(said):
                return found[1]
            self._told.check()
            if ended:
                last = "".join(said.splitlines()[-1:]).strip().removeprefix("eastwest: ")
                raise UserError(last or "a daemon of the demo ended without a word")
            time.sleep(TURN_SECONDS)

    def outputs(self, commands: Sequence[Sequence[str]]) -> Iterator[str]:
        """What each prints, in this order; AT_ONCE of them at a time. Raises UserError."""
        numbers = [self._start(arguments) for arguments in commands[:AT_ONCE]]
        for position, arguments in enumerate(commands):
            process = self._started[numbers[position]]
            while process.poll() is None:
                self._told.check()
                time.sleep(TURN_SECONDS)
            self._told.check()
            printed = self._said(numbers[position], "out")
            if process.returncode not in (0, 1) or not printed:
                raise UserError(f"eastwest {arguments[0]}: {self._said(numbers[position], 'err').strip()}")
            if position + AT_ONCE < len(commands):
                numbers.append(self._start(commands[position + AT_ONCE]))
            yield printed

    def _start(self, arguments: Sequence[str]) -> int:
        number = len(self._started)
        with self._file(number, "out").open("wb") as out, self._file(number, "err").open("wb") as err:
            # Temporary files of theirs lie in the demo's folder and go with it, however they end.
            environment = {**os.environ, "TMPDIR": str(self._folder)}
            argv = [*_EASTWEST, *arguments]
            self._started.append(subprocess.Popen(argv, stdout=out, stderr=err, env=environment))  # noqa: S603 - ours
        return number

    def _file(self, number: int, what: str) -> Path:
        return self._folder / f"{number}.{what}"

    def _said(self, number: int, what: str) -> str:
        return self._file(number, what).read_text(errors="replace")

    def _gone(self, end: float) -> None:
        """Wait until none runs, at most to `end`."""
        while any(process.poll() is None for process in self._started) and time.monotonic() < end:
            time.sleep(TURN_SECONDS)
