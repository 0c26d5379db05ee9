"""Panels, each a function from what differs to Grafana's JSON. `grafana/frame.py` gives them ids and places."""

from collections.abc import Sequence

from grafana.colours import HEATMAP, NEUTRAL, Json, absent, thresholds
from grafana.query import DATASOURCE

POINTS = 200
"""Points of a line or a row: what can be told apart, and what a query over hours of many series can be asked for."""


def panel(kind: str, title: str, says: str, targets: Sequence[Json], **more: object) -> Json:
    """Any panel. `says` is its description: what it shows and how to read it."""
    return {
        "type": kind,
        "title": title,
        "description": says,
        "datasource": DATASOURCE,
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": DATASOURCE, **target} for index, target in enumerate(targets)
        ],
        **more,
    }


def field(unit: str, **more: object) -> Json:
    """The defaults of a field configuration; `custom` and `overrides` go where they belong."""
    overrides = more.pop("overrides", [])
    return {"defaults": {"unit": unit, "mappings": [], **more}, "overrides": overrides}


def stat(title: str, says: str, target: Json, unit: str = "none", **defaults: object) -> Json:
    """One number, coloured by thresholds; nothing where there is none."""
    options = {
        "colorMode": "background_solid",
        "graphMode": "none",
        "justifyMode": "center",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": defaults.pop("text_mode", "value"),
    }
    defaults = {"thresholds": thresholds((None, NEUTRAL)), "color": {"mode": "thresholds"}, **defaults}
    return panel("stat", title, says, [target], fieldConfig=field(unit, **defaults), options=options)


def lines(  # noqa: PLR0913 - a panel has that many sides
    title: str,
    says: str,
    targets: Sequence[Json],
    unit: str,
    overrides: Sequence[Json] = (),
    top: float | None = None,
    stacked: bool = False,
    steps: bool = False,
    links: Sequence[Json] = (),
) -> Json:
    """Values over time; a gap where there is no value. `top` is the axis' end, for shares of a whole."""
    custom = {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter" if steps else "linear",
        "lineWidth": 2,
        "fillOpacity": 60 if stacked else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "axisSoftMin": 0,
    }
    defaults: Json = {"custom": custom, "color": {"mode": "palette-classic"}, "min": 0, "links": list(links)}
    if top is not None:
        defaults["max"] = top
    legend = {"showLegend": True, "displayMode": "table", "placement": "right", "calcs": ["max", "lastNotNull"]}
    options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return panel(
        "timeseries",
        title,
        says,
        targets,
        maxDataPoints=POINTS,
        fieldConfig=field(unit, overrides=list(overrides), **defaults),
        options=options,
    )


def heatmap(title: str, says: str, target: Json, unit: str = "percentunit", top: float | None = 1.0) -> Json:
    """One row a series, colour by value: dark is little, bright is much, and a gap is no data.

    `filterValues` lets zeros be seen, which Grafana hides by default: a dead port would look like no data.
    """
    colour = {"mode": "scheme", "scheme": HEATMAP, "reverse": False, "scale": "linear", "steps": 64, "min": 0}
    options = {
        "calculate": False,
        "cellGap": 1,
        "showValue": "never",
        "legend": {"show": True},
        "rowsFrame": {"layout": "unknown"},
        "color": {**colour, "fill": "dark-orange", "exponent": 0.5} | ({} if top is None else {"max": top}),
        "filterValues": {"le": -1},
        "cellValues": {"unit": unit, "decimals": 0},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "none"},
        "tooltip": {"mode": "single", "yHistogram": False},
    }
    return panel("heatmap", title, says, [target], maxDataPoints=POINTS, fieldConfig=field(unit), options=options)


def timeline(title: str, says: str, target: Json, mappings: Sequence[Json], links: Sequence[Json] = ()) -> Json:
    """States over time, one row a series; like neighbours are one stretch."""
    defaults = {
        "mappings": [*mappings, absent("no data")],
        "color": {"mode": "thresholds"},
        "thresholds": thresholds((None, NEUTRAL)),
        "custom": {"fillOpacity": 85, "lineWidth": 0, "spanNulls": False},
        "links": list(links),
    }
    options = {
        "mergeValues": True,
        "perPage": 20,
        "rowHeight": 0.85,
        "showValue": "auto",
        "alignValue": "left",
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "single"},
    }
    return panel("state-timeline", title, says, [target], fieldConfig=field("none", **defaults), options=options)
