"""The process that talks to NVML: a line of JSON in, a line of JSON out. Started as `python -m`, by argv alone.

It ends when its standard input closes, so that nothing of it outlives the daemon: after the call it is in, or by
force when that takes too long. It is small on purpose: each module that it imports is memory on every node.
"""

import ctypes
import json
import os
import signal
import sys
import time
from queue import SimpleQueue
from threading import Thread
from typing import NoReturn

from exporter.hardware import nvml_codes as codes
from exporter.hardware.nvml import Pynvml
from exporter.hardware.nvml_load import Load
from exporter.hardware.nvml_session import Session

GRACE = 10.0
"""Seconds that a call may still take after the daemon has gone."""
PR_SET_PDEATHSIG = 1
LEVELS = ("off", "none", "basic", "all", "load")


def main() -> int:
    """Serve standard input until it closes; the argument is how much is asked of each link, or `load`."""
    level = sys.argv[1] if len(sys.argv) == 2 else ""
    if level not in LEVELS:
        _say(f"usage: nvml_worker {'|'.join(LEVELS)}")
        return 2
    _die_with_the_daemon()
    # What the driver's library prints would garble the answers.
    out = os.dup(1)
    os.dup2(2, 1)
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    Thread(target=_listen, args=(requests,), name="listen", daemon=True).start()
    session = _session(level)
    try:
        while requests.get() is not None:
            message = session.read()
            _write(out, json.dumps(message, separators=(",", ":")).encode() + b"\n")
            if message["init"] == codes.VERSION_MISMATCH:
                return 0  # the old library stays mapped in this process: only a new one can load the new
    except BrokenPipeError:
        return 0
    finally:
        session.close()
    return 0


def _session(level: str) -> Session | Load:
    """What is asked: who uses the GPUs, or all there is to know of them and their links."""
    if level == "load":
        return Load(Pynvml())
    return Session(Pynvml(), level, time.monotonic, _say)  # type: ignore[arg-type]  # one of LEVELS, as Level is


def _die_with_the_daemon() -> None:
    """A second string to the closed pipe: SIGTERM when the thread that started us ends, with it the daemon."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which then tells us
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _stop(_number: int, _frame: object) -> NoReturn:
    """Python runs this between calls into the driver, never inside one; NVML is then shut down."""
    raise SystemExit(0)


def _listen(requests: "SimpleQueue[bytes | None]") -> None:
    # not sys.stdin: its lock, held here, would stop the interpreter from ending
    while request := os.read(0, 4096):
        requests.put(request)
    requests.put(None)
    time.sleep(GRACE)
    os._exit(3)


def _write(out: int, content: bytes) -> None:
    while content:
        content = content[os.write(out, content) :]


def _say(what: str) -> None:
    sys.stderr.write(f"WARNING nvml worker: {what}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
