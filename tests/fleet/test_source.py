"""Readers: every row is right or named; a long file is read in parts with the same result."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import written
from exporter.fleet import intake as intake_module
from exporter.fleet import source, topology
from exporter.fleet.intake import Intake, Skipped
from exporter.fleet.probes import Probes, index, recent
from exporter.model import UserError
from tests.fleet.run import HEADER, rounds, table


def read(*paths: Path, strict: bool = False) -> tuple[Probes, Intake]:
    intake = Intake(Skipped(strict))
    source.read(paths, intake, lambda _name, _done, _size: None)
    return intake.probes(), intake


name = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).map(str.strip).filter(bool)
row = st.tuples(st.integers(0, 10**9), name, name, name, st.floats(1.0, 800.0)).filter(lambda one: one[1] != one[2])


@settings(max_examples=60, deadline=None)
@given(st.lists(row, min_size=1, max_size=20))
def test_csv_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, str, str, float]]) -> None:
    """Any names that CSV can quote come back as they were, with their rates."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(HEADER.split(","))
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("csv") / "p.csv"
    path.write_bytes(text.getvalue().encode())
    try:
        probes, intake = read(path)
    except UserError as error:
        pytest.fail(str(error))
    assert intake.rows == len(rows)
    got = {
        (probes.nodes[s], probes.nodes[d], probes.rails[r])
        for s, d, r in zip(probes.src.tolist(), probes.dst.tolist(), probes.rail.tolist(), strict=True)
    }
    assert got <= {(one[1], one[2], one[3]) for one in rows}
    assert probes.src.size + intake.skipped.count == len(rows)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_data_or_a_user_error(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    directory = tmp_path_factory.mktemp("junk")
    for head in (b"", HEADER.encode() + b"\n", b"{", b",a,b,c\na,"):
        path = directory / "p.csv"
        path.write_bytes(head + junk)
        try:
            probes, _ = read(path)
        except UserError:
            continue
        assert (probes.rate > 0).all()
        assert np.isfinite(probes.time).all()


def test_parts_of_a_long_file_give_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pruning while reading loses nothing that the estimator looks at."""
    path = table(tmp_path / "p.csv", rounds([f"n{at}" for at in range(12)], {"n3": 0.7}, 40))
    whole, _ = read(path)
    monkeypatch.setattr(intake_module, "HELD", 100)
    monkeypatch.setattr("exporter.fleet.pairs_csv.CHUNK", 37)
    parts, _ = read(path)
    for field in ("time", "src", "dst", "rail", "rate"):
        assert np.array_equal(getattr(whole, field), getattr(parts, field)), field
    counts = np.bincount(np.concatenate([whole.src, whole.dst]))
    assert counts.min() >= 64
    assert whole.src.size < 40 * 66


def test_recent_keeps_the_newest_of_each_nic(tmp_path: Path) -> None:
    probes, _ = read(table(tmp_path / "p.csv", rounds(("a", "b", "c"), {}, 10)))
    kept = recent(probes, 4)
    nics = index(kept)
    counts = np.bincount(np.concatenate([nics.src, nics.dst]))
    assert counts.min() >= 4
    assert kept.time.min() == 8.0


def test_lines_are_numbered_across_quoted_line_breaks(tmp_path: Path) -> None:
    path = table(tmp_path / "p.csv", ['0,"a\nb",c,0,390', "", "1,a,b,0,x"])
    _, intake = read(path)
    assert intake.skipped.named == [f"{path} line 5: gbit_per_second can't be 'x'"]


def test_units_agree(tmp_path: Path) -> None:
    for header, value in (("gbit_per_second", "400"), ("gbyte_per_second", "50"), ("bytes_per_second", "5e10")):
        probes, _ = read(table(tmp_path / "p.csv", [f"0,a,b,0,{value}"], f"time,src,dst,rail,{header}"))
        assert probes.rate.tolist() == [50e9]


def test_times_may_be_iso_8601(tmp_path: Path) -> None:
    probes, _ = read(table(tmp_path / "p.csv", ["2026-01-01T00:00:10Z,a,b,0,1", "2026-01-01T00:00:00Z,a,c,0,1"]))
    assert np.diff(probes.time).tolist() == [10.0]


def test_receive_is_the_other_way_round(tmp_path: Path) -> None:
    path = table(tmp_path / "p.csv", ["0,a,b,0,1,receive", "1,a,b,0,2,both"], HEADER + ",direction")
    probes, _ = read(path)
    assert [probes.nodes[at] for at in probes.src.tolist()] == ["b", "a"]
    assert probes.both.tolist() == [False, True]


def test_matrix_rates_rail_and_holes(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("gbit_per_second rail 3,a,b,c\na,,390,391\nb,-,0,x\nc,392,nan,\n")
    probes, intake = read(path)
    assert probes.rails == ("3",)
    assert probes.src.size == 3
    assert intake.skipped.count == 1
    assert "line 3: the rate to c can't be 'x'" in intake.skipped.named[0]


def nccl(first: str, second: str, rate: object, devices: tuple[int, int] = (0, 0), ngpus: int = 1) -> str:
    ranks = [{"hostname": host, "device": number} for host, number in zip((first, second), devices, strict=True)]
    results = [
        {"size": 1024, "out_of_place": {"bus_bw": 1.5}, "in_place": {"bus_bw": "nan"}},
        {"size": 1 << 30, "out_of_place": {"bus_bw": rate}, "in_place": None},
    ]
    config = {"devices": ranks, "ngpus": ngpus, "nthreads": 1}
    return json.dumps({"args": ["/opt/all_reduce_perf"], "config": config, "results": results})


def test_nccl_tests_json(tmp_path: Path) -> None:
    """The bus bandwidth of the largest size, in GB/s; the rail is the GPU's number only where one GPU ran."""
    for number, text in enumerate((nccl("a", "b", 48.5, (5, 5)), nccl("a", "c", 300.0, ngpus=8))):
        (tmp_path / f"{number}.json").write_text(text)
    probes, _ = read(tmp_path / "0.json", tmp_path / "1.json")
    assert probes.rate.tolist() == [48.5e9, 300e9]
    assert [probes.rails[at] for at in probes.rail.tolist()] == ["5", "all"]
    assert probes.both.all()


@pytest.mark.parametrize(
    "text", [nccl("a", "a", 48.0), nccl("a", "b", "nan"), nccl("a", "b", 48.0)[:-5], '{"config": 3}']
)
def test_an_unusable_nccl_run_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "good.json").write_text(nccl("a", "b", 48.0))
    (tmp_path / "bad.json").write_text(text)
    _, intake = read(tmp_path / "good.json", tmp_path / "bad.json")
    assert intake.skipped.count == 1
    assert "bad.json" in intake.skipped.named[0]


