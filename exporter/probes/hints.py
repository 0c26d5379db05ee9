"""Published figures, as hints beside a first measurement. Never a threshold: they differ by size, topology and library.

From Azure's AI-benchmarking-guide (all-reduce of 64 MiB over 8 GPUs, bus bandwidth).
"""

from collections.abc import Mapping

from exporter.probes.journal import Record

PUBLISHED: Mapping[str, float] = {"H100": 362e9, "A100": 167e9}
SIZE = 64 << 20


def hint(record: Record) -> str:
    """A line where there is a figure for this size and number of GPUs; '' where there is none."""
    if record["scope"] != "intra" or record["size"] != SIZE or record["facts"].get("ranks") != "8":
        return ""
    figures = ", ".join(f"{model} {value / 1e9:.0f}" for model, value in PUBLISHED.items())
    return f"published for 8 GPUs with NVSwitch at this size, in GB/s: {figures}"
