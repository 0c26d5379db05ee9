"""The journal: what is in its file is checked, what can't be written is said before anything is measured."""

import json
import math
import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.exposition import number
from exporter.judge.probes import ProbeScene, judge_probes
from exporter.probe import lines
from exporter.probes.figures import samples
from exporter.probes.journal import FILE, ROOM, Journal
from exporter.probes.kept import read
from exporter.probes.launch import Stop
from exporter.probes.prober import Round
from exporter.probes.protocol import Flow, Outcome
from exporter.probes.scheduled import ScheduledProbes, one_line
from tests.probes.lab import Lab, good
from tests.props import few, junk, words


def round_of(lab: Lab, by_hand: bool = False, until: float | None = None) -> Round:
    stop = Stop()
    try:
        return lab.prober().round(stop, by_hand=by_hand, until=until)
    finally:
        stop.close()


def reasons(done: Round) -> list[str]:
    return [refusal.reason for refusal in done.refusals]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A journal as it is after some days: results, values learnt, slow trials, an error, one that gave way."""
    folder = tmp_path_factory.mktemp("state")
    lab = Lab(folder, settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)
    for turn in range(8):
        lab.gives = lambda spec, _, at=turn: good(spec, 200e9 if at > 5 else 300e9)  # type: ignore[misc]  # as it is now
        assert round_of(lab).records
        lab.clock.now += 7000
    lab.gives = lambda spec, _: Outcome(spec, "error", "remote_error", "it broke", phase="run")
    round_of(lab)
    return (folder / FILE).read_bytes()


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """As on a full disk: no file may be longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_where_results_cannot_be_kept_nothing_is_measured_but_by_hand(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / FILE).mkdir(parents=True)
    for folder in (tmp_path / "missing", tmp_path / "file", tmp_path / "taken"):
        lab = Lab(folder)
        for _ in range(2):
            done = round_of(lab)
            assert (reasons(done), done.records) == (["journal_unusable"], ())
            assert str(folder) in str(done.refusals[0])
        assert lab.launched == []
        by_hand = round_of(lab, by_hand=True)
        assert by_hand.records[0]["result"] == "ok"
        assert str(folder) in by_hand.unkept


