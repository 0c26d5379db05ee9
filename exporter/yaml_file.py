"""YAML read strictly: a repeated key is an error, and so is a word that YAML 1.1 takes for a boolean.

`off`, `on`, `yes` and `no` are true or false to YAML 1.1 and words to YAML 1.2; whoever writes one unquoted may
mean either, so none is taken.
"""

import re
import stat
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

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.mistakes: list[tuple[yaml.Mark, str]] = []

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs leave it untyped
            raise yaml.constructor.ConstructorError(None, None, "aliases are not taken", mark)
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """As above; PyYAML fails in its own ways where a tag is given and the value is none of it: `!!bool maybe`."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            what = f"this is no {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, yaml.MappingNode):
            return super().construct_mapping(node, deep)  # says so: `!!map 5`
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                self.mistakes.append((key_node.start_mark, f"{key_node.value!r} is not a name"))
            elif key in seen:
                self.mistakes.append((key_node.start_mark, f"{key!r} is given twice"))
            seen.add(str(key))
        return super().construct_mapping(node, deep)


def _place(mark: yaml.Mark) -> str:
    return f"{mark.line + 1}:{mark.column + 1}"


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


def read_yaml(path: Path) -> tuple[Any, list[str]]:
    """The document in a file (None for an empty one), and the keys of it that are wrong, each with its place.

    Raises UserError where it can't be read at all.
    """
    try:
        if stat.S_ISFIFO(path.stat().st_mode):
            raise UserError(f"{path}: a pipe, not a file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise UserError(f"{path}: larger than {MAX_BYTES} bytes, which no configuration is")
    try:
        loader = _Loader(content)
        try:
            document = loader.get_single_data()
            found = sorted(loader.mistakes, key=lambda mistake: (mistake[0].line, mistake[0].column))
            return document, [f"{_place(mark)}: {what}" for mark, what in found]
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        where = f":{_place(error.problem_mark)}" if error.problem_mark else ""
        raise UserError(f"{path}{where}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise UserError(f"{path}: nested too deeply") from error
