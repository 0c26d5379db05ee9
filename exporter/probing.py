"""`eastwest probe`: its flags, which of them go together, and that a scheduler's hook always ends well."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from exporter.model import UserError

PROBE = "measure this node's links now, where it is free"
DEADLINE, LENGTH = "25s", "4h"
DASHES = "-\u2010\u2013\u2014"
"""One too few, or what a text program makes of two."""
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def probe_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `probe`."""
    parser.add_argument("--config", type=Path, metavar="F", help="the daemon's configuration file, if it has one")
    parser.add_argument(
        "what",
        nargs="?",
        choices=("intra", "loopback", "latency", "pause"),
        help="all GPUs; the NICs two by two; just the small operation of both; or not for a while",
    )
    parser.add_argument("--engine", choices=("nccl", "rdma", "tcp"), help="this one only; default: the first that can")
    parser.add_argument(
        "--hook", choices=("epilog", "prolog"), help="as a scheduler's hook: only if due, always status 0"
    )
    parser.add_argument("--deadline", metavar="TIME", help=f"of a hook; default: {DEADLINE}")
    parser.add_argument("--for", dest="length", metavar="TIME", help=f"of a pause; default: {LENGTH}, 0s ends it")
    parser.allow_abbrev = False  # what is said of a hook must be seen before the flags are read


def run_probe(args: argparse.Namespace) -> int:
    """One of the three: a hook, a pause, a probe by hand."""
    for mistake in unfit(args):
        args.parser.error(mistake)
    from exporter import probe

    if args.hook:
        return probe.hook(args.config, DEADLINE if args.deadline is None else args.deadline)
    if args.what == "pause":
        return probe.pause(args.config, LENGTH if args.length is None else args.length)
    if args.what is None:
        raise UserError("probe: what? intra, loopback, latency, pause, or --hook")
    return probe.by_hand(args.config, args.what, args.engine)


def unfit(args: argparse.Namespace) -> Iterator[str]:
    """What was asked for and would be ignored."""
    if args.hook and args.what:
        yield f"--hook measures what is due: {args.what} does not go with it"
    if args.engine and (args.hook or args.what == "pause"):
        yield f"--engine is for a probe by hand: it does not go with {'--hook' if args.hook else 'pause'}"
    if args.length is not None and (args.hook or args.what != "pause"):
        yield "--for is for pause alone"
    if args.deadline is not None and not args.hook:
        yield "--deadline is for --hook alone"


def is_hook(words: Sequence[str]) -> bool:
    """Whether a scheduler asks, as far as that can be told of a command line with a mistake in it."""
    return "probe" in words and any(word.startswith("--ho") or word.strip(DASHES) == "hook" for word in words)


def always_well(run: Callable[[], object]) -> int:
    """Run a hook: 0 whatever becomes of it, for any other status drains the node.

    That is a signal that ends it, a bug, a mistake of the operator, and standard output and error that are closed or
    full. What comes before, while Python starts, is not in our hands, and SIGKILL is in nobody's.
    """
    _own_streams()
    # a second signal may come between any two lines
    with suppress(BaseException):
        _handle(_end)
        try:
            run()
        except SystemExit:
            pass  # what was wrong is said
        except BaseException as error:  # noqa: BLE001 - whatever it is, the job goes on
            sys.stderr.write(f"eastwest: {str(error) or type(error).__name__}\n")
    _handle(signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # what is left unwritten would make the interpreter end with a status of its own
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 0


def _handle(handler: "Callable[[int, FrameType | None], object] | signal.Handlers") -> None:
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> NoReturn:
    """Unwind, once."""
    _handle(signal.SIG_IGN)
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"eastwest: ended by {signal.Signals(number).name}\n".encode())
    raise SystemExit(0)


def _own_streams() -> None:
    """Standard output and error become ours alone, and those of what we start lead nowhere.

    A worker that hangs in a driver outlives us by some seconds: with our pipes in its hands the scheduler would wait
    for it. A hook may also be started with none of the three: its first files would then be taken for them.
    """
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    for number, name in ((1, "stdout"), (2, "stderr")):
        setattr(sys, name, os.fdopen(os.dup(number), "w", buffering=1, errors="backslashreplace"))
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
