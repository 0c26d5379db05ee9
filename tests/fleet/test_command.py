"""`locate` and `estimate` as run: exit status, JSON, sentences, and files that are no measurements."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.model import UserError
from tests.fleet.run import estimate, locate, rounds, table

NCCL_TESTS_106 = Path(__file__).parents[3] / "shared" / "data" / "pairs-644.csv"
GOLDEN = Path(__file__).parent / "golden"
FOUR = ("a", "b", "c", "d")
LINK_KEYS = (
    "node rail verdict loss loss_low loss_high probes slow_probes direction cause evidence next".split()  # noqa: SIM905 - read as the contract writes it
)


@pytest.mark.skipif(not NCCL_TESTS_106.exists(), reason="the recorded pairs of nccl-tests issue 106 are not here")
def test_nccl_tests_106(capsys: pytest.CaptureFixture[str]) -> None:
    """Five hand measurements name node 644, clear four nodes, and leave the pair that nobody else met open."""
    assert locate("--pairs", NCCL_TESTS_106, "--format", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [(link["node"], link["rail"]) for link in answer["links"]] == [("644", "0")]
    assert answer["links"][0]["loss"] == pytest.approx(1 - 49.33 / 87.6, abs=0.02)
    assert {one["node"] for one in answer["undetermined"]} == {"284", "678"}
    assert answer["healthy"] == 4
    for one in answer["undetermined"]:
        assert any(cleared in one["next"] for cleared in ("641", "699", "404", "632")), one["next"]


def test_json_has_the_contracts_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert locate("--pairs", table(tmp_path / "p.csv", rounds(FOUR, {"b": 0.6}, 4)), "--format", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["links", "nodes", "leaves", "pairs", "undetermined", "healthy", "input"]
    (link,) = answer["links"]
    assert list(link) == LINK_KEYS
    assert (link["node"], link["rail"], link["verdict"], link["direction"]) == ("b", "0", "slow", "both")
    assert link["loss_low"] <= link["loss"] <= link["loss_high"]
    assert answer["input"] == {"rows": 24, "skipped": 0}


def test_a_healthy_fleet_is_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert locate("--pairs", table(tmp_path / "p.csv", rounds(FOUR, {})), "--format", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["healthy"] == 4
    assert not answer["links"]
    assert not answer["undetermined"]


def test_two_nodes_cannot_be_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert locate("--pairs", table(tmp_path / "p.csv", rounds(("a", "b"), {"a": 0.5}, 9))) == 3
    out = capsys.readouterr().out
    assert "can't be told apart" in out
    assert "0 cleared" in out


def test_a_node_of_the_topology_without_probes_is_not_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = table(tmp_path / "p.csv", rounds(FOUR, {}))
    topology = table(tmp_path / "t.csv", [f"{node},leaf1" for node in (*FOUR, "e")], "node,leaf")
    assert locate("--pairs", pairs, "--topology", topology, "--format", "json") == 3
    (doubt,) = json.loads(capsys.readouterr().out)["undetermined"]
    assert doubt["node"] == "e"
    assert "no probe" in doubt["why"]


def test_text_is_a_colleagues_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole report is a golden file: wording changes only with its diff."""
    names = [f"gpu-{number}" for number in range(8)]
    pairs = table(tmp_path / "p.csv", rounds(names, {"gpu-3": 0.69}, 2))
    topology = table(tmp_path / "t.csv", [f"{name},leaf{at // 4}" for at, name in enumerate(names)], "node,leaf")
    assert locate("--pairs", pairs, "--topology", topology) == 1
    out = capsys.readouterr().out
    assert "gpu-3 rail 0 lost 31 % against 7 of 7 partners, each fast with someone else; intra-leaf too" in out
    assert out == (GOLDEN / "one_slow.txt").read_text()


