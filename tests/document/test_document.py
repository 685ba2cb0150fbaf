import itertools
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.document import MAX_NODES, Unreadable, read_document

_TWO_COLONS = "a second ': ' on one line, or wrong indentation: text that holds ': ' must stand in quotes"
_TAG = "is not allowed; for a secret write ${env:NAME} or ${file:PATH}"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("on: [enter]", {"on": ["enter"]}),
        ("a: on\nb: off\nc: yes\nd: no\ne: y", {"a": "on", "b": "off", "c": "yes", "d": "no", "e": "y"}),
        ("a: true\nb: False\nc: TRUE", {"a": True, "b": False, "c": True}),
        ("a: 22:30\nb: 1:02:03", {"a": "22:30", "b": "1:02:03"}),
        ("a: 010\nb: 0o10\nc: 0x1F\nd: +7\ne: -7", {"a": 10, "b": 8, "c": 31, "d": 7, "e": -7}),
        ("a: 1e3\nb: .5\nc: 1.\nd: -2.5E-1", {"a": 1000.0, "b": 0.5, "c": 1.0, "d": -0.25}),
        ("a: .inf\nb: -.INF", {"a": math.inf, "b": -math.inf}),
        (
            "a: 1_000\nb: 1.2.3\nc: 2026-01-02\nd: 0b1",
            {"a": "1_000", "b": "1.2.3", "c": "2026-01-02", "d": "0b1"},
        ),
        ("a: ~\nb: null\nc:\nd: ''\ne: \"null\"", {"a": None, "b": None, "c": None, "d": "", "e": "null"}),
        ("1: a\ntrue: b\n~: c\n1.5: d", {"1": "a", "true": "b", "~": "c", "1.5": "d"}),
        ("a: !!str 12\nb: !!int '12'\nc: !!float 1", {"a": "12", "b": 12, "c": 1.0}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}),
        (
            "a: &x {b: 1}\ne: &y {b: 2, f: 3}\nd: {<<: [*x, *y]}",
            {"a": {"b": 1}, "e": {"b": 2, "f": 3}, "d": {"b": 1, "f": 3}},
        ),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("'<<': 1", {"<<": 1}),
        ("a: |\n  x: y\n  z", {"a": "x: y\nz"}),
        ("\ufeffa: 1".removeprefix("\ufeff"), {"a": 1}),
        ("---\na: 1\n...\n", {"a": 1}),
        ('a: "\\ud83d\\ude00"\n"\\ud83d\\ude00": 1', {"a": "\U0001f600", "\U0001f600": 1}),
        ("# nothing", None),
        ("", None),
        ("[1, 2]", [1, 2]),
        ("plain", "plain"),
    ],
)
def test_scalars_are_what_they_look_like(text: str, data: Any) -> None:
    document = read_document(text)
    assert document.data == data
    assert document.problems == ()


def test_nan_is_a_number() -> None:
    assert math.isnan(read_document("a: .nan").data["a"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb:\n  a: 2\n  a: 3", "f:4: b.a: is given twice; the first is on line 3"),
        ("a: 1\n'a': 2", "f:2: a: is given twice; the first is on line 1"),
        ("1: a\n'1': b", "f:2: 1: is given twice; the first is on line 1"),
        ("? [a]\n: b", "f:1: a key must be text, not a list or a section"),
        ("a: {{x}}", "f:1: a: a key must be text, not a list or a section"),
        (
            "a: !secret x",
            f"f:1: a: the tag !secret {_TAG}",
        ),
        (
            "a: !!python/object/apply:os.system ['true']",
            f"f:1: a: the tag !!python/object/apply:os.system {_TAG}",
        ),
        (
            "a:\n- !!set {x}",
            f"f:2: a[0]: the tag !!set {_TAG}",
        ),
        ("a: !!int x", "f:1: a: does not hold what its tag !!int says"),
        ('a: "\\ud83d"', "f:1: a: holds half of a character: a lone surrogate"),
        ("<<: 3", "f:1: << takes a section, or a list of sections"),
        ("a: 1" + "0" * 100, "f:1: a: is a number with too many digits"),
    ],
)
def test_what_is_refused_without_stopping(text: str, line: str) -> None:
    document = read_document(text)
    assert [problem.show("f") for problem in document.problems] == [line]


def test_several_refusals_are_all_listed() -> None:
    document = read_document("a: 1\na: 2\nb: !x y\nb: 3\n")
    assert [problem.line for problem in document.problems] == [2, 3, 4]


