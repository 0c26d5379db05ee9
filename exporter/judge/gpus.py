"""Judging GPUs and NVLinks. See exporter/reasons/gpus.py for what each finding means."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from exporter.history import History
from exporter.judge.base import BIT_ERROR_LIMIT, MANY, duration, listed, times, within
from exporter.life import Life, forgotten
from exporter.model import Evidence, Finding
from exporter.model_gpu import FABRIC_COMPLETED, Gpu, NvLink, XidLine
from exporter.reasons import REASONS

WINDOW, PART, PARTS, HOUR = 300.0, 300.0, 3, 3600.0
THROTTLED = 0.1
SLOWING = ("software_thermal", "hardware_thermal", "hardware_power_brake")
FATAL_XIDS = frozenset({79, 95, 119, 120, 121})
LINK_XIDS = frozenset({74, 136, 137, 144, 145, 146, 147, 148, 149, 150, 155})
"""Of 144 to 150 only the kernel log says whether one was fatal (gpud#1174): here they are not called so."""
RECOVERIES = ("recovery", "recovery_failed")
REPEATS = ("replay", "crc_flit", "crc_data", "effective_errors", "receive_errors", "local_link_integrity")
REPEATS_PER_HOUR = 60.0
TIMES_MEDIAN = 10


def _found(check: str, reason: str, subject: str, message: str, evidence: Evidence) -> Finding:
    return Finding(check, subject, REASONS[reason].severity, reason, message, evidence)


def counted(gpu: Gpu) -> Mapping[str, float]:
    """What is judged over time of a GPU, by a flat name: `throttle:hardware_thermal`, `xid:74`."""
    values: dict[str, float] = {f"throttle:{reason}": seconds for reason, seconds in gpu.throttle.items()}
    values |= {f"xid:{xid}": count for xid, count in (gpu.xids or {}).items()}
    return values


def judge_gpus(  # noqa: PLR0913 - one call site; each is a different fact
    gpus: Sequence[Gpu],
    history: History,
    now: float,
    lives: Mapping[str, Life],
    wanted: int | None,
    lines: Sequence[XidLine] = (),
) -> Iterator[Finding]:
    """Every finding about GPUs; `lives` by UUID, `wanted` is `expect.gpus`, `lines` the kernel's log of an hour."""
    lost = [gpu for gpu in gpus if not gpu.up]
    present = {gpu.uuid for gpu in gpus}
    missing = [life for uuid, life in lives.items() if uuid not in present and missed(life, now)]
    answering = len(gpus) - len(lost)
    fewer = len(gpus) < sum(missed(life, now) for life in lives.values())
    yield from _gone(lost, missing if fewer else (), answering, lives, now)
    if wanted is not None and answering + len(lost) + len(missing) < wanted:
        yield _found(
            "gpu",
            "too_few_gpus",
            "node",
            f"{answering} GPUs answer of the {wanted} that are expected",
            {"gpus": answering, "expected": wanted},
        )
    joined = any(gpu.fabric is not None and gpu.fabric.state == FABRIC_COMPLETED for gpu in gpus)
    for gpu in gpus:
        if gpu.up:
            yield from _fabric(gpu, joined)
            yield from _throttle(gpu, history, now)
            yield from _xids(gpu, history, now, lines)


def missed(life: Life, now: float) -> bool:
    """Whether a GPU that is not listed should be: it was there, and not so long ago that nobody waits for it."""
    return life.ever_up and not forgotten(life, now)


def _gone(
    lost: Sequence[Gpu], missing: Sequence[Life], answering: int, lives: Mapping[str, Life], now: float
) -> Iterator[Finding]:
    """Those that do not answer, and those that are not even listed: one finding where it is most of them at once."""
    since = [life.since for life in (*(lives[gpu.uuid] for gpu in lost if gpu.uuid in lives), *missing)]
    number = len(lost) + len(missing)
    if number >= MANY and number > answering and since and within(since):
        gone = [*(gpu.subject for gpu in lost), *(life.subject for life in missing)]
        yield _found(
            "gpu",
            "gpus_missing",
            "node",
            f"{number} of {number + answering} GPUs do not answer, since {duration(now - min(since))}: the driver may "
            "not be loaded",
            {"gpus": tuple(sorted(gone, key=lambda one: (len(one), one)))},
        )
        return
    for gpu in lost:
        yield _found("gpu", "gpu_lost", gpu.subject, "does not answer any more: off the bus, or it needs a reset", {})
    for life in missing:
        ago = duration(now - life.since)
        yield _found("gpu", "gpu_lost", life.subject, f"is not listed any more, since {ago}", {})


def _fabric(gpu: Gpu, joined: bool) -> Iterator[Finding]:
    fabric = gpu.fabric
    if fabric is None:
        return
    if fabric.state != FABRIC_COMPLETED:
        if joined and fabric.state:
            yield _found(
                "gpu",
                "fabric_incomplete",
                gpu.subject,
                f"has not joined the NVLink fabric (state {fabric.state}, 3 is done) though others have",
                {"state": fabric.state},
            )
        return
    wrong = sorted(condition for condition, bad in fabric.conditions.items() if bad)
    if wrong or fabric.status:
        status = f"status {fabric.status}" if fabric.status else ""
        yield _found(
            "gpu",
            "fabric_unhealthy",
            gpu.subject,
            f"has a place in the NVLink fabric that is not well: {listed([*wrong, status] if status else wrong)}",
            {"conditions": tuple(wrong), "status": fabric.status},
        )


def _throttle(gpu: Gpu, history: History, now: float) -> Iterator[Finding]:
    shares = {}
    for reason in SLOWING:
        moved = history.moved(now, gpu.subject, f"throttle:{reason}", WINDOW)
        if moved is not None and moved.seconds >= WINDOW / 2 and moved.amount > 0:
            shares[reason] = moved.per_second
    if shares and max(shares.values()) >= THROTTLED:
        worst = max(shares, key=lambda reason: shares[reason])
        yield _found(
            "gpu",
            "gpu_throttled",
            gpu.subject,
            f"had its clocks held down {shares[worst]:.0%} of the last 5 minutes ({worst.replace('_', ' ')}): a slow "
            "GPU looks like a slow link",
            {f"{reason}_ratio": round(share, 4) for reason, share in shares.items()},
        )


def _xids(gpu: Gpu, history: History, now: float, lines: Sequence[XidLine]) -> Iterator[Finding]:
    """Xids of the last hour: by the log's word where it has one, else by NVML's events and the number alone."""
    mine = [line for line in lines if gpu.pci_address.startswith(line.pci_address) and line.at > now - HOUR]
    fatal = Counter(line.xid for line in mine if _fatal(line))
    other = Counter(line.xid for line in mine if not _fatal(line) and line.xid in LINK_XIDS)
    links = sorted({line.link for line in mine if line.link is not None})
    told = {line.xid for line in mine}
    for name in history.moving(gpu.subject):
        kind, _, number = name.partition(":")
        moved = history.moved(now, gpu.subject, name, HOUR) if kind == "xid" else None
        if moved is None or not moved.amount or int(number) in told:
            continue
        if int(number) in FATAL_XIDS:
            fatal[int(number)] = int(moved.amount)
        elif int(number) in LINK_XIDS:
            other[int(number)] = int(moved.amount)
    for reason, xids in (("xid_fatal", fatal), ("xid_error", other)):
        if xids:
            words = listed(f"Xid {xid} {times(count)}" for xid, count in sorted(xids.items()))
            where = f" (NVLink {listed(str(link) for link in links)})" if links else ""
            evidence = {f"xid_{xid}": count for xid, count in sorted(xids.items())}
            yield _found("gpu", reason, gpu.subject, f"had {words} in the last hour{where}", evidence)


def _fatal(line: XidLine) -> bool:
    """What the line says of itself; a number that is always fatal where it says nothing."""
    if line.xid in LINK_XIDS and line.fatal is not None:
        return line.fatal
    return line.xid in FATAL_XIDS


def judge_nvlinks(gpus: Sequence[Gpu], expected: Mapping[int, int], history: History, now: float) -> Iterator[Finding]:
    """Every finding about NVLinks; `expected` is how many each GPU should have active, by its number."""
    for gpu in gpus:
        if not gpu.up or gpu.mig:
            continue
        yield from _inactive(gpu, expected.get(gpu.number))
        rates = _repeats(gpu, history, now)
        for link in gpu.links:
            yield from _errors(gpu, link, history, now, rates)
            ratio = link.bit_error_ratios.get("effective")
            if ratio is not None and ratio > BIT_ERROR_LIMIT:
                yield _found(
                    "nvlink",
                    "nvlink_bit_errors",
                    link_subject(gpu, link),
                    f"has {ratio:.1e} errors a bit after correction",
                    {"bit_error_ratio": ratio},
                )


def link_subject(gpu: Gpu, link: NvLink) -> str:
    """The link in a finding: `gpu0/link03`."""
    return f"{gpu.subject}/link{link.number:02}"


def _inactive(gpu: Gpu, expected: int | None) -> Iterator[Finding]:
    if expected is None or not gpu.links or any(link.up is None for link in gpu.links):
        return
    active = sum(link.up is True for link in gpu.links)
    if active < expected:
        down = tuple(f"link{link.number:02}" for link in gpu.links if not link.up)
        yield _found(
            "nvlink",
            "nvlinks_inactive",
            gpu.subject,
            f"has {active} of {expected} NVLinks active: {listed(down)} {'is' if len(down) == 1 else 'are'} down",
            {"active": active, "expected": expected, "links": down},
        )


def _repeats(gpu: Gpu, history: History, now: float) -> Mapping[str, dict[int, float]]:
    """Replays and CRC errors an hour by kind and link, of those that went on for all of the last minutes."""
    rates: dict[str, dict[int, float]] = defaultdict(dict)
    moving = {link.number: history.moving(link_subject(gpu, link)) for link in gpu.links}
    if not any(moving.values()):
        return rates
    for link in gpu.links:
        subject = link_subject(gpu, link)
        for kind in REPEATS:
            if kind in link.errors:
                moved = history.steady(now, subject, kind, PART, PARTS) if kind in moving[link.number] else None
                rates[kind][link.number] = moved.per_second * HOUR if moved is not None else 0.0
    return rates


def _errors(
    gpu: Gpu, link: NvLink, history: History, now: float, rates: Mapping[str, dict[int, float]]
) -> Iterator[Finding]:
    subject = link_subject(gpu, link)
    if not history.moving(subject):
        return
    evidence: dict[str, float] = {}
    said = []
    for kind in RECOVERIES:
        moved = history.moved(now, subject, kind, HOUR) if kind in link.errors else None
        if moved is not None and moved.amount:
            evidence[kind] = int(moved.amount)
            said.append(f"{kind.replace('_', ' ')} {times(moved.amount)} in the last {duration(moved.seconds)}")
    for kind, by_link in rates.items():
        own = by_link.get(link.number, 0.0)
        others = [rate for number, rate in by_link.items() if number != link.number]
        usual = median(others) if others else 0.0
        if own > REPEATS_PER_HOUR and own > TIMES_MEDIAN * usual:
            evidence[f"{kind}_per_hour"] = round(own, 1)
            said.append(f"{own:,.0f} {kind.replace('_', ' ')} errors an hour, its siblings {usual:,.0f} (median)")
    if said:
        yield _found("nvlink", "nvlink_errors", subject, f"makes errors: {'; '.join(said)}", evidence)