def test_a_node_slow_on_its_rails_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row.replace(",0,", f",{rail},", 1) for rail in range(4) for row in rounds(FOUR, {"d": 0.7}, 4)]
    assert locate("--pairs", table(tmp_path / "p.csv", rows), "--format", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["nodes"] == [{"node": "d", "verdict": "slow", "loss": pytest.approx(0.3, abs=0.02)}]
    assert answer["links"] == []


def test_two_slow_rails_of_one_cage_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row.replace(",0,", f",{rail},", 1)
        for rail in range(6)
        for row in rounds(FOUR, {"d": 0.7} if rail < 2 else {}, 4)
    ]
    places = [f"{node},{rail},leaf,{rail // 2}" for node in FOUR for rail in range(6)]
    topology = table(tmp_path / "t.csv", places, "node,rail,leaf,cage")
    assert locate("--pairs", table(tmp_path / "p.csv", rows), "--topology", topology, "--format", "json") == 1
    links = json.loads(capsys.readouterr().out)["links"]
    assert {(link["node"], link["rail"]) for link in links} == {("d", "0"), ("d", "1")}
    assert all("same cage 0" in link["evidence"] for link in links)


def test_a_pair_slow_with_each_other_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rounds(tuple("abcdef"), {}, 4)
    rows = [row.replace("390", "200").replace("391", "200") if ",a,b," in row else row for row in rows]
    assert locate("--pairs", table(tmp_path / "p.csv", rows), "--format", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [(pair["src"], pair["dst"]) for pair in answer["pairs"]] == [("a", "b")]
    assert answer["links"] == []


def test_a_rail_slow_as_a_whole_is_not_called_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        row.replace(",0,", f",{rail},", 1)
        for rail in range(4)
        for row in rounds(FOUR, {}, 4, 200.0 if rail == 3 else 390.0)
    ]
    assert locate("--pairs", table(tmp_path / "p.csv", rows), "--format", "json") == 3
    (doubt,) = json.loads(capsys.readouterr().out)["undetermined"]
    assert (doubt["node"], doubt["rail"]) == ("*", "3")


NO_DATA = {
    "empty": b"",
    "header_only": b"time,src,dst,rail,gbit_per_second\n",
    "wrong_header": b"a,b,c\n1,2,3\n",
    "no_unit": b"time,src,dst,rail\n0,a,b,0\n",
    "two_units": b"time,src,dst,rail,gbit_per_second,gbyte_per_second\n0,a,b,0,1,2\n",
    "column_twice": b"time,src,dst,rail,rail,gbit_per_second\n0,a,b,0,0,1\n",
    "zeros": bytes(5000),
    "not_json": b'{"config":',
    "other_json": b'{"a": 1}',
    "nothing_readable": b"time,src,dst,rail,gbit_per_second\n0,a,b,0,nan\n1,a,b,0,0\n2,a,b,0,-4\n3,a,b,0,1e30\n",
    "open_quote": b'time,src,dst,rail,gbit_per_second\n0,a,b,0,"39',
    "blank_header": b"\n0,a,b,0,1\n",
    "not_square": b",a,b\na,1,2\nc,1,2\n",
}


