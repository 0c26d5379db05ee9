"""What the daemon and the worker of a probe say to each other: plain frozen values, JSON lines. Standard library only.

The worker is given a Spec as its one argument. It writes events, one a line: `phase` (where it is now), `flow` (one
thing measured), `facts`, and last `end`. What it gets on its standard input is `abort`, or the end of the file, which
means the same.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Phase = Literal["start", "init", "connect", "run", "end"]
PHASES: tuple[Phase, ...] = ("start", "init", "connect", "run", "end")
Scope = Literal["intra", "loopback", "latency", "pair"]
Algorithm = Literal["ring", "tree", "auto"]
Verdict = Literal["ok", "error", "timeout", "refused", "aborted"]
ABORT = b"abort\n"
SMALL = 8
"""Bytes of a latency operation."""
RANK_KILL_SECONDS = 1.0
"""How long the worker waits for ranks that it has killed to be gone."""
MARGIN = 2.0
"""Seconds for what has no deadline of its own: to ask the ranks what went wrong, and a busy processor."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that each phase may take. `start`: libraries and devices; `init`: the communicator, 60 s and more on
    some machines (NVIDIA/nccl#1646); `connect`: the first operation of a kind (700 ms, NVIDIA/nccl#1487); `run`: the
    timed ones; `end`: giving all back after the last of them, or after a deadline was missed, before the kill; `abort`:
    the same where work for the node has appeared.
    """

    start: float = 30.0
    init: float = 120.0
    connect: float = 60.0
    run: float = 10.0
    end: float = 5.0
    abort: float = 1.0

    def of(self, phase: Phase) -> float:
        """The seconds of one phase."""
        seconds: float = getattr(self, phase)
        return seconds

    def silence(self, phase: Phase) -> float:
        """Seconds in a phase after which a worker that has said nothing is stuck itself: it had the time to miss the
        deadline, to let its ranks end (`end`), to kill them, and to say so.
        """
        return self.of(phase) + self.end + RANK_KILL_SECONDS + MARGIN

    @property
    def stopping(self) -> float:
        """Seconds that a worker has to end after it was told to: its ranks' abort, and a moment to kill them."""
        return self.abort + 0.3


@dataclass(frozen=True, slots=True)
class Nic:
    """One end of a loopback probe: an RDMA device and its port, the GPU beside it, and its address.

    `gid_index` -1 leaves the choice to the engine. `rail` and `leaf` are the node's names for where it hangs.
    """

    device: str
    port: int = 1
    link_layer: str = ""
    active: bool = True
    rail: str = ""
    leaf: str = ""
    gpu: str = ""
    gid_index: int = -1

    @property
    def subject(self) -> str:
        """`mlx5_0/1`."""
        return f"{self.device}/{self.port}"


@dataclass(frozen=True, slots=True)
class Spec:
    """One probe. `size` is bytes per operation; a run is `batches` times `iterations` operations.

    `gpus` are UUIDs, in the order of their numbers; empty: all that CUDA shows. `slow_below` is the bandwidth
    (bytes/s) under which an intra probe goes on to the GPU pairs; 0: never. `algorithm` is `ring`, `tree` or `auto`.
    `interface` is the netdev of NCCL's bootstrap, inside one node the loopback. `sysfs` is where the host's /sys is.
    """

    engine: str
    scope: Scope
    size: int = 64 << 20
    batches: int = 7
    iterations: int = 4
    algorithm: Algorithm = "ring"
    gpus: tuple[str, ...] = ()
    nics: tuple[Nic, ...] = ()
    interface: str = "lo"
    traffic_class: int | None = None
    slow_below: float = 0.0
    sysfs: str = "/sys"
    deadlines: Deadlines = Deadlines()

    def dump(self) -> str:
        """As the worker is given it."""
        return json.dumps(asdict(self), separators=(",", ":"))


def read_spec(text: str) -> Spec:
    """What `dump` wrote. Raises ValueError, TypeError, KeyError."""
    raw = json.loads(text)
    raw["gpus"] = tuple(raw["gpus"])
    raw["nics"] = tuple(Nic(**nic) for nic in raw["nics"])
    raw["deadlines"] = Deadlines(**raw["deadlines"])
    return Spec(**raw)


@dataclass(frozen=True, slots=True)
class Flow:
    """One thing measured: `seconds` per operation, a value for each batch, from the slowest rank.

    `kind` is `allreduce` (all GPUs; source and target empty), `sendrecv` and `write` (one direction), `latency`.
    `factor` times `size` is what crosses the slowest link in one operation: nccl-tests' bus bandwidth
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). Latencies are one way. `moved` is bytes over
    that link in all, warm-up included.
    """

    kind: Literal["allreduce", "sendrecv", "write", "latency"]
    size: int
    seconds: tuple[float, ...]
    source: str = ""
    target: str = ""
    factor: float = 1.0
    transport: str = ""
    moved: int = 0

    @property
    def bandwidth(self) -> float:
        """Bytes/s, of the median batch."""
        return self.size * self.factor / statistics.median(self.seconds)

    @property
    def bandwidth_range(self) -> tuple[float, float]:
        """Bytes/s of the slowest and of the fastest batch."""
        moved = self.size * self.factor
        return moved / max(self.seconds), moved / min(self.seconds)

    @property
    def latency(self) -> float:
        """Seconds, of the median batch."""
        return statistics.median(self.seconds)


def read_flow(raw: Mapping[str, Any]) -> Flow:
    """A flow from JSON. Raises ValueError, TypeError, KeyError."""
    seconds = tuple(float(value) for value in raw["seconds"])
    if not seconds or not all(0 < value < float("inf") for value in seconds):
        raise ValueError(f"not durations: {raw['seconds']!r:.80}")
    return Flow(**{**raw, "seconds": seconds})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a probe ended.

    `reason` says why in a word (`init_timeout`, `remote_error`, `no_gpu`, ...), '' where it went well, and `message`
    in a line. `phase` is where it was. `began` is Unix time, `seconds` how long it took in all, `phases` each phase;
    `bytes` what was sent over the links. `left` is the process group that even SIGKILL did not end, else 0.
    """

    spec: Spec
    result: Verdict
    reason: str = ""
    message: str = ""
    phase: Phase = "start"
    flows: tuple[Flow, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    began: float = 0.0
    seconds: float = 0.0
    left: int = 0

    @property
    def bytes(self) -> int:
        """What the flows sent over their links in all."""
        return sum(flow.moved for flow in self.flows)


class Refused(Exception):  # noqa: N818 - that an engine can't run here is no error
    """This engine can't run here; `reason` in a word, the message in a line."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Failed(Exception):  # noqa: N818 - as Refused
    """The probe began and did not end well; as Refused."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def event(name: str, /, **content: object) -> bytes:
    """One line for the daemon."""
    return json.dumps({"event": name, **content}, separators=(",", ":"), default=str).encode() + b"\n"


def merged(seconds: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Of several ranks' batches, the slowest rank's of each."""
    return tuple(max(batch) for batch in zip(*seconds, strict=True))
