"""User-space RDMA as the daemon sees it: a process each time (verbs.py), a deadline, and the answer decoded.

A process each time, since what it says changes with a reconfiguration only, and one kept would be memory on every node.
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exporter.hardware.child import Child, ChildEndedError
from exporter.hardware.device import optional
from exporter.hardware.files import Files
from exporter.hardware.parse import text
from exporter.hardware.selection import Selection
from exporter.model import SourceError, Unavailable
from exporter.model_verbs import VerbsDevice, VerbsPort, VerbsReading

SYSTEM_PYTHON = "/usr/bin/python3"
SYSTEM_PYVERBS = "/usr/lib/python3/dist-packages/pyverbs"
NODES = Path("/dev/infiniband")
SCRIPT = str(Path(__file__).with_name("verbs.py"))
LANES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
LANE_RATES = {1: 2.5, 2: 5.0, 4: 10.0, 8: 10.3125, 16: 14.0625, 32: 25.0, 64: 50.0, 128: 100.0, 256: 200.0}
"""Gbit/s of a lane, by ib_port_speed (include/rdma/ib_verbs.h)."""
GBIT = 1e9 / 8


def command() -> Sequence[str] | None:
    """The Python that has pyverbs, with verbs.py; None where there is none. Files are looked at, nothing is loaded."""
    if importlib.util.find_spec("pyverbs") is not None:
        return sys.executable, "-P", SCRIPT
    return (SYSTEM_PYTHON, "-I", SCRIPT) if Path(SYSTEM_PYVERBS).is_dir() and Path(SYSTEM_PYTHON).exists() else None


class Verbs:
    """See hardware.base.VerbsSource. `root` is sysfs, `nodes` the folder of device nodes, `deadline` seconds."""

    def __init__(
        self,
        root: Path,
        selection: Selection,
        deadline: float,
        find: Callable[[], Sequence[str] | None] = command,
        nodes: Path = NODES,
    ) -> None:
        self._root = str(root)
        self._selection = selection
        self._deadline = deadline
        self._find = find
        self._nodes = nodes
        self._files = Files()
        self._asked: Child | None = None

    def read(self) -> VerbsReading:
        """See hardware.base.VerbsSource."""
        names = self._names()
        if not self._nodes.is_dir():
            raise Unavailable(f"{self._nodes} is not here: user space has no RDMA device")
        argv = self._find()
        if argv is None:
            raise Unavailable("no pyverbs on this machine")
        if self._asked is not None and self._asked.alive:
            raise _hangs()
        self._asked = asked = Child(argv)
        try:
            answer = asked.ask(json.dumps(names).encode() + b"\n", self._deadline)
        except TimeoutError:
            raise _hangs() from None
        except ChildEndedError as error:
            if str(error) == "ended with status 3":
                raise Unavailable("pyverbs can't be loaded") from error
            raise SourceError("worker_died", f"the verbs process {error}") from error
        finally:
            asked.close()
        still = set(self._names())  # a device that went while it was asked for is not one that does not open
        try:
            devices = self._devices([name for name in names if name in still], json.loads(answer))
            return VerbsReading(tuple(devices), self._exclusive())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SourceError("bad_answer", f"the verbs process said nonsense: {type(error).__name__}") from error

    def _names(self) -> list[str]:
        try:
            found = [
                name for name in self._files.names(f"{self._root}/class/infiniband") if self._selection.device(name)
            ]
        except OSError:
            found = []
        if not found:
            raise Unavailable(f"{self._root}/class/infiniband: no RDMA device")
        return found

    def _devices(self, names: Sequence[str], answer: Mapping[str, Any]) -> list[VerbsDevice]:
        """Those of this machine: in a recorded tree, a device of the same name is another one."""
        found = []
        for name in names:
            told = answer.get(name)
            guid = text(optional(self._files, f"{self._root}/class/infiniband/{name}/node_guid")).replace(":", "")
            if told is None:
                found.append(VerbsDevice(name, "user space does not find it (is its provider installed?)"))
            elif told["guid"] == guid:
                ports = {int(number): port(values) for number, values in told.get("ports", {}).items()}
                found.append(VerbsDevice(name, str(told.get("error", "")), ports))
        return found

    def _exclusive(self) -> bool | None:
        """Whether each RDMA device belongs to one network namespace; None before Linux 5.2, or where it is not said."""
        mode = optional(self._files, f"{self._root}/module/ib_core/parameters/netns_mode").strip()
        return {b"Y": False, b"N": True}.get(mode)


def port(values: Mapping[str, Any]) -> VerbsPort:
    """The kernel's numbers in base units; None for one that has no meaning."""
    lanes, lane = LANES.get(int(values["width"])), LANE_RATES.get(int(values["speed"]))
    return VerbsPort(
        active_mtu=_mtu(int(values["active_mtu"])),
        max_mtu=_mtu(int(values["max_mtu"])),
        rate=lanes * lane * GBIT if lanes is not None and lane is not None else None,
    )


def _mtu(number: int) -> int | None:
    return 128 << number if 1 <= number <= 5 else None


def _hangs() -> SourceError:
    return SourceError("timeout", "user-space RDMA does not answer: a call into a driver hangs")
