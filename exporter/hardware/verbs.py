"""The process that asks user-space RDMA: a line of JSON in, a line out. Started by its path, with any Python.

pyverbs comes with the distribution, for the distribution's Python alone (PyPI's needs one very version of rdma-core),
so this file imports nothing of the project. Its calls hold the interpreter's lock and can hang in a driver: never in
the daemon.

Request: the names of the devices that may be opened. Answer, by name: `guid`, and either `error` or `ports`, by
number: `state`, `active_mtu` and `max_mtu` as the kernel numbers them (1 is 256 bytes, 5 is 4096), `width` and
`speed`, as numbered in ib_port_attr; `speed` is active_speed_ex where this rdma-core has that.
"""

import json
import os
import sys
from typing import Any


def main() -> int:
    """Answer standard input until it closes; status 3 where there is no usable pyverbs."""
    try:
        from pyverbs import device  # noqa: PLC0415 - its absence is an answer
        from pyverbs.pyverbs_error import PyverbsError  # noqa: PLC0415 - as above
    except ImportError:
        return 3
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libibverbs warns each time it is loaded, in the daemon's log
    for line in sys.stdin:
        wanted = set(json.loads(line))
        try:
            listed = device.get_device_list()
        except PyverbsError:  # a kernel without RDMA
            listed = []
        found = {}
        for entry in listed:
            name = entry.name.decode(errors="replace")
            if name in wanted:
                found[name] = _device(device, PyverbsError, entry, name)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    return 0


def _device(device: Any, failure: Any, entry: Any, name: str) -> "dict[str, Any]":
    found: dict[str, Any] = {"guid": f"{entry.guid:016x}"}
    try:
        context = device.Context(name=name)
    except failure as error:
        return {**found, "error": " ".join(str(error).split())}
    try:
        count = context.query_device().phys_port_cnt
        return {**found, "ports": {str(number): _port(context.query_port(number)) for number in range(1, count + 1)}}
    except failure as error:
        return {**found, "error": " ".join(str(error).split())}
    finally:
        context.close()


def _port(asked: Any) -> "dict[str, int]":
    return {
        "state": asked.state,
        "active_mtu": asked.active_mtu,
        "max_mtu": asked.max_mtu,
        "width": asked.active_width,
        "speed": getattr(asked, "active_speed_ex", 0) or asked.active_speed,
    }


if __name__ == "__main__":
    sys.exit(main())
