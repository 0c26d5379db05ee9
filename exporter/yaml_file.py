"""YAML read strictly: a repeated key is an error, and so is a word that YAML 1.1 takes for a boolean.

`off`, `on`, `yes` and `no` are true or false to YAML 1.1 and words to YAML 1.2; whoever writes one unquoted may
mean either, so none is taken.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from exporter.model import UserError

MAX_BYTES = 1 << 20
_AMBIGUOUS = "yes Yes YES no No NO on On ON off Off OFF y Y n N"


class Ambiguous:
    """Stands where an unquoted yes/no/on/off stood; no model accepts it."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's idea of scalars, unique keys, and no aliases (they can grow without end)."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs leave it untyped
            raise yaml.constructor.ConstructorError(None, None, "aliases are not taken", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                message = f"{key_node.value!r} is not a name"
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
            if key in seen:
                message = f"{key!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _ambiguous(_loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Ambiguous:
    return Ambiguous(node.value)


_SCALARS = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]{1,18}", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
    ),
    ("!ambiguous", _AMBIGUOUS.replace(" ", "|"), list("yYnNoO")),
)
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor("!ambiguous", _ambiguous)


def read_yaml(path: Path) -> Any:
    """The document in a file; None for an empty one. Raises UserError with the file and the place."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise UserError(f"{path}: larger than {MAX_BYTES} bytes, which no configuration is")
    try:
        return yaml.load(content, Loader=_Loader)  # noqa: S506 - _Loader is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise UserError(f"{path}{where}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise UserError(f"{path}: nested too deeply") from error
