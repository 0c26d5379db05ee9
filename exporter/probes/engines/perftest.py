"""What perftest's programs print, read: JSON, what its older versions write instead of JSON, and the table. Pure.

Only the table says its unit. `MB/sec` and `MiB/sec` both are 2^20 bytes; `Gb/sec` is 10^9 bits. JSON has whatever was
asked for: Gb/s with --report_gbits, else MiB/s; latencies are microseconds
(https://github.com/linux-rdma/perftest, src/perftest_parameters.c).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

UNITS: Mapping[str, float] = {"Gb/sec": 1e9 / 8, "MB/sec": 2.0**20, "MiB/sec": 2.0**20}
_COLUMNS = re.compile(r"BW (?:peak|average)\[[^]]*\]|[\d.]+% percentile\[[^]]*\]|tps average|[^\s\[]+(?:\[[^]]*\])?")
_UNIT = re.compile(r"BW average\[([^]]*)\]")
_ENTRY = re.compile(r'"?([A-Za-z_]\w*(?:\.\d+)?)"?\s*:\s*"?([-+.\w]+)"?')
_ROW = re.compile(r"\s*\d+(?:\s+[-+.\dinfa]+)+\s*")
FAULTS: tuple[tuple[str, str], ...] = (
    ("Couldn't allocate MR", "memlock"),
    ("Unable to find the Infiniband/RoCE device", "no_device"),
    ("Failed to get IB device", "no_device"),
    ("Did not detect devices", "no_device"),
    ("Couldn't connect to", "no_peer"),
    ("Couldn't listen to port", "port_taken"),
    ("Incompatibility issue with GID types", "wrong_gid"),
    ("transport retry counter exceeded", "retry_exceeded"),
    ("Failed status 12", "retry_exceeded"),
    ("Failed to exchange data", "peer_lost"),
    ("Port number", "port_not_active"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One row: `bandwidth` and `peak` in bytes/s, `latency` (typical, one way) in seconds; None where not told."""

    size: int
    iterations: int
    bandwidth: float | None = None
    peak: float | None = None
    latency: float | None = None


def read(output: str, json_unit: str) -> Measured | None:
    """The last result of an output, in any of the three forms; None where there is none. `json_unit`: see UNITS."""
    return _table(output) or _json(output, UNITS[json_unit])


def fault(output: str) -> tuple[str, str]:
    """The cause in a word and the line that names it; `perftest_failed` and the last line where none is known."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for text, reason in FAULTS:
        for line in lines:
            if text in line:
                return reason, line
    return "perftest_failed", lines[-1] if lines else "it said nothing"


def _table(output: str) -> Measured | None:
    """Rows under a header that names the columns; of several rows the last."""
    header, found = "", None
    for line in output.splitlines():
        if "#bytes" in line:
            header = line
        elif header and _ROW.fullmatch(line):
            found = _row(header, line.split()) or found
    return found


def _row(header: str, values: list[str]) -> Measured | None:
    named = dict(zip(_COLUMNS.findall(header), values, strict=False))
    try:
        size, iterations = int(named["#bytes"]), int(named["#iterations"])
        if found := _UNIT.search(header):
            unit = found[1]
            bandwidth, peak = (_positive(named[f"BW {which}[{unit}]"], UNITS[unit]) for which in ("average", "peak"))
            return Measured(size, iterations, bandwidth, peak)
        typical = named.get("t_typical[usec]") or named["t_avg[usec]"]
        return Measured(size, iterations, latency=_positive(typical, 1e-6))
    except (ValueError, KeyError):
        return None


def _json(output: str, scale: float) -> Measured | None:
    """Real JSON first; then any `name: value`, quoted or not, with or without commas too many."""
    entries: dict[str, str] = {}
    start = output.find("{")
    try:
        document = json.JSONDecoder().raw_decode(output[start:])[0] if start >= 0 else {}
        entries = {name: str(value) for name, value in dict(document["results"]).items()}
    except (ValueError, KeyError, TypeError):
        _, _, results = output.rpartition("results")
        entries = dict(_ENTRY.findall(results))
    try:
        size, iterations = int(entries["MsgSize"]), int(entries.get("n_iterations", 0))
    except (KeyError, ValueError):
        return None
    bandwidth, peak = (_positive(entries.get(name, ""), scale) for name in ("BW_average", "BW_peak"))
    latency = _positive(entries.get("t_typical", entries.get("t_avg", "")), 1e-6)
    return Measured(size, iterations, bandwidth, peak, latency) if bandwidth or latency else None


def _positive(text: str, scale: float) -> float | None:
    """A number above 0, times `scale`; perftest writes 0.00 for what it did not measure."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value * scale if 0 < value < float("inf") else None
