"""The part of PromQL that our alerts use: a strict reader, and what an expression is over the text of one scrape.

`rate` and the like need more than one scrape and are not known here: an alert that used them would not be read.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = float | Vector

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)|(?P<text>\"(?:[^\"\\])*\")"
    r"|(?P<sign>=~|!~|!=|<=|>=|==|[-+*/<>=(){},]))"
)
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else float("nan"),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_AGGREGATIONS: Mapping[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}
_MATCHES: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda found, wanted: re.fullmatch(wanted, found) is not None,
    "!~": lambda found, wanted: re.fullmatch(wanted, found) is None,
}


class Unreadable(Exception):
    """It is not of the part that is known here."""


@dataclass(frozen=True, slots=True)
class Selector:
    """`name{label="value"}`."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


class Scrape:
    """What a server answered at one moment.

    Args:
        text: of `/metrics`.
        now_s: what `time()` is.
    """

    def __init__(self, text: str, now_s: float) -> None:
        self.now_s = now_s
        self.names: set[str] = set()
        self.samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            self.names.add(family.name)
            for sample in family.samples:
                self.samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))

    def select(self, wanted: Selector) -> Vector:
        """The series that a selector means."""
        return {
            frozenset(labels.items()): value
            for labels, value in self.samples.get(wanted.name, [])
            if all(_MATCHES[sign](labels.get(label, ""), text) for label, sign, text in wanted.matchers)
        }

    def evaluate(self, expression: str) -> Vector:
        """The series for which an alert of this expression would be active."""
        found = _Reader(expression, self).whole()
        if isinstance(found, float):
            raise Unreadable("an alert is over series, not over a number")
        return found


def selectors(expression: str) -> list[Selector]:
    """Every selector in an expression, which is read to its end."""
    reader = _Reader(expression, Scrape("", 0.0))
    reader.whole()
    return reader.selectors


class _Reader:
    """Reads and computes in one go: one method for each level of precedence."""

    def __init__(self, text: str, scrape: Scrape) -> None:
        self._tokens = list(_tokens(text))
        self._scrape = scrape
        self.selectors: list[Selector] = []

    def whole(self) -> Value:
        found = self._comparison()
        if self._tokens:
            raise Unreadable(f"what is {self._tokens[0][1]!r} doing here?")
        return found

    def _comparison(self) -> Value:
        left = self._sum()
        while self._next() in _COMPARISONS:
            sign = self._take()
            left = _filtered(left, self._sum(), _COMPARISONS[sign])
        return left

    def _sum(self) -> Value:
        left = self._product()
        while self._next() in ("+", "-"):
            sign = self._take()
            left = _computed(left, self._product(), _ARITHMETIC[sign])
        return left

    def _product(self) -> Value:
        left = self._primary()
        while self._next() in ("*", "/"):
            sign = self._take()
            left = _computed(left, self._primary(), _ARITHMETIC[sign])
        return left

    def _primary(self) -> Value:
        if not self._tokens:
            raise Unreadable("it ends too soon")
        kind, text = self._tokens.pop(0)
        if kind == "number":
            return float(text)
        if text == "(":
            found = self._comparison()
            self._take(")")
            return found
        if kind != "name":
            raise Unreadable(f"what is {text!r} doing here?")
        if text == "time":
            self._take("(")
            self._take(")")
            return self._scrape.now_s
        return self._aggregated(text) if text in _AGGREGATIONS else self._selected(text)

    def _aggregated(self, function: str) -> Value:
        self._take("by")
        kept = set(self._listed("(", ")"))
        self._take("(")
        inner = self._comparison()
        self._take(")")
        if isinstance(inner, float):
            raise Unreadable(f"{function} is over series")
        groups: dict[Labels, list[float]] = {}
        for labels, value in inner.items():
            groups.setdefault(frozenset((k, v) for k, v in labels if k in kept), []).append(value)
        return {labels: _AGGREGATIONS[function](values) for labels, values in groups.items()}

    def _selected(self, name: str) -> Vector:
        matchers = []
        if self._next() == "{":
            self._take("{")
            while self._next() != "}":
                label, sign = self._take(), self._take()
                kind, text = self._tokens.pop(0)
                if sign not in _MATCHES or kind != "text":
                    raise Unreadable(f"{name}: {label}{sign}{text} is no matcher")
                matchers.append((label, sign, text[1:-1]))
                if self._next() == ",":
                    self._take()
            self._take("}")
        self.selectors.append(Selector(name, tuple(matchers)))
        return self._scrape.select(self.selectors[-1])

    def _listed(self, begin: str, end: str) -> list[str]:
        self._take(begin)
        found = []
        while self._next() != end:
            found.append(self._take())
            if self._next() == ",":
                self._take()
        self._take(end)
        return found

    def _next(self) -> str:
        return self._tokens[0][1] if self._tokens else ""

    def _take(self, wanted: str | None = None) -> str:
        if not self._tokens or (wanted is not None and self._next() != wanted):
            raise Unreadable(f"{wanted or 'more'} is missing before {self._next()!r}")
        return self._tokens.pop(0)[1]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    text, place = text.strip(), 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise Unreadable(f"{text[place : place + 20]!r} is not known here")
        place = found.end()
        yield str(found.lastgroup), str(found[str(found.lastgroup)])


def _computed(left: Value, right: Value, act: Callable[[float, float], float]) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return act(left, right)
    if isinstance(right, float):
        assert isinstance(left, dict)
        return {labels: act(value, right) for labels, value in left.items()}
    if isinstance(left, float):
        return {labels: act(left, value) for labels, value in right.items()}
    return {labels: act(value, right[labels]) for labels, value in left.items() if labels in right}


def _filtered(left: Value, right: Value, holds: Callable[[float, float], bool]) -> Vector:
    if isinstance(left, float):
        raise Unreadable("series stand on the left of a comparison")
    if isinstance(right, float):
        return {labels: value for labels, value in left.items() if holds(value, right)}
    return {
        labels: value for labels, value in left.items() if labels in right and holds(value, right[labels])
    }
