"""`eastwest demo`: a simulated node with one slow port, found by looking at its metrics, and shown."""

import re
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass

from exporter.hardware.scenarios import SCENARIOS
from exporter.model import UserError
from exporter.output import write_out

SCENARIO = "slow-port"
POLL_SECONDS = 0.5
STOP_SECONDS = 5.0
_LISTENING = re.compile(r"listening on (http\S+)")
_SERIES = re.compile(r"eastwest_(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Slow:
    """A port below the rate that is expected of it, as its metrics say; rates in bytes/s."""

    device: str
    port: str
    rail: str
    rate: float
    expected: float

    @property
    def subject(self) -> str:
        """The port as `mlx5_5/1`."""
        return f"{self.device}/{self.port}"


def demo(seconds: float, listen: str) -> int:
    """Serve the scenario for `seconds` in all, find the slow port over HTTP; 0 if it is the right one, else 1."""
    end = time.monotonic() + seconds
    daemon = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-m", "exporter", "serve", "--simulate", SCENARIO, "--listen", listen],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        return _watch(_url(daemon), daemon, end - seconds, end)
    finally:
        daemon.terminate()
        try:
            daemon.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.communicate()


def _url(daemon: "subprocess.Popen[str]") -> str:
    """Where the daemon says it listens. Raises UserError with its last words where it does not."""
    said = ""
    for line in daemon.stderr or ():
        if found := _LISTENING.search(line):
            return found[1]
        said = line
    raise UserError(said.strip().removeprefix("eastwest: ") or "the daemon of the demo ended without a word")


def _watch(url: str, daemon: "subprocess.Popen[str]", began: float, end: float) -> int:
    injected = SCENARIOS[SCENARIO].remarkable
    write_out(f"A simulated node: {SCENARIOS[SCENARIO].sentence}.\n\n")
    while not (slow := _slow_ports(url)):
        if daemon.poll() is not None or time.monotonic() > end:
            write_out(f"demo: injected {injected}; named nothing\n")
            return 1
        time.sleep(POLL_SECONDS)
    after = time.monotonic() - began
    for port in slow:
        write_out(
            f"SLOW  {port.subject} (rail {port.rail}) runs at {_gbit(port.rate)} Gbit/s, "
            f"{port.rate / port.expected:.0%} of the {_gbit(port.expected)} Gbit/s its peers run at.\n"
        )
    write_out(
        f"\nLook while it runs:\n  {url}/         the node for people\n  {url}/metrics  for Prometheus\n\n"
        f"It ends by itself in {max(0.0, end - time.monotonic()):.0f} s (Ctrl-C ends it now).\n"
    )
    try:
        while time.monotonic() < end and daemon.poll() is None:
            time.sleep(min(POLL_SECONDS, max(0.0, end - time.monotonic())))
    except KeyboardInterrupt:
        write_out("\n")
    named = ", ".join(port.subject for port in slow)
    write_out(f"demo: injected {injected}; named {named} after {after:.0f} s\n")
    return 0 if named == injected else 1


def _slow_ports(url: str) -> list[Slow]:
    """The ports whose rate is below the expected one, by /metrics; none while that does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=2) as answer:  # noqa: S310 - an http URL of ours
            text = answer.read().decode()
    except OSError:
        return []
    series = {
        name: {frozenset(_LABEL.findall(labels)): float(value) for labels, value in _found(text, name)}
        for name in ("port_rate_bytes_per_second", "port_expected_rate_bytes_per_second")
    }
    rates, expected = series.values()
    return [
        Slow(at["device"], at["port"], at["rail"], rate, expected[labels])
        for labels, rate in rates.items()
        if labels in expected and rate < expected[labels] and (at := dict(labels))
    ]


def _found(text: str, name: str) -> list[tuple[str, str]]:
    return [(labels, value) for found, labels, value in _SERIES.findall(text) if found == name]


def _gbit(rate: float) -> str:
    return f"{rate * 8 / 1e9:g}"