@pytest.mark.parametrize("name", NO_DATA)
def test_no_data_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.csv"
    path.write_bytes(NO_DATA[name])
    with pytest.raises(UserError, match=r"[a-z]") as caught:
        locate("--pairs", path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_directory_and_a_missing_file_are_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(UserError, match=str(path)):
            locate("--pairs", path)


BAD_ROWS = {
    "nan": "9,a,b,0,nan",
    "infinite": "9,a,b,0,inf",
    "zero": "9,a,b,0,0",
    "negative": "9,a,b,0,-5",
    "absurd": "9,a,b,0,1e30",
    "too_fast": "9,a,b,0,9000",
    "text": "9,a,b,0,fast",
    "underscore": "9,a,b,0,39_0",
    "loop": "9,a,a,0,390",
    "no_node": "9,,b,0,390",
    "no_rail": "9,a,b,,390",
    "no_time": "soon,a,b,0,390",
    "short": "9,a,b,0",
    "long": "9,a,b,0,390,1",
    "quote": '9,a,"b"x,0,390',
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_named_and_changes_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = rounds(FOUR, {"b": 0.6}, 4)
    assert locate("--pairs", table(tmp_path / "good.csv", good), "--format", "json") == 1
    wanted = json.loads(capsys.readouterr().out)
    path = table(tmp_path / "bad.csv", [*good[:3], BAD_ROWS[name], *good[3:]])
    assert locate("--pairs", path, "--format", "json") == 1
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["links"] == wanted["links"]
    assert answer["input"]["skipped"] == 1
    assert "(skipped)" in err
    assert name == "too_fast" or "bad.csv line 5" in err
    with pytest.raises(UserError):
        locate("--pairs", path, "--strict")


def test_order_duplicates_and_clocks_do_not_change_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = rounds(FOUR, {"b": 0.6}, 4)
    off = [row.replace(row.split(",")[0], "4102444800", 1) if ",c," in row else row for row in good]
    for name, rows in {"reversed": good[::-1], "twice": good + good, "off": off}.items():
        locate("--pairs", table(tmp_path / f"{name}.csv", rows), "--format", "json")
        answer = json.loads(capsys.readouterr().out)
        assert [link["node"] for link in answer["links"]] == ["b"], name
        assert answer["healthy"] == 3, name


def test_names_are_kept_as_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = 'rack 1, "node" ü'
    rows = [row.replace("b", '"rack 1, ""node"" ü"') for row in rounds(FOUR, {"b": 0.6}, 4)]
    assert locate("--pairs", table(tmp_path / "p.csv", rows), "--format", "json") == 1
    assert [link["node"] for link in json.loads(capsys.readouterr().out)["links"]] == [odd]


def test_a_name_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row.replace("b", "b\x1b[2J") for row in rounds(FOUR, {"b": 0.6}, 4)]
    assert locate("--pairs", table(tmp_path / "p.csv", rows)) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_the_textbook_example(capsys: pytest.CaptureFixture[str]) -> None:
    """64 GPUs, 500 MB each, 200 against 25 Gbit/s: 8.96 s more through a funnel, 276 ms more in a ring."""
    given = ("--gpus", "64", "--bytes", "500MB", "--bandwidth", "200Gbit/s", "--slow-bandwidth", "25Gbit/s")
    assert estimate(*given, "--model", "funnel") == 0
    out = capsys.readouterr().out
    assert all(figure in out for figure in ("1.28 s", "10.24 s", "8.96 s more per step", "573 GPU-seconds"))
    assert estimate(*given) == 0
    out = capsys.readouterr().out
    assert "39.4 ms" in out
    assert "315 ms" in out
    assert estimate(*given, "--model", "funnel", "--format", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert math.isclose(answer["extra_seconds"], 8.96)
    assert math.isclose(answer["gpu_seconds"], 573.44)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--gpus", "0"),
        ("--gpus", "x"),
        ("--bytes", "500"),
        ("--bytes", "0MB"),
        ("--bandwidth", "25"),
        ("--bandwidth", "-1Gbit/s"),
        ("--overlap", "5"),
        ("--oversubscription", "nan"),
        ("--model", "star"),
    ],
)
def test_a_wrong_figure_ends_with_status_2(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    given = {"--gpus": "64", "--bytes": "500MB", "--bandwidth": "200Gbit/s", wrong[0]: wrong[1]}
    with pytest.raises(SystemExit) as ended:
        estimate(*(word for pair in given.items() for word in pair))
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_flags_load_no_numpy() -> None:
    """The node daemon's command line imports the flags: numpy is only for a run of locate."""
    code = "import sys, exporter.fleet.command; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_nic_seen_through_a_slow_uplink_alone_is_undetermined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaf l1 lost 40 % upwards: the leaf is named, its NICs are not, and one without a probe inside is not cleared."""
    nodes = [f"n{at}" for at in range(24)]
    leaf = {name: f"l{at // 6}" for at, name in enumerate(nodes)}
    rows = []
    for row in rounds(nodes, {}, 2):
        time, src, dst, rail, rate = row.split(",")
        up = leaf[src] != leaf[dst]
        if not up and "n6" in {src, dst}:
            continue
        factor = 0.6 if up and "l1" in {leaf[src], leaf[dst]} else 1.0
        rows.append(f"{time},{src},{dst},{rail},{float(rate) * factor:.2f}")
    topology = table(tmp_path / "t.csv", [f"{name},{leaf[name]}" for name in nodes], "node,leaf")
    assert locate("--pairs", table(tmp_path / "p.csv", rows), "--topology", topology, "--format", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [(one["leaf"], one["rail"]) for one in answer["leaves"]] == [("l1", "0")]
    assert answer["leaves"][0]["loss"] == pytest.approx(0.4, abs=0.02)
    assert answer["links"] == []
    assert [(one["node"], "slow uplink" in one["why"]) for one in answer["undetermined"]] == [("n6", True)]
