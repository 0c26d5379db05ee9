"""The chart's values and generated files, as far as they can be held to their sources without helm."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deploy.helm import manifests
from deploy.helm.values_schema import DURATION, MICROSECONDS, schema, span
from deploy.helm.values_schema import SCHEMA as SCHEMA_FILE
from exporter import __version__, quantities
from exporter.config import NicConfig

VALUES = (manifests.CHART / "values.yaml").read_text()
SCHEMA: Mapping[str, Any] = json.loads(SCHEMA_FILE.read_text())
OPEN = {"labels", "global"}
"""Where any name is right: labels, and what helm itself passes to a chart of charts."""


def objects(node: Any, where: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema of a mapping, with its path."""
    if isinstance(node, list):
        for item in node:
            yield from objects(item, where)
    elif isinstance(node, dict):
        if node.get("type") == "object":
            yield where, node
        for key, value in node.items():
            yield from objects(value, f"{where}.{key}".lstrip("."))


def missing(schema: Mapping[str, Any], value: Any, where: str = "") -> Iterator[str]:
    """Keys that only one of the two has. What is empty by default is of a shape that Kubernetes documents."""
    known = set(schema.get("properties", {}))
    if known and isinstance(value, dict) and value:
        yield from (f"{where}{key}" for key in known ^ set(value))
        for key in known & set(value):
            yield from missing(schema["properties"][key], value[key], f"{where}{key}.")


def test_a_typo_is_refused_at_every_level() -> None:
    """Each mapping of the schema names all its keys."""
    loose = [path for path, node in objects(SCHEMA) if node.get("additionalProperties") is not False]
    assert {path.rpartition(".")[2] for path in loose} <= OPEN, loose


def test_every_value_that_is_allowed_is_shown_with_its_default() -> None:
    assert set(missing(SCHEMA, yaml.safe_load(VALUES))) == {"global", "seccompProfile.localhostProfile"}


def test_every_value_is_explained() -> None:
    """A comment directly above each key; the keys of a section speak for it."""
    lines = VALUES.splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *[A-Za-z]+:(?: \S|$)", line) and not before.lstrip().startswith("#")
    ]
    sections = {"image:", "web:", "nvidia:", "state:", "probes:", "eviction:"}
    assert [line for line in bare if line.strip() not in sections] == []


def test_the_schema_of_the_configuration_is_that_of_the_models() -> None:
    """`make manifests` after a change of exporter/config.py."""
    assert SCHEMA_FILE.read_text() == schema()


BOUNDS = [("1s", "1h"), ("1ms", "60s"), ("10ms", "1s")]
"""Of every duration that `config` has."""
NUMBERS = st.from_regex(r"0{0,2}[0-9]{1,8}(\.[0-9]{1,3})?", fullmatch=True)


def taken(check: Callable[[str], object], text: str) -> bool:
    try:
        check(text)
    except ValueError:
        return False
    return True


def test_every_duration_has_bounds() -> None:
    """These, which the tests below go through, and no others."""
    text = SCHEMA_FILE.read_text()
    assert json.dumps(DURATION) not in text
    patterns = {json.dumps(span(*bounds)) for bounds in BOUNDS}
    assert set(re.findall(r'"pattern": (".*\\\\s\*us\|.*")', text)) == patterns


@pytest.mark.parametrize("bounds", BOUNDS, ids="-".join)
@given(number=NUMBERS, unit=st.sampled_from(sorted(MICROSECONDS)))
def test_the_schema_takes_every_duration_that_the_daemon_takes(bounds: tuple[str, str], number: str, unit: str) -> None:
    """And no other whole number of a unit."""
    text = f"{number}{unit}"
    daemon = taken(lambda said: quantities.between(*bounds)(quantities.duration(said)), text)
    helm = re.search(span(*bounds), text) is not None
    assert helm or not daemon
    if "." not in number:
        assert helm == daemon


@pytest.mark.parametrize("bounds", BOUNDS, ids="-".join)
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_the_ends_of_a_duration_are_the_daemons(bounds: tuple[str, str], off: int) -> None:
    for end in bounds:
        for unit, factor in MICROSECONDS.items():
            whole = round(quantities.duration(end) * MICROSECONDS["s"]) // factor + off
            text = f"{whole}{unit}"
            daemon = taken(lambda said: quantities.between(*bounds)(quantities.duration(said)), text)
            assert (re.search(span(*bounds), text) is not None) == daemon, text


@given(number=NUMBERS, unit=st.sampled_from(["bit/s", "Gbit/s", "GB/s", " MB/s", "/s", "Gbit"]))
def test_the_schema_takes_the_rates_that_the_daemon_takes(number: str, unit: str) -> None:
    text = f"{number}{unit}"
    pattern = SCHEMA["definitions"]["ExpectConfig"]["properties"]["rate"]["anyOf"][0]["pattern"]
    assert (re.search(pattern, text) is not None) == taken(quantities.rate, text)


@given(text=st.text("mlx5_[]!*?- /", max_size=8))
def test_the_schema_takes_the_globs_that_the_daemon_takes(text: str) -> None:
    pattern = SCHEMA["definitions"]["NicConfig"]["properties"]["match"]["pattern"]
    daemon = taken(lambda said: NicConfig.model_validate({"match": said, "role": "compute"}), text)
    assert (re.search(pattern, text) is not None) == daemon


def test_the_image_is_of_this_version() -> None:
    chart = yaml.safe_load((manifests.CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


@pytest.mark.parametrize("source", [manifests.RULES, manifests.DASHBOARDS], ids=["rules", "dashboards"])
def test_rules_and_dashboards_are_copies_of_the_one_source(source: Any) -> None:
    """`make manifests` after a change of either."""
    if not source.exists():
        pytest.skip(f"{source.relative_to(manifests.ROOT)} is not there: nothing to compare the chart's copies with")
    wanted = manifests.copies()
    assert {path: path.read_text() for path in wanted if path.is_file()} == wanted
    assert {path for path in manifests.FILES.rglob("*") if path.suffix in {".json", ".yml"}} <= set(wanted)
