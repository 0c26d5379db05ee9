"""What the journal's file holds, and the checks that it is fit to be used: anybody may have written the file, and a
broken disk or another release leaves odd ones. An entry that is not as it should be is dropped, the others are kept.
Pure.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from exporter.judge.trials import BAD, Trial, read_trial
from exporter.probes.protocol import PHASES, Scope, Verdict

VERSION = 1
LEARNT = 20
"""Values kept of each link."""
RECENT = 5
"""Of each link, the last runs as they were, slow ones too."""
LARGEST = 1e20
"""More than any counter of 64 bits."""
LONGEST = 1e9
"""Seconds of anything."""
DEEP = 6
Fits = Callable[[Any], bool]


@dataclass(slots=True)
class Kept:
    """See journal.Journal; by link, `ran` are the last runs as they were, `learnt` those that tell what is usual."""

    last: float | None = None
    records: list[Mapping[str, Any]] = field(default_factory=list)
    learnt: dict[str, list[float]] = field(default_factory=dict)
    ran: dict[str, list[float]] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()


def dump(kept: Kept) -> bytes:
    """As it is written."""
    content = asdict(kept)
    return json.dumps({"version": VERSION, **content}, allow_nan=False).encode()


def read(content: bytes) -> tuple[Kept, int]:
    """What `dump` wrote, and how many entries had to be dropped. Raises ValueError where it is no journal at all."""
    raw = load(content)
    if raw.get("version") != VERSION:
        raise ValueError(f"version {raw.get('version')!r:.40}, this program writes {VERSION}")
    found = [record for record in _listed(raw.get("records")) if is_record(record)]
    trials = [trial for one in _listed(raw.get("trials")) if (trial := _trial(one))]
    learnt, ran = (_rates(raw.get(name)) for name in ("learnt", "ran"))
    last: Any = raw.get("last")
    kept = Kept(float(last) if _time(last) else None, found, learnt, ran, tuple(trials))
    offered = sum(len(raw[name]) if isinstance(raw.get(name), list | dict) else name in raw for name in _SECTIONS)
    dropped = offered - len(found) - len(learnt) - len(ran) - len(trials) + (last is not None and kept.last is None)
    return kept, dropped


def load(content: bytes) -> Mapping[str, Any]:
    """A JSON object. Raises ValueError."""
    try:
        raw: Any = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested without end") from error
    if not isinstance(raw, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - of the file, not of an argument
    return raw


def is_record(raw: Any) -> bool:
    """Whether it is a result as record.make_record makes it, with numbers that can be counted with and served."""
    return _has(raw, _RECORD) and _plain(raw, DEEP)


def is_number(raw: Any, least: float = 0, most: float = LARGEST) -> bool:
    """Whether it is a number in these bounds: not NaN, no infinity, nothing that int() or float() trips over."""
    return type(raw) in (int, float) and least <= raw <= most


def is_count(raw: Any) -> bool:
    """Whether it is a whole number from 0 on."""
    return type(raw) is int and 0 <= raw <= LARGEST


def is_word(raw: Any) -> bool:
    """Whether it may be the value of a label that has few: a short name of an engine or a reason."""
    return isinstance(raw, str) and 0 < len(raw) <= 40 and raw.isascii() and raw.replace("_", "").isalnum()


def _trial(raw: Any) -> Trial | None:
    if not (_has(raw, _TRIAL) and _plain(raw, DEEP)):
        return None
    try:
        return read_trial(raw)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None


def _rates(raw: Any) -> dict[str, list[float]]:
    """By link; of one of which a value is none, nothing is kept: the first of them has a meaning of its own."""
    known = raw.items() if isinstance(raw, dict) else ()
    return {
        key: [float(value) for value in values[:1] + values[1:][-LEARNT:]]
        for key, values in known
        if _text(key) and isinstance(values, list) and all(map(_rate, values))
    }


def _listed(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else []


def _has(raw: Any, fields: Mapping[str, Fits]) -> bool:
    return isinstance(raw, dict) and all(name in raw and fits(raw[name]) for name, fits in fields.items())


def _plain(raw: Any, depth: int) -> bool:
    """Whether it is JSON that can be written again, also what this release has no name for."""
    if isinstance(raw, dict):
        return depth > 0 and all(_text(key) and _plain(value, depth - 1) for key, value in raw.items())
    if isinstance(raw, list):
        return depth > 0 and all(_plain(value, depth - 1) for value in raw)
    return raw is None or isinstance(raw, bool) or _text(raw) or is_number(raw, -LARGEST)


def _text(raw: Any) -> bool:
    """Whether it is text that can be printed: half a surrogate pair can't be."""
    return isinstance(raw, str) and not any("\ud800" <= character <= "\udfff" for character in raw)


def _name(raw: Any) -> bool:
    """Whether it may name a port, a GPU, a rail, a transport; '' is none."""
    return isinstance(raw, str) and len(raw) <= 200 and raw.isprintable()


def _time(raw: Any) -> bool:
    return is_number(raw, 0, 1e11)


def _seconds(raw: Any) -> bool:
    return is_number(raw, 0, LONGEST)


def _rate(raw: Any) -> bool:
    """Bytes/s: from 1 on, since it is divided by."""
    return is_number(raw, 1)


def _one_of(*words: str) -> Fits:
    return lambda raw: isinstance(raw, str) and raw in words


def _list_of(fits: Fits) -> Fits:
    return lambda raw: isinstance(raw, list) and all(map(fits, raw))


def _table_of(fits: Fits) -> Fits:
    return lambda raw: isinstance(raw, dict) and all(map(fits, raw.values()))


def _flow(raw: Any) -> bool:
    if not _has(raw, _FLOW):
        return False
    if raw["kind"] == "latency":
        return is_number(raw.get("latency"), 0, LONGEST)
    known = raw["expected"] is not None
    return _has(raw, _BANDWIDTH) and (is_number(raw.get("ratio")) if known else raw.get("ratio") is None)


_SECTIONS = ("records", "learnt", "ran", "trials")
_FLOW: Mapping[str, Fits] = {
    "kind": _one_of("allreduce", "sendrecv", "write", "latency"),
    **dict.fromkeys(("source", "target", "source_rail", "target_rail", "transport"), _name),
    "expected": lambda raw: raw is None or _rate(raw),
}
_BANDWIDTH: Mapping[str, Fits] = {
    **dict.fromkeys(("bytes_per_second", "slowest", "fastest"), _rate),
    "recent": _list_of(_rate),
}
_RECORD: Mapping[str, Fits] = {
    "time": _time,
    "scope": _one_of(*get_args(Scope)),
    "engine": is_word,
    "result": _one_of(*get_args(Verdict)),
    "reason": _text,
    "message": _text,
    "preempted": lambda raw: isinstance(raw, bool),
    "phase": _one_of(*PHASES),
    "phases": _table_of(_seconds),
    "seconds": _seconds,
    "bytes": is_count,
    "size": is_count,
    "gpus": _list_of(_name),
    "nics": _list_of(_name),
    "open_findings": _list_of(_name),
    "left": is_count,
    "flows": _list_of(_flow),
    "facts": _table_of(_text),
    "evidence": lambda raw: isinstance(raw, dict),
}
_TRIAL: Mapping[str, Fits] = {
    **{name: _RECORD[name] for name in ("time", "scope", "engine", "reason", "nics", "left")},
    "phase": _one_of("", *PHASES),
    "result": _one_of("ok", *BAD),
    "others": _list_of(_name),
    "flows": _list_of(
        lambda raw: _has(raw, {"source": _name, "target": _name, "rate": _rate, "expected": _rate}),
    ),
}
