"""`eastwest locate` and `eastwest estimate`: flags, and what each runs. Numpy is imported only by a run of
locate.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from exporter import written
from exporter.fleet import cost, units
from exporter.model import UserError
from exporter.output import write_out

LOCATE = "name the slow links of a fleet, from pair measurements you bring"
ESTIMATE = "what a collective costs in time, and what a slow link adds to each step"


def locate_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `eastwest locate`."""
    parser.add_argument(
        "--pairs",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="CSV (time,src,dst,rail,gbit_per_second), a square matrix, or JSON of nccl-tests -J; one or several",
    )
    parser.add_argument("--topology", type=Path, metavar="FILE", help="CSV node,rail,leaf[,rack][,cage], or node,leaf")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--strict", action="store_true", help="end at the first line that can't be read")


def run_locate(args: argparse.Namespace) -> int:
    """Run `eastwest locate`. Exit status: 0 none slow, 1 found, 3 none found but something undetermined.

    Raises UserError on bad input.
    """
    from exporter.fleet.answer import answer  # noqa: PLC0415 - it loads numpy, which nothing else here needs

    return answer(args.pairs, args.topology, args.format, args.strict)


def estimate_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `eastwest estimate`."""
    parser.add_argument("--gpus", type=_count, required=True, metavar="N", help="GPUs of the job")
    parser.add_argument(
        "--bytes", type=_of(written.size), required=True, metavar="SIZE", help="gradients of one GPU: 500MB"
    )
    parser.add_argument(
        "--bandwidth", type=_of(written.rate), required=True, metavar="RATE", help="of a link: 400Gbit/s"
    )
    parser.add_argument("--slow-bandwidth", type=_of(written.rate), metavar="RATE", help="of the slow link")
    parser.add_argument("--model", choices=tuple(cost.MODELS), default="ring", help="default: ring")
    parser.add_argument("--gpus-per-node", type=_count, default=8, metavar="N", help="hierarchical; default: 8")
    parser.add_argument(
        "--nvlink-bandwidth",
        type=_of(written.rate),
        default=450e9,
        metavar="RATE",
        help="hierarchical; default: 450GB/s",
    )
    parser.add_argument(
        "--latency", type=_of(written.duration), default=5e-6, metavar="T", help="of a hop, tree; default: 5us"
    )
    parser.add_argument(
        "--overlap", type=_of(written.duration), default=0.0, metavar="T", help="hidden behind computing: 120ms"
    )
    parser.add_argument("--steps", type=_count, metavar="N", help="also print the sum over N steps")
    parser.add_argument(
        "--oversubscription",
        type=_ratio,
        default=1.0,
        metavar="R",
        help="host over uplink capacity; default: 1",
    )
    parser.add_argument("--uplinks", type=_count, metavar="N", help="of a leaf, for --lost-uplinks")
    parser.add_argument("--lost-uplinks", type=int, default=0, metavar="N", help="of them, how many are down")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run_estimate(args: argparse.Namespace) -> int:
    """Run `eastwest estimate`. Exit status 0. Raises UserError on figures that contradict each other."""
    job = cost.Job(
        args.gpus, args.bytes, args.gpus_per_node, args.nvlink_bandwidth, args.latency, args.overlap
    )  # fmt: skip
    if args.model == "hierarchical" and args.gpus % min(job.per_node, job.gpus):
        raise UserError(f"--gpus {args.gpus} are no whole number of nodes of {job.per_node}")
    uplinks = args.uplinks or 1
    if not 0 <= args.lost_uplinks < uplinks:
        raise UserError(f"--lost-uplinks {args.lost_uplinks}: must be fewer than --uplinks {uplinks}, and at least 0")
    good = cost.shared(args.bandwidth, args.oversubscription, uplinks, 0)
    slow = min(
        args.slow_bandwidth or args.bandwidth,
        cost.shared(args.bandwidth, args.oversubscription, uplinks, args.lost_uplinks),
    )
    spent = cost.cost(job, args.model, good, slow)
    if args.format == "json":
        given = {"model": args.model, "gpus": args.gpus, "bytes": args.bytes}
        rates = {"bandwidth_bytes_per_second": good, "slow_bandwidth_bytes_per_second": slow}
        write_out(json.dumps({**given, **rates, **asdict(spent)}) + "\n")
        return 0
    write_out("".join(f"{line}\n" for line in _estimate_lines(args, spent, slow < good)))
    return 0


def _estimate_lines(args: argparse.Namespace, spent: cost.Cost, slower: bool) -> Iterator[str]:
    size = f"{args.bytes / 1e6:,.6g} MB each"
    yield f"{args.model}, {args.gpus:,} GPUs, {size}: {units.show_seconds(spent.seconds)} a step"
    if slower:
        yield (
            f"with the slow link: {units.show_seconds(spent.slow_seconds)},"
            f" {units.show_seconds(spent.extra_seconds)} more per step, {spent.gpu_seconds:,.3g} GPU-seconds"
        )
        if args.steps:
            yield f"over {args.steps:,} steps: {spent.gpu_seconds * args.steps / 3600:,.4g} GPU-hours"
    if args.model == "funnel":
        yield "funnel sends every GPU's bytes over one link; a real all-reduce is a ring or a tree: --model ring"


def _of(parse: Callable[[str], float]) -> Callable[[str], float]:
    """An argparse type that passes on what the parser says of a mistake."""

    def typed(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return typed


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"a whole number above 0 is needed, not {text!r}")
    return int(text)


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a number above 0 is needed, not {text!r}")
    return value