def test_a_disk_on_which_a_result_has_no_room_is_as_good_as_full(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    with files_end_at(ROOM // 2):
        assert reasons(round_of(lab)) == ["journal_unusable"]
        assert reasons(round_of(lab)) == ["journal_unusable"]
    assert lab.launched == []
    assert list(tmp_path.glob(f".{FILE}*")) == []
    done = round_of(lab)
    assert done.records
    assert (done.unkept, reasons(round_of(lab))) == ("", ["min_gap"])


def test_a_daemon_whose_disk_was_full_probes_again_when_it_is_not(tmp_path: Path) -> None:
    lab, stop = Lab(tmp_path), Stop()
    prober = lab.prober()
    with files_end_at(ROOM // 2):
        assert reasons(prober.round(stop)) == ["journal_unusable"]
    assert prober.round(stop).records
    stop.close()


def test_a_process_that_is_killed_in_mid_probe_has_probed(tmp_path: Path) -> None:
    def killed(*_: object) -> Outcome:
        raise KeyboardInterrupt

    lab = Lab(tmp_path, gives=killed)
    with pytest.raises(KeyboardInterrupt):
        round_of(lab)
    lab.gives = lambda spec, _: good(spec)
    assert reasons(round_of(lab)) == ["min_gap"]


def test_an_engine_that_cannot_run_here_is_no_probe_that_the_next_has_to_wait_for(tmp_path: Path) -> None:
    lab = Lab(tmp_path, gives=lambda spec, _: Outcome(spec, "refused", "no_nccl"))
    assert {record["result"] for record in round_of(lab).records} == {"refused"}
    assert Journal(tmp_path).since_last(lab.clock.now) is None
    lab.gives = lambda spec, _: good(spec)
    assert round_of(lab).records[0]["result"] == "ok"


def test_memory_serves_a_daemon_without_a_state_folder_but_no_hook() -> None:
    lab, stop = Lab(), Stop()
    prober = lab.prober()
    assert prober.round(stop).records
    assert reasons(prober.round(stop)) == ["min_gap"]
    assert reasons(round_of(lab, until=lab.clock.now + 25)) == ["journal_unusable"]
    stop.close()


def test_a_journal_that_is_removed_is_forgotten_by_a_daemon_too(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    prober = lab.prober()
    round_of(lab)
    prober.journal.refresh()
    assert prober.journal.records(lab.clock.now)
    (tmp_path / FILE).unlink()
    prober.journal.refresh()
    assert (prober.journal.records(lab.clock.now), prober.journal.since_last(lab.clock.now)) == ([], None)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 9}', b"[" * 100_000, b"\xff\x00", b"1" * 5000, b"null"])
def test_what_is_no_journal_is_set_aside_by_the_next_probe_and_said_once(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(content)
    lab = Lab(tmp_path)
    prober, stop = lab.prober(), Stop()
    prober.journal.refresh()
    assert (tmp_path / FILE).read_bytes() == content, "without the lock nothing is touched"
    assert prober.round(stop).records
    stop.close()
    assert (tmp_path / "probes.unreadable").read_bytes() == content
    assert len([record for record in caplog.records if "set aside" in record.message]) == 1
    assert reasons(round_of(lab)) == ["min_gap"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw["records"][0].update(bytes=math.inf),
        lambda raw: raw["records"][0].pop("result"),
        lambda raw: raw["records"][0].update(result="fine"),
        lambda raw: raw["records"][0]["flows"][0].update(bytes_per_second=math.nan),
        lambda raw: raw["records"][0]["evidence"].update(cpu=math.nan),
        lambda raw: raw["records"][0].update(time=10**400),
        lambda raw: raw["learnt"].update({key: [0] * 5 for key in raw["learnt"]}),
        lambda raw: raw["trials"][0].update(left=math.inf),
        lambda raw: raw["trials"][0]["flows"][0].update(expected=0),
    ],
)
def test_an_entry_that_is_not_as_it_should_be_is_left_out_said_once_and_the_rest_is_kept(
    spoil: Any, written: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, dropped = read(written)
    assert (dropped, len(whole.records) > 10, len(whole.trials) > 3, len(whole.learnt) > 3) == (0, True, True, True)
    raw = json.loads(written)
    spoil(raw)
    (tmp_path / FILE).write_text(json.dumps(raw))
    rest, dropped = read(json.dumps(raw).encode())
    lost = [len(getattr(whole, name)) - len(getattr(rest, name)) for name in ("records", "learnt", "ran", "trials")]
    assert dropped == sum(lost) > 0
    journal = Journal(tmp_path)
    journal.refresh()
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / FILE}: {dropped} entries are not as they should be and left out"
    ]


odd: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.sampled_from([None, True, 0, -1, 1, 0.5, math.nan, math.inf, -math.inf, 10**400, 1e308, 5e-324, "", "gpu0"]),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(),
        st.text(max_size=8),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def spoiled(draw: st.DrawFn, whole: Any) -> Any:
    """The same with one thing in it replaced, removed or added."""
    raw = deepcopy(whole)
    at = raw
    while True:
        keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return raw
        key = draw(st.sampled_from(keys))
        if isinstance(at[key], dict | list) and at[key] and draw(st.integers(0, 7)):
            at = at[key]
            continue
        if draw(st.booleans()):
            at[key] = draw(odd)
        elif isinstance(at, dict) and draw(st.booleans()):
            at[draw(words)] = draw(odd)
        else:
            del at[key]
        return raw


def finite(value: Any) -> bool:
    """Whether it is JSON that every reader takes."""
    return json.loads(json.dumps(value, allow_nan=False)) is not None


def use(folder: Path, lab: Lab) -> None:
    """Everything that is made of a journal."""
    journal, now = Journal(folder), lab.clock.now
    records = journal.records(now)
    assert all(number(sample.value) not in ("NaN", "+Inf", "-Inf") for sample in samples(records))  # type: ignore[arg-type]  # no histogram among them
    for record in records:
        assert "\n".join([*lines(record), one_line(record)]).encode()
    assert all(map(math.isfinite, (*journal.used(now), journal.since_last(now) or 0)))
    for key in read_keys(folder):
        assert all(map(math.isfinite, (journal.expected(key) or 1, *journal.recent(key))))
    for gap in (0.0, 6 * 3600.0):
        assert all(finite(found.evidence) for found in judge_probes(ProbeScene(now, journal.trials, gap, now - gap)))
    probes = ScheduledProbes(lab.prober(), lambda: 0.5)
    text = probes.document().decode()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    probes.stop()


def read_keys(folder: Path) -> list[str]:
    """The links of which something is known."""
    try:
        kept, _ = read((folder / FILE).read_bytes())
    except ValueError:
        return []
    return [*kept.learnt, *kept.ran]


ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    0.5,
    math.nan,
    math.inf,
    10**400,
    "",
    "x",
    "\ud800",
    [],
    [math.nan],
    {},
    {"a": math.inf},
    [1],
    [{}],
)


def variants(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The entry with each of its fields, and of its first flow's, missing or something else."""
    for name in entry:
        yield {key: value for key, value in entry.items() if key != name}
        yield from ({**entry, name: value} for value in ODD)
    for flow in entry.get("flows", ())[:1]:
        yield from ({**entry, "flows": [other]} for other in variants(flow))


def test_any_field_of_any_entry_may_be_anything(written: bytes, tmp_path: Path) -> None:
    raw = json.loads(written)
    kept, _ = read(written)
    for name in ("records", "trials"):
        raw[name] += [other for entry in (raw[name][0], raw[name][1], raw[name][-1]) for other in variants(entry)]
    raw["learnt"] |= {f"learnt {place}": value for place, value in enumerate(ODD)}
    raw["ran"] |= {f"ran {place}": [1e9, 1e9, 1e9, 1e9, value] for place, value in enumerate(ODD)}
    (tmp_path / FILE).write_text(json.dumps(raw))
    left, dropped = read((tmp_path / FILE).read_bytes())
    assert dropped > 1000
    assert left.records[: len(kept.records)] == kept.records
    lab = Lab(tmp_path)
    lab.clock.now = kept.records[-1]["time"]
    use(tmp_path, lab)
    text = "".join(line for record in left.records for line in lines(record))
    assert "nan" not in text
    assert "inf" not in text


@given(data=st.data())
@few
def test_no_spoiled_journal_stops_anything_or_gives_a_number_that_is_none(
    data: st.DataObject, written: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("state", numbered=True)
    (folder / FILE).write_text(json.dumps(data.draw(spoiled(json.loads(written)))))
    lab = Lab(folder)
    lab.clock.now = 1_700_000_000.0 + 8 * 7000
    use(folder, lab)
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)
    assert round_of(lab).records[0]["result"] == "ok"
    use(folder, lab)


@given(content=st.one_of(junk, odd.map(lambda raw: json.dumps(raw).encode())))
@few
def test_no_file_stops_anything(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("state", numbered=True)
    (folder / FILE).write_bytes(content)
    use(folder, Lab(folder))


@given(
    sections=st.fixed_dictionaries(
        {"version": st.just(1)}, optional=dict.fromkeys(("last", "records", "learnt", "ran", "trials"), odd)
    )
)
@few
def test_no_section_stops_anything(sections: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("state", numbered=True)
    (folder / FILE).write_text(json.dumps(sections))
    use(folder, Lab(folder))


@pytest.mark.parametrize(
    "nonsense",
    [
        Flow("allreduce", 1 << 20, (5e-324,) * 3, moved=10),
        Flow("allreduce", 1 << 20, (1e-3,), factor=math.nan, moved=10),
        Flow("allreduce", 1 << 20, (1e-3,), moved=-5),
        Flow("allreduce", 1 << 20, (1e-3,), moved=math.inf),  # type: ignore[arg-type]  # as a broken worker says it
        Flow("allreduce", 1 << 20, (1e-3,), transport="\ud800", moved=10),
    ],
)
def test_numbers_of_a_worker_that_cannot_be_are_an_error_and_teach_nothing(tmp_path: Path, nonsense: Flow) -> None:
    lab = Lab(tmp_path, gives=lambda spec, _: replace(good(spec), flows=(nonsense,)))
    record = round_of(lab).records[0]
    assert (record["result"], record["reason"], record["flows"], record["bytes"]) == ("error", "bad_worker", [], 0)
    kept, dropped = read((tmp_path / FILE).read_bytes())
    assert (dropped, kept.learnt, kept.ran, kept.trials[0].result) == (0, {}, {}, "error")


def test_the_last_runs_are_shown_as_they_were_slow_ones_too(tmp_path: Path) -> None:
    lab = Lab(tmp_path, settings=replace(Lab().settings, engines=("nccl",)))
    lab.limit(min_gap=0.0, max_seconds=1e9, max_bytes=1 << 60)
    for rate in (300e9, 301e9, 302e9, 303e9, 99e9, 98e9, 97e9):
        lab.gives = lambda spec, _, at=rate: good(spec, at)  # type: ignore[misc]  # as it is now
        record = round_of(lab).records[0]
    flow = record["flows"][0]
    assert flow["recent"] == pytest.approx([301e9, 302e9, 303e9, 99e9, 98e9], rel=1e-6)
    assert flow["expected"] == pytest.approx(302e9, rel=1e-6)
    said = "\n".join(lines(record))
    assert "expected 302.0 GB/s (32%) SLOW" in said
    assert "last 301.0 302.0 303.0 99.0 98.0" in said


def test_a_result_of_tomorrow_neither_uses_up_the_budget_nor_is_shown_for_ever(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    round_of(lab)
    journal = Journal(tmp_path)
    assert journal.used(lab.clock.now)[0] > 0
    before = lab.clock.now - 30 * 86_400
    assert (journal.used(before), journal.records(before), journal.since_last(before)) == ((0, 0), [], None)


def test_what_is_not_readable_is_not_written_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    lab = Lab(tmp_path)
    assert reasons(round_of(lab)) == ["journal_unusable"]
    done = round_of(lab, by_hand=True)
    assert "no regular file" in done.unkept
    assert (tmp_path / FILE).is_fifo()
