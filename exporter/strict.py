"""Strict models of YAML files: what is not known is an error, and every mistake is listed with its path."""

import os
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from exporter.model import UserError
from exporter.yaml_file import Ambiguous, read_yaml

MAX_SHOWN = 40
"""Characters of a mistaken key or value that are repeated: the file may be a wrong one, with secrets."""


def _path(value: Any) -> Any:
    """A text that can name a file: pydantic takes any, and the system call then fails with a ValueError."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value) or not _encodable(str(value)):
        raise ValueError("a path is needed")
    return value


def _encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


FilePath = Annotated[Path, BeforeValidator(_path), Field(strict=False)]
"""A path that the system can be asked for."""


class Model(BaseModel):
    """Unknown keys are errors, nothing is converted silently, nothing changes after."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_section(cls, value: Any) -> Any:
        """A section whose keys are all commented out reads as null: the defaults."""
        return {} if value is None else value


Read = TypeVar("Read", bound=Model)


def read_model(path: Path, model: type[Read], secret: bool = False) -> Read:
    """The model in a file. Raises UserError with a line for every mistake, without values where they are `secret`."""
    document, mistakes = read_yaml(path)
    lines = [f"{path}:{mistake}" for mistake in mistakes]
    try:
        found = model.model_validate(document)
    except ValidationError as error:
        lines += [f"{path}: {_mistake(detail, secret)}" for detail in error.errors() if detail["type"] != "invalid_key"]
        raise UserError("\n".join(lines)) from error
    if lines:
        raise UserError("\n".join(lines))
    return found


_SHORT = {
    "extra_forbidden": "no such key",
    "missing": "is needed",
    "tuple_type": "a list is needed",
    "model_type": "a mapping of keys is needed",
    "dict_type": "a mapping of keys is needed",
    "string_type": "a text is needed",
}


def _mistake(detail: ErrorDetails, secret: bool) -> str:
    """`checks.infiniband.interval: a duration with its unit is needed, ... (got 5)`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part[:MAX_SHOWN]}" for part in detail["loc"])
    where = "".join(parts).lstrip(".")
    got = detail["input"]
    if isinstance(got, Ambiguous):
        what = f"`{got}` may mean a boolean or a word: write true or false, or quote it"
    elif detail["type"] in ("extra_forbidden", "missing"):
        what = _SHORT[detail["type"]]
    else:
        message = _SHORT.get(detail["type"], detail["msg"]).removeprefix("Value error, ")
        what = message if secret or isinstance(got, dict | list) else f"{message} (got {repr(got)[:MAX_SHOWN]})"
    return f"{where}: {what}" if where else what
