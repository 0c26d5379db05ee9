"""The RDMA engine: perftest's ib_write_bw and ib_write_lat between two NICs of this node, one direction at a time.

Programs of others, so each runs under a deadline and dies with the worker. Nothing is written to disk: the table on
standard output is read. Memory is the host's, or the GPU's where perftest was built with CUDA and a GPU was named.
"""

import ctypes
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from exporter.hardware.child import ChildEndedError, Group
from exporter.probes.control import Control
from exporter.probes.engines import perftest
from exporter.probes.engines.gid import roce_gid, text
from exporter.probes.protocol import SMALL, Failed, Flow, Nic, Refused, Spec

PR_SET_PDEATHSIG = 1
MESSAGE = 1 << 20
"""Bytes of a message at most: one is far above what a wire holds, and perftest pins two of them."""
WARM_UP = 5
SECONDS = 0.4
"""How long a timed run is made to last, by its number of messages."""
RUNS = 5
FEWEST, MOST = 5, 100_000
LATENCY_ITERATIONS = 1000
ACTIVE = "4:"
LISTEN = "0A"
PASSED = ("PATH", "LD_LIBRARY_PATH", "HOME")


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the programs are, and whether they can use GPU memory."""

    bandwidth: str
    latency: str
    cuda: bool


def measure(spec: Spec, control: Control) -> None:
    """One probe; see worker.ENGINES."""
    if spec.scope == "loopback" and len(spec.nics) != 2:
        raise Refused("two_nics", "a loopback needs two active compute ports on this node")
    if spec.scope not in ("loopback", "latency") or len(spec.nics) != 2:
        raise Refused("not_for_this", "perftest measures between two NICs, not between GPUs")
    tools = find_tools()
    nics = tuple(checked(nic, Path(spec.sysfs) / "class" / "infiniband") for nic in spec.nics)
    gpus = tools.cuda and all(nic.gpu for nic in nics)
    control.facts(memory="gpu" if gpus else "host", perftest=tools.bandwidth)
    for source, target in (nics, nics[::-1]) if spec.scope == "loopback" else ():
        control.flow(_bandwidth(spec, control, tools, source, target, gpus))
    control.flow(_latency(control, tools, *nics))
    control.enter("end")


def find_tools() -> Tools:
    """Raises Refused where perftest is not here."""
    bandwidth, latency = shutil.which("ib_write_bw"), shutil.which("ib_write_lat")
    if bandwidth is None or latency is None:
        missing = "ib_write_bw" if bandwidth is None else "ib_write_lat"
        raise Refused("no_perftest", f"{missing} is not here (package perftest)")
    help_text = _output([bandwidth, "--help"], {}, 5.0)
    return Tools(bandwidth, latency, cuda="--use_cuda" in help_text)


def checked(nic: Nic, root: Path) -> Nic:
    """The NIC with the GID index that RoCE needs. Raises Refused where it is not there or not ACTIVE."""
    port = root / nic.device / "ports" / str(nic.port)
    try:
        state = (port / "state").read_text()
    except OSError as error:
        raise Refused("no_device", f"{nic.subject}: {error.strerror}") from error
    if not state.startswith(ACTIVE):
        raise Refused("port_not_active", f"{nic.subject} is {state.partition(':')[2].strip() or 'not ACTIVE'}")
    ethernet = nic.link_layer == "Ethernet" or text(port / "link_layer") == "Ethernet"
    index = nic.gid_index if nic.gid_index >= 0 or not ethernet else roce_gid(port)
    return Nic(nic.device, nic.port, "Ethernet" if ethernet else "InfiniBand", gpu=nic.gpu, gid_index=index)


def _bandwidth(spec: Spec, control: Control, tools: Tools, source: Nic, target: Nic, gpus: bool) -> Flow:  # noqa: PLR0913
    """From source to target: a short run that warms up and tells how long a timed one must be, then the timed ones."""
    size = min(spec.size, MESSAGE)
    common = [tools.bandwidth, "-F", "--report_gbits", "-s", str(size)]
    if spec.traffic_class is not None and source.link_layer == "Ethernet":
        common += ["--tclass", str(spec.traffic_class)]
    control.enter("connect")
    first = _once(control, [*common, "-n", str(WARM_UP)], source, target, gpus)
    speed = _told(first.bandwidth)
    count = int(min(MOST, max(FEWEST, SECONDS * speed / size)))
    speeds = []
    for _ in range(RUNS):
        control.enter("run")  # each has the deadline to itself: perftest sleeps for a second after it has connected
        speeds.append(_told(_once(control, [*common, "-n", str(count)], source, target, gpus).bandwidth))
    seconds = tuple(size / speed for speed in speeds)
    moved = size * (WARM_UP + RUNS * count)
    return Flow("write", size, seconds, source.subject, target.subject, transport="RDMA", moved=moved)


def _latency(control: Control, tools: Tools, source: Nic, target: Nic) -> Flow:
    control.enter("connect")
    argv = [tools.latency, "-F", "-s", str(SMALL), "-n", str(LATENCY_ITERATIONS)]
    latency = _told(_once(control, argv, source, target, gpus=False).latency)
    moved = SMALL * LATENCY_ITERATIONS
    return Flow("latency", SMALL, (latency,), source.subject, target.subject, transport="RDMA", moved=moved)


def _told(value: float | None) -> float:
    if value is None:
        raise Failed("no_number", "perftest gave no number")
    return value


def _once(control: Control, argv: list[str], source: Nic, target: Nic, gpus: bool) -> perftest.Measured:
    """One server on the target's NIC, one client on the source's, which writes to it."""
    port = _free_port()
    with _running([*argv, *_device(target, gpus), "-p", str(port)], target, gpus) as server:
        heard = _await_listener(control, server, port)
        with _running([*argv, *_device(source, gpus), "-p", str(port), "127.0.0.1"], source, gpus) as client:
            said = _read(control, client)
        measured = perftest.read(said, "Gb/sec")
        if measured is None:
            raise _failure(said, heard)
    return measured


def _device(nic: Nic, gpus: bool) -> list[str]:
    found = ["-d", nic.device, "-i", str(nic.port)]
    if nic.gid_index >= 0:
        found += ["-x", str(nic.gid_index)]
    return found + (["--use_cuda=0"] if gpus else [])


@contextmanager
def _running(argv: list[str], nic: Nic, gpus: bool) -> Iterator[Group]:
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    if gpus:
        environment |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": nic.gpu}
    program = _start(argv, environment)
    try:
        yield program
    finally:
        program.end(1.0)


def _start(argv: list[str], environment: Mapping[str, str]) -> Group:
    try:
        return Group(argv, environment, prepare=_die_with_the_worker)
    except ChildEndedError as error:
        raise Refused("no_perftest", str(error)) from error


def _die_with_the_worker() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _output(argv: list[str], environment: Mapping[str, str], seconds: float) -> str:
    """What a program says until it ends, or until `seconds` are over."""
    program, end = _start(argv, {**os.environ, **environment}), time.monotonic() + seconds
    lines: list[str] = []
    try:
        while (line := program.line(max(0.0, end - time.monotonic()))) is not None:
            lines.append(line.decode(errors="replace"))
    except TimeoutError:
        pass
    finally:
        program.end(1.0)
    return "\n".join(lines)


def _read(control: Control, program: Group) -> str:
    """All that it says until it ends, while the phase lasts and nobody says stop."""
    lines: list[str] = []
    while True:
        try:
            line = program.line(0.1)
        except TimeoutError:
            control.wait((), 0.0)
            continue
        if line is None:
            return "\n".join(lines)
        lines.append(line.decode(errors="replace"))


def _await_listener(control: Control, server: Group, port: int) -> str:
    """Wait until the server listens (it would take a trial connection for its client); what it has said."""
    said: list[str] = []
    while not listens(port, Path("/proc/net")):
        control.wait((), 0.0)
        try:
            line = server.line(0.02)
        except TimeoutError:
            continue
        if line is None:
            raise _failure("\n".join(said), "")
        said.append(line.decode(errors="replace"))
    return "\n".join(said)


def listens(port: int, proc: Path) -> bool:
    """Whether anything listens on a TCP port, by /proc/net/tcp and tcp6."""
    sought = f":{port:04X}"
    for name in ("tcp", "tcp6"):
        for line in text(proc / name).splitlines():
            fields = line.split()
            if len(fields) > 3 and fields[1].endswith(sought) and fields[3] == LISTEN:
                return True
    return False


def _failure(client: str, server: str) -> Failed | Refused:
    reason, line = perftest.fault(client)
    if reason == "perftest_failed" and server:
        reason, line = perftest.fault(server)
    refused = reason in ("memlock", "no_device", "port_not_active")
    return Refused(reason, line) if refused else Failed(reason, line)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
