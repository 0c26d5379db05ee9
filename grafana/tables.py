"""Tables: rows with a column a query, and matrices of two labels."""

from collections.abc import Mapping, Sequence

from grafana.colours import NEUTRAL, Json, absent, thresholds
from grafana.panels import field, panel
from grafana.query import rows

WIDTHS = {
    "node": 130,
    "device": 100,
    "port": 55,
    "role": 105,
    "rail": 55,
    "gpu": 60,
    "severity": 100,
    "pci_address": 125,
    "netdev": 130,
    "firmware_version": 130,
}
"""Pixels of a column that holds a label; others share what is left."""
FILLED = {"type": "color-background", "mode": "basic"}


def column(
    title: str, unit: str, colours: Json | None = None, mappings: Sequence[Json] = (), decimals: int | None = None
) -> list[Json]:
    """What a value column is called and how it is shown; coloured where `colours` says how."""
    properties: list[Json] = [
        {"id": "displayName", "value": title},
        {"id": "unit", "value": unit},
        {"id": "mappings", "value": [*mappings, absent()]},
    ]
    if decimals is not None:
        properties.append({"id": "decimals", "value": decimals})
    if colours is not None:
        properties += [
            {"id": "thresholds", "value": colours},
            {"id": "color", "value": {"mode": "thresholds"}},
            {"id": "custom.cellOptions", "value": FILLED},
        ]
    return properties


def table(  # noqa: PLR0913 - a table has that many sides
    title: str,
    says: str,
    columns: Sequence[tuple[str, list[Json] | None]],
    labels: Sequence[str],
    links: Mapping[str, Sequence[Json]],
    by: str = "",
    ascending: bool = False,
    overrides: Sequence[Json] = (),
    empty: str = "",
    leading: bool = False,
) -> Json:
    """Rows by `labels`, a column a query (None: not shown); sorted by the column titled `by`.

    The queries' rows are merged by the labels that all of them have. With `leading`, only rows that the first
    query has are shown.
    """
    names = [f"Value #{chr(ord('A') + index)}" if len(columns) > 1 else "Value" for index in range(len(columns))]
    order = [*labels, *names]
    hidden = [name for name, (_, how) in zip(names, columns, strict=True) if how is None]
    only_first = {
        "filters": [{"fieldName": names[0], "config": {"id": "isNotNull", "options": {}}}],
        "match": "any",
        "type": "include",
    }
    transformations: list[Json] = [
        *([{"id": "merge", "options": {}}] if len(columns) > 1 else []),
        *([{"id": "filterByValue", "options": only_first}] if leading else []),
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(("Time", *hidden), True),
                "indexByName": _index(order),
                "renameByName": {},
            },
        },
    ]
    shown = [
        *(
            {"matcher": {"id": "byName", "options": name}, "properties": how}
            for name, (_, how) in zip(names, columns, strict=True)
            if how is not None
        ),
        *(
            {"matcher": {"id": "byName", "options": label}, "properties": [{"id": "links", "value": list(found)}]}
            for label, found in links.items()
        ),
        *(
            {
                "matcher": {"id": "byName", "options": label},
                "properties": [{"id": "custom.width", "value": WIDTHS[label]}],
            }
            for label in labels
            if label in WIDTHS and len(columns) > 1
        ),
        *overrides,
    ]
    defaults: Json = {
        "custom": {"align": "left", "minWidth": 70, "inspect": False, "cellOptions": {"type": "auto"}},
        "thresholds": thresholds((None, NEUTRAL)),
        "color": {"mode": "thresholds"},
        "noValue": empty,
    }
    options = {
        "showHeader": True,
        "cellHeight": "sm",
        "sortBy": [{"displayName": by, "desc": not ascending}] if by else [],
    }
    targets = [rows(expr) for expr, _ in columns]
    config = field("none", overrides=shown, **defaults)
    return panel("table", title, says, targets, transformations=transformations, fieldConfig=config, options=options)


def matrix(  # noqa: PLR0913 - a matrix has that many sides
    title: str,
    says: str,
    expr: str,
    row: str,
    col: str,
    unit: str,
    colours: Json,
    links: Sequence[Json] = (),
    row_links: Sequence[Json] = (),
    mappings: Sequence[Json] = (),
    decimals: int = 0,
    first_width: int = 110,
) -> Json:
    """One cell for each pair of two labels. Sorted twice: the pivot takes columns and rows as they come."""
    corner = f"{row}\\{col}"
    defaults: Json = {
        "decimals": decimals,
        "min": 0,
        "mappings": [*mappings, absent()],
        "thresholds": colours,
        "color": {"mode": "thresholds"},
        "links": list(links),
        "custom": {"align": "center", "minWidth": 50, "inspect": False, "cellOptions": FILLED},
    }
    first = [
        {"id": "displayName", "value": f"{row} ↓ {col} →"},
        {"id": "unit", "value": "string"},
        {"id": "mappings", "value": []},
        {"id": "links", "value": list(row_links)},
        {"id": "custom.width", "value": first_width},
        {"id": "custom.align", "value": "left"},
        {"id": "custom.cellOptions", "value": {"type": "auto"}},
    ]
    transformations = [
        {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": col, "desc": False}]}},
        {
            "id": "groupingToMatrix",
            "options": {"rowField": row, "columnField": col, "valueField": "Value", "emptyValue": "null"},
        },
        {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": corner, "desc": False}]}},
    ]
    config = field(unit, overrides=[{"matcher": {"id": "byName", "options": corner}, "properties": first}], **defaults)
    options = {"showHeader": True, "cellHeight": "sm", "frozenColumns": {"left": 1}}
    return panel(
        "table", title, says, [rows(expr)], transformations=transformations, fieldConfig=config, options=options
    )


def _index(order: Sequence[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(order)}
