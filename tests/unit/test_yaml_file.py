"""YAML, read strictly."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.model import UserError
from exporter.yaml_file import MAX_BYTES, Ambiguous, read_yaml
from tests.props import few, words


def read(folder: Path, content: str | bytes) -> Any:
    """The document; its mistakes are raised, as what reads a model does."""
    path = folder / "config.yml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    document, mistakes = read_yaml(path)
    if mistakes:
        raise UserError("\n".join(f"{path}:{mistake}" for mistake in mistakes))
    return document


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("# nothing", None),
        ("5", 5),
        ("-5", -5),
        ("1.5", 1.5),
        ("5s", "5s"),
        ("'off'", "off"),
        ("12:30:45", "12:30:45"),  # sixty-based integers are YAML 1.1
        ("0x1F", "0x1F"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("offer", "offer"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(tmp_path: Path, written: str, value: object) -> None:
    assert read(tmp_path, f"key: {written}") == {"key": value}


@pytest.mark.parametrize("word", ["yes", "No", "on", "OFF", "y", "N"])
def test_a_word_that_may_be_a_boolean_is_neither(tmp_path: Path, word: str) -> None:
    value = read(tmp_path, f"key: {word}")["key"]
    assert isinstance(value, Ambiguous)
    assert repr(value) == word


MISTAKES: dict[str, tuple[str | bytes, str]] = {
    "repeated-key": ("a: 1\nb: 2\na: 3", r":3:1: 'a' is given twice"),
    "repeated-below": ("a:\n  b: 1\n  b: 2", r":3:3: 'b' is given twice"),
    "number-as-key": ("1: a", r":1:1: '1' is not a name"),
    "list-as-key": ("? [a]\n: b", r":1:3: found unhashable key"),
    "alias": ("a: &x 1\nb: *x", r":2:4: aliases are not taken"),
    "bomb": ("a: &a [1,1]\nb: &b [*a,*a]", "aliases are not taken"),
    "tab": ("a:\n\tb: 1", r":2:1: "),
    "open-quote": ('a: "b', r":1:6: "),
    "open-bracket": ("a: [b", r": expected"),
    "two-documents": ("a: 1\n---\nb: 2", "found another document"),
    "binary": (b"\x00\x01\xff\xfe\x00", "not YAML"),
    "not-utf8": (b"a: \xff\xfe", "not YAML"),
    "python-object": ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
    "bad-timestamp": ("a: !!timestamp soon", r":1:4: this is no timestamp"),
    "bad-boolean": ("a: !!bool maybe", r":1:4: this is no bool"),
    "bad-integer": ("a: !!int ''", r":1:4: this is no int"),
    "bad-float": ("a: !!float ''", r":1:4: this is no float"),
    "deep": ("[" * 20_000, "nested too deeply"),
    "huge": (b"#" * (MAX_BYTES + 1), "larger than"),
}


@pytest.mark.parametrize(("content", "what"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, content: str | bytes, what: str) -> None:
    with pytest.raises(UserError, match=what) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path}/config.yml")
    assert "\n" not in str(caught.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name, what in (("absent", "No such file"), (".", "Is a directory"), ("loop", "symbolic links")):
        with pytest.raises(UserError, match=what):
            read_yaml(tmp_path / name)


scalars = st.one_of(
    words, st.sampled_from(["!!int", "!!bool", "!!timestamp", "!!binary", "!!set", "!!omap", "<<", "on"])
)
pieces = st.lists(
    st.one_of(scalars, st.sampled_from(["\n", ": ", "- ", "[", "]", "{", "}", " ", "&a", "*a", '"', "'", "? "]))
)


@few
@given(st.one_of(st.binary(max_size=40), pieces.map("".join).map(str.encode)))
def test_any_bytes_are_a_document_or_a_users_mistake(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    try:
        read(tmp_path_factory.mktemp("yaml"), content)
    except UserError as error:
        assert "config.yml" in str(error)  # noqa: PT017 - either answer is right
