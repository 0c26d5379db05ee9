"""Argument parsing: each command's flags, and the function that runs it. What a command needs it imports itself."""

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from exporter import __version__
from exporter.checkup import ACK, BAD_USAGE, CHECK, ack_flags, check_flags, run_ack, run_check
from exporter.fleet.command import ESTIMATE, LOCATE, estimate_flags, locate_flags, run_estimate, run_locate
from exporter.model import UserError
from exporter.output import write_out
from exporter.probing import PROBE, always_well, is_hook, probe_flags, run_probe

Command = Callable[[argparse.Namespace], int]
STRICT = ("check", "probe")
"""Commands whose other statuses say something of the node."""
DURATIONS = ("--for", "--deadline")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    return always_well(lambda: _run(words, hook=True)) if is_hook(words) else _run(words)


def _run(words: Sequence[str], hook: bool = False) -> int:
    """A user's mistake is a line on standard error, status 2. A hook has its own way with signals."""
    try:
        args = _arguments(words)
        command: Command = args.run
        if threading.current_thread() is threading.main_thread() and not hook:
            signal.signal(signal.SIGTERM, _end)
            if command is _serve:  # for which it means something else; others leave it as it is (nohup)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return command(args)
    except UserError as error:
        for line in str(error).splitlines():
            print(f"eastwest: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        return 130


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    try:
        parser = _parser()
        if any(name in words for name in STRICT):
            parser.bad_usage = BAD_USAGE
        args, unknown = parser.parse_known_args(_joined(words))
        if unknown:
            args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit:
        write_out("")  # what --help and --version left to be written
        raise
    return args


def _joined(words: Sequence[str]) -> Sequence[str]:
    """`--for -1h` as `--for=-1h`: argparse takes the value for a flag, and says that there is none."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in DURATIONS and word[:1] == "-" and word[1:2].isdigit():
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _end(_number: int, _frame: object) -> None:
    """Unwind, so that temporary files go; the daemon has a way of its own once it serves."""
    sys.exit(128 + signal.SIGTERM)


def _seconds(text: str) -> float:
    try:
        value = float(text) if text.isascii() else 0.0
    except ValueError:
        value = 0.0
    if not 1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"seconds from 1 to 86400 are needed, not {text!r}")
    return value


def _nodes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 4 <= int(text[:6]) <= 16):
        raise argparse.ArgumentTypeError(f"a number of nodes from 4 to 16 is needed, not {text!r}")
    return int(text)


class _Parser(argparse.ArgumentParser):
    """Bad usage ends with `bad_usage`; the parsers of commands are of this class too."""

    bad_usage = 2

    def error(self, message: str) -> NoReturn:
        """See argparse."""
        self.print_usage(sys.stderr)
        self.exit(self.bad_usage, f"{self.prog}: error: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(prog="eastwest", description="Which GPU-to-GPU link of this node is slow, and on what evidence.")
    parser.add_argument("--version", action="version", version=f"eastwest {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (summary, flags, run) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        flags(command)
        if name in STRICT:
            command.bad_usage = BAD_USAGE  # its status is read as a node's
        command.set_defaults(run=run, parser=command)
    return parser


def _node_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="F", help="configuration file (YAML); default: none needed")
    parser.add_argument(
        "--simulate", metavar="SCENARIO", help="a simulated node instead of this one; `help` lists them"
    )


def _serve_flags(parser: argparse.ArgumentParser) -> None:
    _node_flags(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to answer; default: 0.0.0.0:10428")


def _serve(args: argparse.Namespace) -> int:
    if args.simulate == "help":
        return _list_scenarios()
    from exporter.app import run

    return run(args.config, args.listen, args.simulate)


def _metrics_flags(parser: argparse.ArgumentParser) -> None:
    _node_flags(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write FILE in one step, for node_exporter's textfile collector",
    )


def _metrics(args: argparse.Namespace) -> int:
    if args.simulate == "help":
        return _list_scenarios()
    from exporter.oneshot import metrics

    return metrics(args.config, args.simulate, args.output)


def _check(args: argparse.Namespace) -> int:
    return _list_scenarios() if args.simulate == "help" else run_check(args)


def _demo_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=_seconds, default=60.0, metavar="S", help="how long in all; default: 60")
    parser.add_argument("--nodes", type=_nodes, default=4, metavar="N", help="simulated nodes, 4 to 16; default: 4")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:0", help="where their pages are")


def _demo(args: argparse.Namespace) -> int:
    from exporter.demo import demo

    return demo(args.seconds, args.nodes, args.listen)


def _config_flags(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser("check", help="list every mistake of a file, with its path")
    check.add_argument("file", type=Path)
    actions.add_parser("reference", help="every key, as Markdown").set_defaults(file=None)


def _config(args: argparse.Namespace) -> int:
    if args.file is None:
        from exporter.reference import markdown

        write_out(markdown())
        return 0
    from exporter.config import load

    web = load(args.file).web.config_file
    if web is not None:
        from exporter.web import Web

        Web(web)
    write_out(f"{args.file}: ok\n")
    return 0


def _release_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="F", help="the daemon's configuration file, if it has one")
    parser.add_argument(
        "--for", dest="length", default="10m", metavar="TIME", help="how long; default: 10m, 0s ends it at once"
    )


def _release(args: argparse.Namespace) -> int:
    import time

    from exporter.config import load
    from exporter.quantities import duration
    from exporter.release import ask

    try:
        seconds = duration(args.length)
    except ValueError as error:
        raise UserError(f"--for: {error} (got {args.length!r})") from error
    until = ask(load(args.config).paths.state, seconds)
    when = time.strftime("%H:%M:%S", time.localtime(until))
    write_out(f"the daemon has closed NVML until {when}\n" if seconds else "the daemon opens NVML again\n")
    return 0


def _catalogue_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("part", nargs="?", choices=("metrics", "findings"), help="one of the two; default: both")


def _catalogue(args: argparse.Namespace) -> int:
    from exporter.catalogue import markdown, reasons

    if args.part != "findings":
        write_out(markdown())
    if args.part is None:
        write_out("\n")
    if args.part != "metrics":
        write_out(reasons())
    return 0


def _list_scenarios() -> int:
    from exporter.hardware.scenarios import SCENARIOS

    write_out("".join(f"{name:<16} {scenario.sentence}\n" for name, scenario in SCENARIOS.items()))
    return 0


COMMANDS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None], Command]] = {
    "serve": ("run the daemon of this node", _serve_flags, _serve),
    "metrics": ("poll every check once and print the metrics", _metrics_flags, _metrics),
    "check": (CHECK, check_flags, _check),
    "locate": (LOCATE, locate_flags, run_locate),
    "estimate": (ESTIMATE, estimate_flags, run_estimate),
    "ack": (ACK, ack_flags, run_ack),
    "release": ("close NVML for a while, for maintenance of the driver or a GPU", _release_flags, _release),
    "probe": (PROBE, probe_flags, run_probe),
    "demo": ("a simulated fleet with three faults, found and shown", _demo_flags, _demo),
    "config": ("look at a configuration file", _config_flags, _config),
    "catalogue": ("every metric and every reason of a finding, as Markdown", _catalogue_flags, _catalogue),
}
