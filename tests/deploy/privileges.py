"""What the chart's pods may do, as (field, value) pairs; and the table of docs/security.md that lists them.

Everything of a pod counts as a privilege but what HARMLESS names: a new field must be put into one or the other.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from deploy.helm import manifests

DOCS = manifests.ROOT / "docs/security.md"
HEAD = "| field | value | when | what for |"
ALWAYS = "always"
HARMLESS = re.compile(
    r"""nodeSelector\..* | affinity\..* | terminationGracePeriodSeconds | enableServiceLinks
    | (initContainers\.state|containers\.eastwest)\.(image | imagePullPolicy | args | resources\..*)
    | containers\.eastwest\.((startup|liveness|readiness)Probe\..* | env\.(HOST_IP|A)\..* | ports\.metrics\.protocol)
    | volumes\.state\.emptyDir\.sizeLimit""",
    re.VERBOSE,
)
"""Where a pod runs, what it takes, how it is asked. (`A` is the variable that the tests' values add.)"""
FEWER = {"NetworkPolicy"}
"""Kinds of objects that take something away."""


class Privilege(NamedTuple):
    """A field of the pod or of one of its containers, or a kind of object; and its value."""

    field: str
    value: str


def had(resources: list[Any]) -> set[Privilege]:
    """Every privilege of what was rendered."""
    (spec,) = (one["spec"]["template"]["spec"] for one in resources if one["kind"] == "DaemonSet")
    kinds = {Privilege("kind", one["kind"]) for one in resources if one["kind"] not in FEWER}
    return kinds | {one for one in _flat(spec, "") if not HARMLESS.fullmatch(one.field)}


def _flat(node: Any, where: str) -> Iterator[Privilege]:
    """A mapping by its keys, a list of named things by their names; other things are one value each."""
    if isinstance(node, Mapping) and "mountPath" in node:
        how = "read-only" if node.get("readOnly") else "writable"
        yield Privilege(where, f"{node['mountPath']}, {how}")
        yield from _flat_keys({key: node[key] for key in node.keys() - {"mountPath", "readOnly"}}, where)
    elif isinstance(node, Mapping) and node:
        yield from _flat_keys(node, where)
    elif isinstance(node, list) and any(isinstance(item, Mapping) for item in node):
        for item in node:
            if "name" in item and len(item) > 1:
                yield from _flat({key: item[key] for key in item if key != "name"}, f"{where}.{item['name']}")
            else:
                yield Privilege(where, ", ".join(f"{key} {value}" for key, value in item.items()))
    elif isinstance(node, list):
        yield Privilege(where, " ".join(map(str, node)))
    else:
        yield Privilege(where, str(node).lower() if isinstance(node, bool) else str(node))


def _flat_keys(node: Mapping[str, Any], where: str) -> Iterator[Privilege]:
    for key, value in node.items():
        yield from _flat(value, f"{where}.{key}".lstrip("."))


def documented() -> Mapping[str, set[Privilege]]:
    """The table: what is listed for each value that it needs, `always` among them."""
    _, head, table = DOCS.read_text().partition(HEAD + "\n")
    assert head, f"no such table in {DOCS.name}"
    found: dict[str, set[Privilege]] = {}
    for line in table.splitlines()[1:]:
        if not line.startswith("|"):
            break
        field, value, when, why = (cell.strip() for cell in line.strip("|").split("|"))
        assert why, line
        privilege = Privilege(field.strip("`"), value.strip("`"))
        assert privilege not in found.setdefault(when.strip("`"), set()), f"twice: {line}"
        found[when.strip("`")].add(privilege)
    return found