def test_an_alias_repeats_no_problem_of_a_merged_section() -> None:
    document = read_document("a: &x {b: 1, b: 2}\nc: {<<: *x}\nd: {<<: *x}")
    assert len(document.problems) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n\tb: 1", "f:2: holds a tab where YAML wants spaces: indent with spaces"),
        ("a: 1\n\tb: 1", "f:2: holds a tab where YAML wants spaces: indent with spaces"),
        ("a: \tb", "f:1: holds a tab where YAML wants spaces: indent with spaces"),
        (
            "a: b\n  c: d",
            f"f:2: {_TWO_COLONS}",
        ),
        (
            "a: rtsp: x",
            f"f:1: {_TWO_COLONS}",
        ),
        ("a:\n  b: 1\n c: 2", "f:3: the indentation does not fit the lines above"),
        ("- a\nb: c", "f:2: the indentation does not fit the lines above"),
        ("a: [1, 2\nb: 3", "f:2: a list or a section in brackets is not closed with ]"),
        ("a: 1\nb: [1, 2\n", "f:2: a list or a section in brackets is not closed with ]"),
        ("a: {b: ${env:X}, c: 1}", "f:1: within brackets a ${…} must stand in quotes"),
        ("a: {b: 1", "f:1: a list or a section in brackets is not closed with }"),
        ("x: 1\na: 'it\nb: 1\n", "f:2: a quote is opened here and never closed"),
        ("a: @x", "f:1: text that starts with @ must stand in quotes"),
        ("a: `x`", "f:1: text that starts with ` must stand in quotes"),
        ("a: %x", "f:1: text that starts with % must stand in quotes"),
        ("a: *mp4", "f:1: *mp4 names no anchor above; text that starts with * must stand in quotes"),
        ("a: *.mp4", "f:1: text that starts with * must stand in quotes"),
        ("a: &.mp4", "f:1: text that starts with & must stand in quotes"),
        ("a: !<x", "f:1: a malformed tag: text that starts with ! must stand in quotes"),
        ("a: !x!y z", "f:1: an undefined tag: text that starts with ! must stand in quotes"),
        ('a: "C:\\Users"', "f:1: a \\ that is no escape: use single quotes"),
        ("a: 1\n---\nb: 1", "f:2: holds more than one document (a line '---')"),
        ("a: - b", "f:1: a list item ('- ') cannot stand here: put it on its own line"),
        ("a: ]", "f:1: a value is missing or a bracket has nothing before it"),
        ("%YAML 3.0\n---\na: 1", "f:1: a %YAML line that asks for another version: delete it"),
        ("a: &x 1\nb: &x 2\nc: *x", "f:2: an anchor of this name exists already"),
        (
            "a: 1\nb: \x1b[0m",
            "f:2: holds the control character U+001B: this is not a text file, or it is damaged",
        ),
        ("a: &x [*x]", "f:1: a[0]: an anchor contains itself"),
        ("a: &x {<<: *x}", "f:1: a: an anchor contains itself"),
        ("a: 1\na: &x {<<: *x}\nb: {<<: *x}", "f:2: b: an anchor contains itself"),
        ("[" * 500 + "]" * 500, "f:1: nested more than 40 levels deep"),
        ("{a: " * 500, "f:1: nested more than 40 levels deep"),
    ],
)
def test_what_is_not_yaml_is_said_in_plain_words(text: str, line: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_document(text)
    assert caught.value.problem.show("f") == line


def _bomb(item: str) -> str:
    first = "a: &a " + ("[x, x, x]" if item == "list" else "{k: x}") + "\n"
    names = "abcdefghijkl"
    for before, name in itertools.pairwise(names):
        aliases = ", ".join([f"*{before}"] * 9)
        first += f"{name}: &{name} " + (f"[{aliases}]" if item == "list" else f"{{<<: [{aliases}]}}") + "\n"
    return first


@pytest.mark.parametrize("item", ["list", "merge"])
def test_aliases_cannot_expand_without_bound(item: str) -> None:
    with pytest.raises(Unreadable, match=f"expands to more than {MAX_NODES} values"):
        read_document(_bomb(item))


def test_lines_point_at_keys_items_and_the_nearest_section() -> None:
    document = read_document("a: 1\nb:\n  c:\n    - x\n    - {d: 2}\n")
    assert document.line(("a",)) == 1
    assert document.line(("b", "c")) == 3
    assert document.line(("b", "c", 1, "d")) == 5
    assert document.line(("b", "c", 1, "missing")) == 5
    assert document.line(("b", "c", 7)) == 3
    assert document.line(()) == 1


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**15), 10**15),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


@given(_TREES)
def test_what_a_yaml_writer_writes_is_read_as_it_was(data: Any) -> None:
    text = yaml.safe_dump(data, allow_unicode=False)
    assert read_document(text).data == data


@given(st.text(st.characters(max_codepoint=0x17F), max_size=80))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        said = f"read as {type(read_document(text).data).__name__}"
    except Unreadable as error:
        said = error.problem.show("f")
    assert said
    assert "\n" not in said
