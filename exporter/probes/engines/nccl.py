"""The NCCL engine: what a probe asks of its ranks, in order. Runs in the worker, which itself loads neither library.

`intra`: an all-reduce over the node's GPUs and, where that is slow, every pair of GPUs one direction at a time.
`loopback`: two ranks of one node whose only way to each other is two NICs, one direction at a time. Both end with the
time of a small operation; `latency` is that alone.
"""

import ctypes
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from exporter.probes.control import Control, TimedOut
from exporter.probes.engines import nccl_api as api
from exporter.probes.engines import nccl_env
from exporter.probes.engines.gid import roce_gid
from exporter.probes.engines.nccl_rank import WARM_UP, Rank, iterations_of, log_file
from exporter.probes.protocol import SMALL, Flow, Nic, Refused, Spec, merged
from exporter.probes.ranks import Ranks

MAX_GPUS = 64


def measure(spec: Spec, control: Control) -> None:
    """One probe; see worker.ENGINES."""
    count = _count(spec, control)
    if spec.nics:
        count = len(spec.nics)
    spec = replace(spec, nics=tuple(_addressed(nic, Path(spec.sysfs)) for nic in spec.nics))
    logs = [log_file() for _ in range(count)]
    environments = [nccl_env.environment(spec, rank, os.environ, path) for rank, (_, path) in enumerate(logs)]
    ranks = Ranks(environments, lambda number, line: Rank(spec, number, count, line, logs[number][0]).live(), control)
    grace = control.deadlines.abort
    try:
        _run(spec, count, ranks, control)
        grace = control.deadlines.end
    except TimedOut:
        grace = control.deadlines.end
        raise
    finally:
        killed = ranks.close(grace)
        if killed:
            control.facts(killed_ranks=str(killed))


def _run(spec: Spec, count: int, ranks: Ranks, control: Control) -> None:
    ready = ranks.gather("ready")
    control.facts(**ready[0]["ready"], ranks=str(count), algorithm=nccl_env.algorithm(spec))
    control.enter("init")
    ranks.tell({"join": ready[0]["unique"]})
    ranks.gather("joined")
    for flow in _flows(spec, count, ranks):
        moved = flow.size * flow.factor * (WARM_UP + spec.batches * iterations_of(spec, flow.kind))
        control.flow(replace(flow, moved=int(moved)))
    control.enter("end")
    ranks.tell({"end": True})
    try:
        ranks.gather("left")
    except TimedOut:
        control.facts(end="late")  # all was measured: whoever does not leave is killed


def _flows(spec: Spec, count: int, ranks: Ranks) -> Iterator[Flow]:
    """The steps of this scope, each measured when it is asked for."""
    if spec.scope == "intra" and count > 1:
        whole = _all(spec, "allreduce", count, ranks)
        yield whole
        if whole.bandwidth < spec.slow_below and count > 2:
            for pairs in rounds(count):
                yield from _one_way(spec, pairs, ranks)
    elif spec.nics and spec.scope != "latency":
        for pair in ((0, 1), (1, 0)):
            yield from _one_way(spec, [pair], ranks)
    if spec.nics:
        (flow,) = _one_way(spec, [(0, 1)], ranks, "pingpong")
        yield flow
    else:
        yield _all(spec, "latency", count, ranks)


def _all(spec: Spec, kind: Literal["allreduce", "latency"], count: int, ranks: Ranks) -> Flow:
    """All ranks at once. The bus bandwidth of an all-reduce is 2(n-1)/n times what its caller sees."""
    ranks.tell({"step": kind})
    done = ranks.gather("done")
    taken = _taken(spec, done) if count > 1 else ""
    seconds = merged([each["done"] for each in done])
    if kind == "latency":
        return Flow(kind, SMALL, seconds, transport=taken)
    return Flow(kind, spec.size, seconds, factor=2 * (count - 1) / count, transport=taken)


def _one_way(
    spec: Spec, pairs: Sequence[tuple[int, int]], ranks: Ranks, step: Literal["sendrecv", "pingpong"] = "sendrecv"
) -> Iterator[Flow]:
    """Disjoint pairs at once, each from its first to its second rank; the slower end's time counts."""
    ranks.tell({"step": step, "pairs": pairs})
    done = ranks.gather("done")
    taken = _taken(spec, done)
    for source, target in pairs:
        seconds = merged([done[source]["done"], done[target]["done"]])
        ends = [nic.subject for nic in spec.nics] or [f"gpu{number}" for number in range(len(done))]
        flow = Flow("sendrecv", spec.size, seconds, ends[source], ends[target], transport=taken)
        yield flow if step == "sendrecv" else replace(flow, kind="latency", size=SMALL)


def _taken(spec: Spec, done: Sequence[Mapping[str, Any]]) -> str:
    return nccl_env.verify(spec, tuple(sorted({one for each in done for one in each["transports"]})))


def rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """Every ordered pair once, in rounds of disjoint pairs: the circle method, each round both ways."""
    seats = list(range(count)) + ([-1] if count % 2 else [])
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = [(a, b) for a, b in zip(seats[:half], reversed(seats[half:]), strict=True) if -1 not in (a, b)]
        yield pairs
        yield [(b, a) for a, b in pairs]
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _addressed(nic: Nic, sysfs: Path) -> Nic:
    """A RoCE port with its GID: NCCL finds it by itself from 2.21 on."""
    if nic.link_layer != "Ethernet" or nic.gid_index >= 0:
        return nic
    return replace(nic, gid_index=roce_gid(sysfs / "class" / "infiniband" / nic.device / "ports" / str(nic.port)))


def _count(spec: Spec, control: Control) -> int:
    """How many GPUs there are, by a process of its own: one that has called CUDA can't be forked."""
    if len(spec.nics) != (2 if spec.scope == "loopback" else len(spec.nics) and 2):
        raise Refused("two_nics", "a loopback needs two active compute ports on this node")
    for nic in spec.nics:
        if not nic.active:
            raise Refused("port_not_active", f"{nic.subject} is not ACTIVE")
    environment = nccl_env.environment(spec, 0, os.environ, os.devnull)
    scout = Ranks([environment], lambda _, line: _scout(line), control)
    try:
        (found,) = scout.gather("gpus")
    finally:
        scout.close(0.0)
    count = int(found["gpus"])
    needed = 2 if spec.nics else max(1, len(spec.gpus))
    if count < needed:
        raise Refused("no_gpu", f"CUDA shows {count} GPUs, {needed} are needed")
    return min(count, MAX_GPUS)


def _scout(line: socket.socket) -> None:
    told: dict[str, object]
    try:
        told = {"gpus": _shown()}
    except Refused as refused:
        told = {"error": refused.reason, "message": str(refused), "refused": True}
    line.sendall(json.dumps(told).encode() + b"\n")


def _shown() -> int:
    """How many GPUs CUDA shows. Raises Refused."""
    cuda = api.load_cuda()
    api.load_nccl()
    number = ctypes.c_int()
    code = int(cuda.cuInit(0)) or int(cuda.cuDeviceGetCount(ctypes.byref(number)))
    if code:
        raise Refused(*api.CUDA_REASONS.get(code, ("cuda_error", f"cuInit: error {code}")))
    return number.value
