"""What nccl-tests writes with `-J FILE`: one run between two nodes is one measurement.

Read: `config.devices[].hostname`, `config.ngpus`, `config.nthreads`,
`results[].{size,in_place,out_of_place}.bus_bw` (GB/s), `start_time`, `args[0]` (src/util.cu of nccl-tests
2.17). The largest size counts; runs of another operation or size are another tool, since their rates can't be
compared.
"""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import numpy as np

from exporter.fleet.intake import Intake, Rows

GBYTE = 1e9
TWO = 2


def read(text: str, name: str, intake: Intake) -> None:
    """Take the run of one file; one that can't be used is counted and named. Raises UserError where strict."""
    intake.use_unit("gbyte_per_second", name)
    try:
        run = json.loads(text)
        hosts, rail = _hosts(run["config"])
        size, rate = _busbw(run["results"])
        engine = f"{PurePath(str((run.get('args') or ['nccl-tests'])[0])).name} {size}"
        time = _start(run.get("start_time"))
    except json.JSONDecodeError as error:
        intake.unreadable(f"{name} line {error.lineno}", "not complete JSON; did the run end early?")
        return
    except (KeyError, TypeError, AttributeError, IndexError):
        intake.unreadable(name, "no JSON output of nccl-tests (-J): config.devices and results are needed")
        return
    except ValueError as error:
        intake.unreadable(name, str(error))
        return
    absent = np.full(1, np.nan)
    rows = Rows(
        np.array([time]), hosts[:1], hosts[1:], [rail], np.array([rate * GBYTE]), [engine], np.zeros(1, np.int64),
        np.ones(1, bool), absent, absent, absent,
    )  # fmt: skip
    intake.take(rows, ["1"], name)


def _hosts(config: Mapping[str, Any]) -> tuple[list[str], str]:
    """The two nodes and the rail: the GPU's number where each node ran one and the same, else `all`."""
    devices = config["devices"]
    ranks = Counter(str(device["hostname"]) for device in devices)
    if len(ranks) != TWO:
        raise ValueError(f"a run of {len(ranks)} nodes: only runs between two nodes say which one is slow")
    numbers = {int(device["device"]) for device in devices}
    # A process with several GPUs lists its first one only.
    alone = int(config.get("ngpus", 1)) * int(config.get("nthreads", 1)) == 1 and len(devices) == TWO
    return list(ranks), str(numbers.pop()) if alone and len(numbers) == 1 else "all"


def _busbw(results: list[Mapping[str, Any]]) -> tuple[int, float]:
    """The largest size, and its better bus bandwidth in GB/s. Raises ValueError where that size gave none."""
    largest = max(results, key=lambda result: int(result["size"]))
    rates = [(largest.get(place) or {}).get("bus_bw") for place in ("out_of_place", "in_place")]
    measured = [float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0]
    if not measured:
        raise ValueError("its largest size has no bus bandwidth")
    return int(largest["size"]), max(measured)


def _start(text: object) -> float:
    """Seconds; 0 where the file does not say. nccl-tests writes local time: only the order matters here."""
    if text is None:
        return 0.0
    try:
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
