"""`eastwest check` and `eastwest ack`: this node's verdict, asked of its daemon or found out here."""

import argparse
import json
import logging
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.model import UserError
from exporter.output import write_out

CHECK = "this node's verdict and findings"
ACK = "acknowledge what is known of a subject, so that it no longer counts"
BAD_USAGE = 64
"""EX_USAGE: a scheduler that reads 1 to 3 as a node's state must not take a typo for one."""
EXITS: Mapping[str, int] = {"ok": 0, "degraded": 1, "critical": 2, "unknown": 3}
DAEMON = "http://127.0.0.1:10428/api/v1/health"
DAEMON_SECONDS, ANSWER_SECONDS = 2.0, 5.0
"""For each word of its answer, and for all of it."""
MOST_BYTES = 4 << 20
log = logging.getLogger(__name__)


def check_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `check`."""
    parser.add_argument("--config", type=Path, metavar="F", help="configuration file (YAML); default: none needed")
    parser.add_argument("--simulate", metavar="SCENARIO", help="a simulated node instead; `help` lists them")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument(
        "--fail-on",
        type=_statuses,
        default=("critical",),
        metavar="LIST",
        help="the verdicts, each by its name, that end with a status of their own: degraded 1, critical 2, unknown 3; "
        "default: critical",
    )
    parser.add_argument(
        "--watch", type=_watch, default=0.0, metavar="SECONDS", help="look twice, so far apart, so that rates count"
    )


def _statuses(text: str) -> tuple[str, ...]:
    named = tuple(part.strip() for part in text.split(",") if part.strip())
    if wrong := [name for name in named if name not in EXITS or name == "ok"]:
        raise argparse.ArgumentTypeError(f"degraded, critical and unknown can be listed, not {', '.join(wrong)}")
    return named


def _watch(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"seconds from 1 to 3600 are needed, not {text!r}")
    return seconds


def run_check(args: argparse.Namespace) -> int:
    """Print the verdict; the exit status says it where it is in --fail-on."""
    try:
        health = _found(args)
    except UserError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"eastwest: {line}\n")
        return BAD_USAGE
    if args.format == "json":
        write_out(json.dumps(health, indent=1) + "\n")
    else:
        from exporter.verdict import text

        write_out(text(health, f"({health['answered_by']})"))
    status = health["status"]
    return EXITS[status] if status in args.fail_on else 0


def _found(args: argparse.Namespace) -> Mapping[str, Any]:
    """The daemon's word where it can be asked, else our own look."""
    if args.config is None and args.simulate is None and not args.watch and (said := _asked()) is not None:
        return {**said, "answered_by": f"the daemon at {DAEMON.partition('/api')[0]}"}
    from exporter.build import node_name
    from exporter.config import load
    from exporter.logs import set_up
    from exporter.polled import polled_once
    from exporter.verdict import document

    config = load(args.config)
    set_up("error", config.log.format)
    node = polled_once(config, args.simulate, args.watch)
    look = "its last quarter of an hour, replayed" if args.simulate else "a look of its own: what shows at once counts"
    return {**document(node.board.snapshot(), node_name(config, args.simulate)), "answered_by": look}


def _asked() -> Mapping[str, Any] | None:
    """What the daemon of this node says, at its default address; None where none answers as one."""
    from exporter.state import UNUSABLE
    from exporter.verdict import text

    try:
        with urllib.request.urlopen(DAEMON, timeout=DAEMON_SECONDS) as answer:
            said = json.loads(_read(answer))
        text(said)
    except (OSError, *UNUSABLE):
        return None
    return said if said.get("status") in EXITS else None


def _read(answer: Any) -> bytes:
    """All of it, within a time and a size; a server that drips is none of ours."""
    end, found = time.monotonic() + ANSWER_SECONDS, b""
    while part := answer.read1(65_536):
        found += part
        if time.monotonic() > end or len(found) > MOST_BYTES:
            raise ValueError("too long an answer")
    return found


def ack_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `ack`."""
    parser.add_argument("subject", metavar="SUBJECT", help="as a finding names it: mlx5_1/1, gpu0, node")
    parser.add_argument("--reason", default="", metavar="TEXT", help="what is known, for whoever looks")
    parser.add_argument("--for", default="7d", dest="length", metavar="TIME", help="default: 7d; 0s takes it back")
    parser.add_argument("--config", type=Path, metavar="F", help="configuration file, for its paths.state")


def run_ack(args: argparse.Namespace) -> int:
    """Acknowledge; the daemon sees it at its next word."""
    from exporter.acks import acknowledge
    from exporter.config import load
    from exporter.quantities import duration

    try:
        seconds = duration(args.length)
    except ValueError as error:
        raise UserError(f"--for: {error} (got {args.length!r})") from error
    if seconds > 366 * 86_400:
        raise UserError("--for: at most 366d")
    ack = acknowledge(load(args.config).paths.state, args.subject, args.reason, seconds)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(ack.until))
    said = f"{ack.subject} is acknowledged until {when}" if seconds else f"{ack.subject} is not acknowledged any more"
    known = _asked() if seconds and args.config is None else None
    if known is not None and not any(f"{one['subject']}/".startswith(f"{ack.subject}/") for one in known["findings"]):
        said += f" (no finding of {DAEMON.partition('/api')[0]} names it now)"
    write_out(f"{said}\n")
    return 0
