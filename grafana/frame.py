"""What is around the panels: variables, links between dashboards, ids and places."""

from collections.abc import Sequence

from grafana.colours import BAD, Json
from grafana.query import DATASOURCE, FLEET, trouble, verdicts

SCHEMA = 39
"""Imported by Grafana 11 as it is; later versions migrate it when they load it."""
TAG = "eastwest"
WIDTH = 24
ALERTS = "(?i:eastwest).*"
"""The project's alerts, by name."""
Row = tuple[str, Sequence[tuple[int, int, Json]]]
"""A title and its panels, each with width and height."""


def dashboard(uid: str, title: str, says: str, variables: Sequence[Json], layout: Sequence[Row]) -> Json:
    """A whole dashboard. Panels are placed from left to right; a new row begins under the highest of the last."""
    return {
        "uid": uid,
        "title": title,
        "description": says,
        "id": None,
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "tags": [TAG],
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "links": [_siblings()],
        "annotations": {"list": [_alerts()]},
        "templating": {"list": list(variables)},
        "panels": _placed(layout),
    }


def variables(node: Json, *more: Json) -> list[Json]:
    """The variables that every dashboard has, and its own."""
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
    }
    job = chosen("job", "Job", "label_values(eastwest_build_info, job)", several=True)
    return [source, job, node, *more]


def chosen(name: str, label: str, query: str, several: bool) -> Json:
    """A variable of a label's values; `several` allows any number, and All."""
    every = {
        "includeAll": True,
        "multi": True,
        "allValue": ".+" if name == "job" else ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }
    one = {"includeAll": False, "multi": False, "current": {}}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "definition": query,
        "regex": "",
        "refresh": 2,
        "sort": 7,
        "hide": 0,
        **(every if several else one),
    }


def nodes(several: bool) -> Json:
    """The node or nodes that the dashboard is about."""
    return chosen("node", "Node", 'label_values(eastwest_build_info{job=~"$job"}, node)', several)


def how_many() -> Json:
    """How many nodes and rows are shown of those most in trouble."""
    sizes = ("10", "20", "40")
    return {
        "name": "topn",
        "label": "Show worst",
        "type": "custom",
        "query": ",".join(sizes),
        "current": {"text": "20", "value": "20", "selected": True},
        "options": [{"text": size, "value": size, "selected": size == "20"} for size in sizes],
        "multi": False,
        "includeAll": False,
        "hide": 0,
    }


def worst() -> Json:
    """A hidden variable: the nodes most in trouble now, found by one instant query.

    What is drawn over time reads these nodes only: a fleet's raw counters over hours are more than a query may take.
    """
    verdict = verdicts(FLEET)
    ranked = f"topk($topn, max by (node) (10 * ({verdict} > 0) or {trouble(FLEET, brief=True)} or {verdict}))"
    query = f"query_result({ranked})"
    return chosen("worst", "Nodes shown", query, several=True) | {
        "query": {"qryType": 3, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "regex": '/node="([^"]+)"/',
        "allValue": None,
        "sort": 0,
        "hide": 2,
    }


def link(title: str, to: str, **values: str) -> Json:
    """From a cell, row or line to another dashboard, with the same data source, jobs and time range."""
    given = "".join(f"&var-{name}={value}" for name, value in values.items())
    return {
        "title": title,
        "url": f"/d/{to}?${{datasource:queryparam}}&${{job:queryparam}}{given}&${{__url_time_range}}",
        "targetBlank": False,
    }


def _siblings() -> Json:
    return {
        "title": "East-West dashboards",
        "type": "dashboards",
        "tags": [TAG],
        "asDropdown": True,
        "keepTime": True,
        "includeVars": True,
        "icon": "external link",
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }


def _alerts() -> Json:
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": BAD,
        "expr": f'ALERTS{{alertstate="firing", alertname=~"{ALERTS}", node=~"$node"}}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{node}} {{device}} {{gpu}}",
        "step": "60s",
    }


def _placed(layout: Sequence[Row]) -> list[Json]:
    placed: list[Json] = []
    top = 0
    for title, panels in layout:
        if title:
            place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
            placed.append({"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place})
            top += 1
        left = high = 0
        for width, height, panel in panels:
            if left + width > WIDTH:
                left, top, high = 0, top + high, 0
            placed.append({**panel, "gridPos": {"x": left, "y": top, "w": width, "h": height}})
            left, high = left + width, max(high, height)
        top += high
    return [{**panel, "id": number} for number, panel in enumerate(placed, 1)]