def test_topology_by_node_and_by_rail(tmp_path: Path) -> None:
    probes, _ = read(table(tmp_path / "p.csv", rounds(("a", "b", "c"), {})))
    nics = index(probes)
    by_node = topology.read(table(tmp_path / "n.csv", ["a,l1", "b,l2", "c,l1"], "node,leaf"), Skipped())
    leaf, names = by_node.place(probes, nics)
    assert [names[at] for at in leaf.tolist()] == ["l1", "l2", "l1"]
    by_rail = topology.read(
        table(tmp_path / "r.csv", ["a,0,l1,r,9", "b,1,l2,r,9"], "node,rail,leaf,rack,cage"), Skipped()
    )
    assert by_rail.place(probes, nics)[0].tolist() == [0, -1, -1]
    assert by_rail.cage["a", "0"] == "9"


def test_a_topology_that_contradicts_itself_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 3: a was on leaf l1 before"):
        topology.read(table(tmp_path / "t.csv", ["a,l1", "a,l2"], "node,leaf"), Skipped())


@pytest.mark.parametrize(
    ("parser", "text"), [(written.size, "\u0665MB"), (written.rate, "\uff14Gbit/s"), (written.duration, "1.\u0665s")]
)
def test_digits_are_ascii(parser: Callable[[str], float], text: str) -> None:
    with pytest.raises(ValueError, match="is needed"):
        parser(text)
