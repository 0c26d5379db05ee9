"""What a rank's NCCL is told by its environment, and what it logs of the transports it took. Pure.

The environment is made from nothing: an NCCL_* that the daemon inherited, or that ~/.nccl.conf has, would make the
numbers of two nodes incomparable. Some files can't be kept out (see not_kept_out), but do not override what is set here
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
"""

import re
from collections.abc import Mapping
from pathlib import Path

from exporter.probes.protocol import Failed, Spec

PASSED = ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
CONF_FILE_SINCE = 22300
"""NCCL's version code of 2.23, the first that reads NCCL_CONF_FILE instead of the file in the home folder."""
ETC = Path("/etc/nccl.conf")
ALGORITHMS = {"ring": "Ring", "tree": "Tree"}
_VIA = re.compile(r"\[(?:send|receive)\] via (NET/\S+)|via ((?:P2P|SHM|NET|CollNet|NVLS)/\S+)")
_WARNING = re.compile(r"NCCL WARN (.+)")
_RETRY = re.compile(r"status=12\b|Got completion .*error 12\b")


def environment(spec: Spec, rank: int, inherited: Mapping[str, str], log: str) -> Mapping[str, str]:
    """Everything that a rank has in its environment; `log` is the file for NCCL's messages."""
    made = {name: inherited[name] for name in PASSED if name in inherited}
    made |= {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "NCCL_CONF_FILE": "/dev/null",
        "NCCL_CROSS_NIC": "0",
        "NCCL_DEBUG": "INFO",  # the transports are told at this level only
        "NCCL_DEBUG_FILE": log,
        "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM",
        "NCCL_IB_MERGE_NICS": "0",
        "NCCL_MNNVL_ENABLE": "0",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_PXN_DISABLE": "1",
        "NCCL_RAS_ENABLE": "0",
        "NCCL_SOCKET_IFNAME": f"={spec.interface}",
    }
    if spec.gpus:
        made["CUDA_VISIBLE_DEVICES"] = ",".join(spec.gpus)
    if (pinned := algorithm(spec)) in ALGORITHMS:
        made |= {"NCCL_ALGO": ALGORITHMS[pinned], "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0"}
    if spec.nics:
        made |= _of_nic(spec, rank)
    return made


def _of_nic(spec: Spec, rank: int) -> Mapping[str, str]:
    """The way through exactly one port, and no other: without it the rank fails, and is not quietly slow."""
    nic = spec.nics[rank]
    made = {
        "NCCL_IB_HCA": f"={nic.device}:{nic.port}",  # without `=` it is a prefix: mlx5_1 means mlx5_10 too
        "NCCL_NET": "IB",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
    }
    if nic.gid_index >= 0:
        made["NCCL_IB_GID_INDEX"] = str(nic.gid_index)
    if spec.traffic_class is not None:
        made["NCCL_IB_TC"] = str(spec.traffic_class)
    return made


def algorithm(spec: Spec) -> str:
    """The one that this probe pins; a small operation by itself is timed as a job would see it."""
    return "auto" if spec.scope == "latency" else spec.algorithm


def not_kept_out(code: int, home: Path | None, etc: Path = ETC) -> str:
    """The files whose settings count too, where they are there. An older NCCL finds the home folder by the user's
    number and not by HOME (userHomeDir in src/misc/param.cc): no environment leads it elsewhere.
    """
    files = [home / ".nccl.conf"] if home is not None and code < CONF_FILE_SINCE else []
    return " ".join(str(file) for file in [*files, etc] if file.is_file())


def transports(log: str) -> tuple[str, ...]:
    """Every transport that NCCL says it took, without the number of its device: `P2P/CUMEM`, `NET/IB/GDRDMA`."""
    found = {net or other for net, other in _VIA.findall(log)}
    return tuple(sorted({re.sub(r"/\d+(\(\d+\))?(?=/|$)", "", one) for one in found}))


def verify(spec: Spec, taken: tuple[str, ...]) -> str:
    """The transports in one word, where they are what the probe is for. Raises Failed.

    Inside a node that is NVLink or PCIe (P2P), or shared memory where the GPUs have neither; through NICs it is
    InfiniBand's verbs and nothing else.
    """
    allowed = ("NET/IB",) if spec.nics else ("P2P", "SHM", "NVLS")
    wrong = [one for one in taken if not one.startswith(allowed)]
    if wrong:
        raise Failed("wrong_transport", f"NCCL took {', '.join(wrong)} where {' or '.join(allowed)} was to be measured")
    if not taken:
        raise Failed("unknown_transport", "NCCL does not say by which transport its ranks are connected")
    return " ".join(taken)


def complaint(log: str) -> tuple[str, str]:
    """The cause that NCCL's warnings name, and the first of them; '' where there is none."""
    warnings = _WARNING.findall(log)
    if any(_RETRY.search(line) for line in log.splitlines()):
        return "ib_retry_exceeded", next((line for line in warnings if _RETRY.search(line)), "status 12")
    if any("driver version is insufficient" in line for line in warnings):
        return "driver_too_old", "the driver is too old for this build of NCCL"
    if any("No transport found" in line for line in warnings):
        return "no_transport", "NCCL finds no transport between the ranks"
    return "", warnings[0] if warnings else ""
