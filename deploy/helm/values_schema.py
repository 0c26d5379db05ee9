"""values.schema.json of the chart: what is written by hand, and the definitions of `config`, made from the models.

A schema can hold a text to a pattern, so what the daemon would refuse at its start is mostly refused by helm.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from exporter import config, quantities
from exporter.config import Config

SCHEMA = Path(__file__).parent / "eastwest/values.schema.json"

MICROSECONDS: Mapping[str, int] = {
    "us": 1,
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
RATE = r"^(0*[1-9][0-9]*(\.[0-9]+)?|0+\.[0-9]*[1-9][0-9]*)\s*[KMGT]?(bit|B)/s$"
DURATION = r"^[0-9]+(\.[0-9]+)?\s*(us|ms|s|m|h|d)$"
_UNSAID = {"title", "default"}
_NOT_IN_CHART = {"Config": ("paths", "web", "probes"), "NodeConfig": ("name",)}
"""What the chart sets; what no two nodes share; and probes: this pod can't see who else works on the node."""
_ONLY_COMPUTE = {
    "if": {"required": ["rail"], "properties": {"rail": {"type": "integer"}}},
    "then": {"properties": {"role": {"const": "compute"}}},
}
"""A model's own validators are code: what they say is said here again."""


def schema() -> str:
    """The file with the definitions of `config` as the models are now."""
    document = json.loads(SCHEMA.read_text())
    models = Config.model_json_schema(ref_template="#/definitions/{model}", schema_generator=_Texts)
    wanted = {**models.pop("$defs"), "Config": models}
    for name, keys in _NOT_IN_CHART.items():
        for key in keys:
            del wanted[name]["properties"][key]
    wanted["NicConfig"] |= _ONLY_COMPUTE
    wanted["NodeConfig"]["properties"]["labels"]["propertyNames"] = {"const": "rack"}
    reached = _reached(wanted, "Config")
    kept = {name: what for name, what in document["definitions"].items() if not name.endswith("Config")}
    kept.pop("Role", None)
    document["definitions"] = kept | {name: _plain(wanted[name]) for name in sorted(reached)}
    return json.dumps(document, indent=1) + "\n"


class _Texts(GenerateJsonSchema):
    """Where a model reads a text itself, the pattern of that text; pydantic knows only what comes out."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """See GenerateJsonSchema."""
        patterns: Mapping[Callable[..., Any], str] = {
            quantities.duration: DURATION,
            quantities.rate: RATE,
            config._glob: f"^({config._GLOB.pattern})$",  # noqa: SLF001 - what a glob is has no other home
        }
        pattern = patterns.get(schema["function"]["function"])
        return super().function_before_schema(schema) if pattern is None else {"type": "string", "pattern": pattern}

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        """See GenerateJsonSchema."""
        limits = _limits(schema["function"]["function"])
        return super().function_after_schema(schema) if limits is None else {"type": "string", "pattern": span(*limits)}


def _limits(check: Callable[..., Any]) -> tuple[str, str] | None:
    """The ends of quantities.between, of which a check is made."""
    held = inspect.getclosurevars(check).nonlocals
    return (held["least"], held["most"]) if {"least", "most"} <= held.keys() else None


def span(least: str, most: str) -> str:
    """A pattern of the durations between two: exact for whole numbers, and never too narrow for fractions."""
    low, high = (round(quantities.duration(text) * MICROSECONDS["s"]) for text in (least, most))
    units = []
    for unit, factor in MICROSECONDS.items():
        first, last = -(-low // factor), high // factor
        numbers = "|".join(_numbers(first, last))
        either = [rf"({numbers})(\.[0-9]+)?"] if numbers else []
        if low % factor:
            either.append(rf"{first - 1}\.[0-9]*[1-9][0-9]*")
        units.append(rf"0*({'|'.join(either)})\s*{unit}")
    return f"^({'|'.join(units)})$"


def _numbers(first: int, last: int) -> Iterator[str]:
    """Patterns that together are the whole numbers from first to last, without leading zeros."""
    while first <= last:
        step, places = 1, 0
        while first % (step * 10) == 0 and first + step * 10 - 1 <= last:
            step, places = step * 10, places + 1
        lead = first // step
        most = min(lead // 10 * 10 + 9, (last + 1) // step - 1)
        head = str(lead // 10) if lead >= 10 else ""
        digit = str(lead % 10) if most == lead else f"[{lead % 10}-{most % 10}]"
        yield head + digit + (f"[0-9]{{{places}}}" if places > 1 else "[0-9]" * places)
        first = (most + 1) * step


def _reached(definitions: Mapping[str, Any], name: str) -> set[str]:
    text = json.dumps(definitions[name])
    inner = [other for other in definitions if f'"#/definitions/{other}"' in text]
    return {name}.union(*(_reached(definitions, other) for other in inner))


def _plain(node: Any) -> Any:
    """Without titles and defaults."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _plain(inner) for name, inner in value.items()} if key == "properties" else _plain(value)
        for key, value in node.items()
        if key not in _UNSAID
    }
