"""The files under deploy/prometheus, docs/runbooks and grafana, as the tests read them."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy/prometheus"
RULES = DEPLOY / "eastwest.rules.yml"
RUNBOOKS = ROOT / "docs/runbooks"
RUNBOOK_URL = "https://github.com/eastwest-exporter/eastwest-exporter/blob/main/docs/runbooks/"

Rule = dict[str, Any]


@cache
def rules() -> list[Rule]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[Rule]:
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


@cache
def unit_tests() -> list[dict[str, Any]]:
    return [
        case for path in sorted((DEPLOY / "tests").glob("*.yml")) for case in yaml.safe_load(path.read_text())["tests"]
    ]


def dashboard_expressions() -> Iterator[tuple[str, str]]:
    """File name and expression, of every query in every dashboard."""
    for path in sorted((ROOT / "grafana/dashboards").glob("*.json")):
        yield from ((path.name, text) for text in _expressions(json.loads(path.read_text())))


def _expressions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"expr", "query", "definition"} and isinstance(value, str):
                yield value
            else:
                yield from _expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _expressions(value)
