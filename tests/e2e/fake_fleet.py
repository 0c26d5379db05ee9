"""Four nodes that serve text like a daemon's, whose faults a test chooses.

What a node says is made by one function, `exposition`, from the golden file of a scenario: what a real daemon says.
"""

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
DEVICE = "mlx5_6"
"""The device whose port is down in the scenario `port-down`: rail 4, and here its leaf is leaf-4."""
_TIMES = re.compile(r"^(eastwest_check_last_run_timestamp_seconds\{.*\}) .*$", re.MULTILINE)


class Fault(Enum):
    """What is wrong with a node: a scenario, whose golden file is what its daemon says."""

    NONE = "healthy"
    PORT_DOWN = "port-down"
    ALL_PORTS_DOWN = "leaf-down"
    NIC_GONE = "a port that was there is not listed any more, which no scenario has"


def exposition(node: str, fault: Fault, now: float) -> str:
    """What the daemon of `node` says, with leaves: each rail has one, as where networks are optimised for rails."""
    scenario = Fault.NONE if fault is Fault.NIC_GONE else fault
    text = (GOLDEN / f"{scenario.value}.prom").read_text().replace('node="simulated"', f'node="{node}"')
    text = _TIMES.sub(rf"\1 {now:.3f}", text)
    rails = dict(re.findall(r'eastwest_port_up{device="(\w+)",port="1",role="compute",rail="(\d)"}', text))
    for device, rail in rails.items():
        text = re.sub(rf'(eastwest_port_info{{device="{device}",.*leaf=")"', rf'\1leaf-{rail}"', text)
    return _without_its_nic(text) if fault is Fault.NIC_GONE else text


def _without_its_nic(text: str) -> str:
    kept = [line for line in text.splitlines() if f'device="{DEVICE}"' not in line]
    labels = f'check="infiniband",subject="{DEVICE}/1",severity="critical",reason="port_missing"'
    return "\n".join([*kept, f"eastwest_finding{{{labels}}} 1", ""])


@dataclass
class Fleet:
    """The nodes' addresses by name, and the fault of each, which a test may change at any time."""

    addresses: Mapping[str, str]
    faults: dict[str, Fault] = field(default_factory=dict)


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """An HTTP server in a thread; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


@contextmanager
def four_nodes() -> Iterator[Fleet]:
    """The fleet, healthy at first."""
    faults = dict.fromkeys(NODES, Fault.NONE)

    def handler(node: str) -> type[BaseHTTPRequestHandler]:
        class Metrics(Quiet):
            """/metrics of one node."""

            def do_GET(self) -> None:
                """Answer with what the node says now."""
                self.answer(exposition(node, faults[node], time.time()))

        return Metrics

    with ExitStack() as stack:
        yield Fleet({node: stack.enter_context(answering(handler(node))) for node in NODES}, faults)


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing: pytest shows what matters."""

    def answer(self, text: str) -> None:
        """200 with a text."""
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
