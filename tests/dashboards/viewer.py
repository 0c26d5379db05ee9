"""What Grafana does with a dashboard before it draws: variables, macros, queries."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.dashboards.server import Answer, Prometheus

FOLDER = Path(__file__).parents[2] / "grafana" / "dashboards"
Json = dict[str, Any]
_VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)")
_LABEL_VALUES = re.compile(r"label_values\((?:(.+),\s*)?(\w+)\)")
_QUERY_RESULT = re.compile(r"query_result\((.+)\)")
_SPECIAL = re.compile(r"[$^*{}\[\]'+?.()|]")
"""What Grafana escapes in a value of a variable with several, with two backslashes."""
SCRAPE = 15.0
"""The data source's timeInterval, as grafana/provisioning has it."""
_NICE = (15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)


def dashboards() -> Mapping[str, Json]:
    """The committed dashboards by uid."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(dashboard: Json) -> Iterator[Json]:
    """Every panel that draws something."""
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def expressions(dashboard: Json) -> Iterator[tuple[str, str]]:
    """Every PromQL expression and where it stands."""
    for panel in panels(dashboard):
        yield from ((f"{panel['title']} {target['refId']}", target["expr"]) for target in panel["targets"])
    for annotation in dashboard["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        query = variable["query"]["query"]
        if (found := _QUERY_RESULT.fullmatch(query)) or ((found := _LABEL_VALUES.fullmatch(query)) and found[1]):
            yield f"variable {variable['name']}", found[1]


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who looks at a dashboard: the time range, and what was chosen of the variables."""

    server: Prometheus
    start: float
    end: float
    chosen: Mapping[str, str]

    def step(self, points: int = 1000) -> float:
        """Grafana's $__interval for a panel of so many points, never below the data source's."""
        wanted = (self.end - self.start) / points
        return next((nice for nice in _NICE if nice >= wanted and nice >= SCRAPE), _NICE[-1])

    def filled(self, text: str, values: Mapping[str, str], points: int = 1000) -> str:
        """With variables and macros put in; what is unknown is an error, but $1 is Prometheus' own."""
        span, step = round(self.end - self.start), self.step(points)
        macros = {
            "__rate_interval": f"{round(max(step + SCRAPE, 4 * SCRAPE))}s",
            "__interval": f"{round(step)}s",
            "__range": f"{span}s",
            "__range_s": str(span),
        }

        def put(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            return found[0] if name.isdigit() else {**macros, **values}[name]

        return _VARIABLE.sub(put, text)

    def variables(self, dashboard: Json) -> tuple[dict[str, str], dict[str, tuple[int, float]]]:
        """The value of every variable; how many values each query found, and how long it took."""
        values: dict[str, str] = {}
        found: dict[str, tuple[int, float]] = {}
        for variable in dashboard["templating"]["list"]:
            name = variable["name"]
            if variable["type"] != "query":
                values[name] = str(variable.get("current", {}).get("value", ""))
                continue
            got, took = self._query(variable, values)
            found[name] = len(got), took
            every = variable.get("allValue") or "(" + "|".join(_SPECIAL.sub(r"\\\\\g<0>", value) for value in got) + ")"
            values[name] = self.chosen.get(name) or (every if variable["includeAll"] else next(iter(got), ""))
        return values, found

    def see(self, panel: Json, values: Mapping[str, str]) -> list[Answer]:
        """What the panel's queries give."""
        return [self.ask(target, values, panel.get("maxDataPoints", 1000)) for target in panel["targets"]]

    def ask(self, target: Json, values: Mapping[str, str], points: int) -> Answer:
        """What one query gives."""
        expr = self.filled(target["expr"], values, points)
        if target["instant"]:
            return self.server.ask("query", query=expr, time=str(self.end))
        step = self.step(points)
        return self.server.ask("query_range", query=expr, start=str(self.start), end=str(self.end), step=str(step))

    def _query(self, variable: Json, values: Mapping[str, str]) -> tuple[list[str], float]:
        query = self.filled(variable["query"]["query"], values)
        if found := _QUERY_RESULT.fullmatch(query):
            answer = self.server.ask("query", query=found[1], time=str(self.end))
            assert not answer.error, answer.error
            pattern = re.compile(variable["regex"].strip("/"))
            rows = ["{" + ", ".join(f'{k}="{v}"' for k, v in labels.items()) + "}" for labels in answer.labels]
            return [match[1] for row in rows if (match := pattern.search(row))], answer.seconds
        asked = _LABEL_VALUES.fullmatch(query)
        assert asked, query
        return self.server.label_values(asked[2], asked[1] or "", self.start, self.end), 0.0
