"""The chart's values and generated files, as far as they can be held to their sources without helm."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from deploy.helm import manifests
from exporter import __version__

VALUES = (manifests.CHART / "values.yaml").read_text()
SCHEMA: Mapping[str, Any] = json.loads(manifests.SCHEMA.read_text())
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
    assert manifests.SCHEMA.read_text() == manifests.schema()


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
