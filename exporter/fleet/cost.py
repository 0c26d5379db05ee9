"""What a collective costs in time, and what a slow link adds. Pure; standard library only.

Times are those of bandwidth, with no latency but the tree's: a lower bound on real ones. A synchronous
collective runs at the pace of its slowest link, so one NIC that lost d of its rate makes every GPU wait 1 /
(1 - d) as long.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A data-parallel job: `size` bytes of gradients on each of `gpus` GPUs; overlap and latency in seconds.

    `nvlink` is the rate inside a node in bytes/s, used by the hierarchical model with `per_node` GPUs.
    """

    gpus: int
    size: float
    per_node: int = 8
    nvlink: float = 450e9
    latency: float = 5e-6
    overlap: float = 0.0


def ring(job: Job, bandwidth: float) -> float:
    """Ring all-reduce: every GPU sends 2 (N - 1) / N of its bytes at `bandwidth` bytes/s."""
    return 2 * (job.gpus - 1) / job.gpus * job.size / bandwidth


def funnel(job: Job, bandwidth: float) -> float:
    """Everything over one link: N x size. What a parameter server does; the textbook's worst case."""
    return job.gpus * job.size / bandwidth


def tree(job: Job, bandwidth: float) -> float:
    """Pipelined double binary tree: up and down at full rate, and the depth in latencies."""
    return 2 * job.size / bandwidth + 2 * math.log2(job.gpus) * job.latency


def hierarchical(job: Job, bandwidth: float) -> float:
    """Reduce inside the node over NVLink, then one ring for each rail across nodes with a share of the bytes."""
    inside = min(job.per_node, job.gpus)
    nodes = job.gpus / inside
    return 2 * (inside - 1) / inside * job.size / job.nvlink + 2 * (nodes - 1) / nodes * (job.size / inside) / bandwidth


MODELS = {"ring": ring, "funnel": funnel, "tree": tree, "hierarchical": hierarchical}


def shared(bandwidth: float, oversubscription: float, uplinks: int, lost: int) -> float:
    """Bytes/s that is left of a port when all its leaf's hosts cross at once over the uplinks that still
    work.

    `oversubscription` is host capacity over uplink capacity (1: none). With per-flow hashing the unlucky flow
    gets less than this mean.
    """
    return bandwidth * min(1.0, (uplinks - lost) / (uplinks * oversubscription))


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds a step at the good and at the slow rate, what that adds beyond the overlap, and GPU-seconds
    idle.
    """

    seconds: float
    slow_seconds: float
    extra_seconds: float
    gpu_seconds: float


def cost(job: Job, model: str, bandwidth: float, slow: float) -> Cost:
    """What it costs each step that one link carries `slow` instead of `bandwidth` bytes/s."""
    time = MODELS[model]
    good, bad = time(job, bandwidth), time(job, slow)
    extra = max(0.0, bad - job.overlap) - max(0.0, good - job.overlap)
    return Cost(good, bad, extra, job.gpus * extra)
