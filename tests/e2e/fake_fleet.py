"""Four nodes that serve text like a daemon's, whose faults a test chooses.

What a node says is made by one function, `exposition`: a golden file and the findings that the daemon would raise.
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

HEALTHY = (Path(__file__).parents[1] / "golden/healthy.prom").read_text()
NODES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
DEVICE, PORT = "mlx5_5", 'device="mlx5_5",port="1"'
"""The port that faults befall: rail 3, and its leaf is leaf-3."""
_MADE_HERE = ("eastwest_finding", "eastwest_node_health", "eastwest_port_ever_up", "eastwest_check_last_run_timestamp")


class Fault(Enum):
    """What is wrong with a node."""

    NONE = "nothing"
    NIC_GONE = "the NIC is not listed any more"
    PORT_DOWN = "its port is down"


def exposition(node: str, fault: Fault, now: float) -> str:
    """What the daemon of `node` says: all that the golden file has, on leaves, and the verdict."""
    lines = [line for line in HEALTHY.splitlines() if not line.startswith("#") and not line.startswith(_MADE_HERE)]
    text = "\n".join(lines).replace('node="simulated"', f'node="{node}"')
    rails = dict(re.findall(r'eastwest_port_up{device="(\w+)",port="1",role="compute",rail="(\d)"}', text))
    for device, rail in rails.items():
        text = re.sub(rf'(eastwest_port_info{{device="{device}",.*leaf=")"', rf'\1leaf-{rail}"', text)
    said = [
        *text.splitlines(),
        *(f'eastwest_port_ever_up{{device="{device}",port="1"}} 1' for device in rails),
        f'eastwest_check_last_run_timestamp_seconds{{check="infiniband"}} {now:.3f}',
    ]
    if fault is Fault.NIC_GONE:
        said = [line for line in said if PORT not in line and f'device="{DEVICE}"' not in line]
    elif fault is Fault.PORT_DOWN:
        said = [
            re.sub(r" \S+$", " 0", line) if line.startswith("eastwest_port_up{" + PORT) else line
            for line in said
            if not line.startswith("eastwest_port_rate_bytes_per_second{" + PORT)
        ]
    reason = {Fault.NIC_GONE: "port_missing", Fault.PORT_DOWN: "port_down"}.get(fault)
    status = "critical" if reason else "ok"
    said += [
        f'eastwest_node_health{{status="{name}"}} {int(name == status)}'
        for name in ("ok", "degraded", "critical", "unknown")
    ]
    if reason:
        labels = f'check="infiniband",subject="{DEVICE}/1",severity="critical",reason="{reason}"'
        said.append(f"eastwest_finding{{{labels}}} 1")
    return "\n".join(said) + "\n"


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
