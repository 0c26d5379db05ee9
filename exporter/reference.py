"""Every key of the configuration, as Markdown: what docs/configuration.md is made of."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from exporter.config import Config


def markdown() -> str:
    """The reference, from the models themselves."""
    lines = [
        "# Configuration",
        "",
        "Made by `eastwest config reference` from the models in `exporter/config.py`; do not edit by hand.",
        "",
        "One YAML file, given by `--config`; every key is optional. Durations (`5s`, `100ms`, `6h`) and rates",
        "(`400Gbit/s`, `50GB/s`) need their unit. Unknown and repeated keys are errors, and so are unquoted",
        "yes/no/on/off. `eastwest config check FILE` lists every mistake. SIGHUP reads the file again; a bad one is",
        "said in the log and in `eastwest_config_last_reload_successful`, and the old one stays in use.",
        "",
        "| key | default | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in _keys(Config, "")]
    return "\n".join(lines) + "\n"


def _keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        inner = _model_of(field.annotation)
        if inner is None:
            yield key, _default(field), (field.description or "").replace("\n", " ").replace("|", "\\|")
            continue
        several = get_origin(field.annotation) is tuple
        of = f"{key}[]" if several else key
        yield of, "none" if several else "", (inner.__doc__ or "").strip()
        yield from _keys(inner, f"{of}.")


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, or holds a list of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_of(part))), None)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "needed"
    if isinstance(value, tuple):
        address = len(value) == 2 and isinstance(value[1], int)
        return f"`{':'.join(map(str, value)) if address else list(value)}`".replace("'", "") if value else "none"
    if isinstance(value, float):
        return f"`{value:g}s`" if value % 3600 or not value else f"`{value / 3600:g}h`"
    if isinstance(value, int) and value >= 1 << 20:
        return f"`{value >> 20}MiB`"
    return {None: "none", True: "`true`", False: "`false`"}.get(value, f"`{value}`") if value != {} else "none"
