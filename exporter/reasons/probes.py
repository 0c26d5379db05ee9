"""Reasons for findings on what probes measured, or could not measure."""

from exporter.model import Severity
from exporter.reasons.base import Reason

PROBES = (
    Reason(
        "probe_intra_slow",
        Severity.CRITICAL,
        "The node's GPUs exchange data slower over NVLink than they usually do, all of them or so many pairs that no "
        "one GPU or pair is it.",
        "NCCL's all-reduce over all GPUs (bus bandwidth), against the median of the node's own earlier probes of the "
        "same engine and size: `eastwest_probe_transmit_bandwidth_bytes_per_second` and "
        "`eastwest_probe_expected_bandwidth_bytes_per_second`, `scope` intra. Then every pair each way: the "
        "evidence says how many are slow, and how slow they are in the middle.",
        "Below 90 % of it in two probes in a row (ADR 33, ADR 35), and more than half of the GPUs have no fast way "
        "left, or more than three pairs are slow that no GPU explains, or no pair is; none counts during which a "
        "finding on a GPU was open. What is 10 % slower than that still is a finding of its own beside it.",
        "a bad cable or a slow network: nothing of it left the node. Nor one bad GPU: then most others are fast "
        "without it.",
        "`eastwest probe intra`, once the node is free; look at what all GPUs share: clocks and throttling, a new "
        "driver or NCCL, the transport in `/api/v1/probes` (shared memory instead of P2P), then the NVSwitches "
        "(`nvidia-smi nvlink -e`).",
    ),
    Reason(
        "probe_pair_slow",
        Severity.CRITICAL,
        "Two GPUs exchange data slower than they usually do (`gpu0/gpu3`), or one GPU with most others (`gpu3`).",
        "NCCL's send and receive between every two GPUs, each way, which follows where the all-reduce is slow; against "
        "the pair's own earlier values, in `/api/v1/probes`.",
        "Below 90 % in two probes in a row, and below 90 % of what most GPUs give; a GPU where all its ways are, or "
        "those with most others. An all-reduce that is as fast as usual clears it.",
        "slow GPUs: a GPU that computes slowly still copies at full speed.",
        "`nvidia-smi nvlink -s` and `-e` for both: fewer links or errors; drain, reset the GPUs, then reseat.",
    ),
    Reason(
        "probe_loopback_slow",
        Severity.CRITICAL,
        "A NIC sends or receives slower than it usually does, `direction` in the evidence says which; or most NICs of "
        "a leaf or of the node do together (`node`), `nics` in the evidence says which.",
        "Each compute NIC against another of its leaf, each way by itself; against the pair's own earlier values: "
        "`/api/v1/probes`, and by rail `eastwest_probe_transmit_bandwidth_bytes_per_second` and "
        "`_receive_bandwidth_bytes_per_second`, `scope` loopback.",
        "Below 90 % in two probes in a row. It is the NIC where others of its leaf are fast meanwhile; with one "
        "partner alone it may be that partner. It is the node where more than half of a leaf's NICs are slow, or of "
        "several leaves of two; a NIC that is 10 % slower still is named beside it. None counts during which a "
        "finding on either NIC was open.",
        "the fabric beyond the leaf: only NICs, cables and one switch lie between. On the node: any one NIC; whether "
        "it is the leaf, its MTU, the PCIe paths or the host is not told apart.",
        "`eastwest probe loopback`, once the node is free; look at the PCIe path and the NUMA node of the NIC, then at "
        "its cable and switch port. On the node: what the NICs in the evidence share.",
    ),
    Reason(
        "probe_failing",
        Severity.DEGRADED,
        "Probes begin and do not end well: what they should measure is not known.",
        "`eastwest_probe_runs_total`, `result` error or timeout; phase and message in `/api/v1/probes`. Of a NIC where "
        "only its probes fail, else of the node.",
        "Three in a row, or one whose process does not even end by SIGKILL.",
        "a slow link: nothing was measured. A probe that gave way to work, or an engine that can't run here, is none.",
        "Read the message (docs/probes.md, Engines); `NCCL_DEBUG` output is in it where NCCL said why.",
    ),
    Reason(
        "probe_unverified",
        Severity.INFO,
        "No probe of this node has succeeded for long though one is due: whether its links are fast is not known.",
        "The time of the last result; the evidence says what was against it (`eastwest_probe_skipped_total`).",
        "7 days after it was due.",
        "a healthy node, or a bad one: counters alone speak for it.",
        "Let the node be free for a minute: a prolog or epilog hook (docs/probes.md), or a drain.",
    ),
)
