"""What PromQL expressions name: enough of a parser to hold rules and dashboards to the code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\s*\{([^{}]*)\}")
_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')')
_METRIC = re.compile(r"(?<![\w:])[a-zA-Z_:][\w:]*eastwest_[\w:]+|(?<![\w:])eastwest_[\w:]+")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Matcher:
    """`metric{label operator "value"}`."""

    metric: str
    label: str
    operator: str
    value: str

    @property
    def alternatives(self) -> list[str]:
        """The values of a plain alternation, which is all that the rules use."""
        return self.value.split("|") if self.operator in {"=~", "!~"} else [self.value]


def metrics(expression: str) -> set[str]:
    """Every name of this project: `eastwest_x`, and recorded `level:eastwest_x:operation`."""
    return set(_METRIC.findall(_STRING.sub('""', expression)))


def matchers(expression: str) -> Iterator[Matcher]:
    """Every label matcher of every selector."""
    for metric, inside in _selectors(expression):
        for label, operator, value in _MATCHER.findall(inside):
            yield Matcher(metric, label, operator, value[1:-1])


def grouping_labels(expression: str) -> set[str]:
    """Every label in by(), on(), group_left() and the like."""
    lists = _GROUPING.findall(_STRING.sub('""', expression))
    return {label.strip() for inside in lists for label in inside.split(",") if label.strip()}


def _selectors(expression: str) -> Iterator[tuple[str, str]]:
    """Metric and inside of each selector; braces within strings are no selectors."""
    strings: list[str] = []

    def hide(match: re.Match[str]) -> str:
        strings.append(match[0])
        return f'"{len(strings) - 1}"'

    hidden = _STRING.sub(hide, expression)
    for match in _SELECTOR.finditer(hidden):
        yield match[1] or "", re.sub(r'"(\d+)"', lambda number: strings[int(number[1])], match[2])
