"""What a YAML parser says, as sentences for people who do not know YAML's grammar."""

import re

from yaml.error import MarkedYAMLError
from yaml.events import Event

from edge_runtime.document.problem import Problem, visible

_TAB = "holds a tab where YAML wants spaces: indent with spaces"

_SENTENCES = (
    (r"found character '\\t'", _TAB),
    (r"found character '(.)' that cannot start any token", r"text that starts with \1 must stand in quotes"),
    (
        "mapping values are not allowed here",
        "a second ': ' on one line, or wrong indentation: text that holds ': ' must stand in quotes",
    ),
    ("could not find expected ':'", "a key without its ': '"),
    ("found unexpected end of stream", "a quote is opened here and never closed"),
    ("found unexpected document separator", "a quote is opened before this and never closed"),
    ("found duplicate anchor", "an anchor of this name exists already"),
    ("expected ',' or '(.)'", r"a list or a section in brackets is not closed with \1"),
    ("expected <block end>, but found .*", "the indentation does not fit the lines above"),
    ("unknown escape character|expected escape sequence", "a \\ that is no escape: use single quotes"),
    ("incompatible YAML document", "a %YAML line that asks for another version: delete it"),
    (
        "expected a single document|expected '<document start>'|but found another document",
        "holds more than one document (a line '---')",
    ),
    ("expected the node content, but found .*", "a value is missing or a bracket has nothing before it"),
    ("sequence entries are not allowed here", "a list item ('- ') cannot stand here: put it on its own line"),
    ("while scanning an alias", "text that starts with * must stand in quotes"),
    ("while scanning an anchor", "text that starts with & must stand in quotes"),
    (
        "while (?:scanning|parsing) a (tag|directive)",
        r"a malformed \1: text that starts with ! must stand in quotes",
    ),
    ("found undefined tag handle", "an undefined tag: text that starts with ! must stand in quotes"),
)


class Refused(MarkedYAMLError):
    """A limit of ours, raised from inside PyYAML's parser; `problem` is a sentence already."""

    @classmethod
    def at(cls, event: Event, text: str) -> "Refused":
        """The refusal of what begins with `event`."""
        error = cls(problem=text)
        error.problem_mark = event.start_mark  # type: ignore[assignment] # the stub knows C marks only here
        return error


def syntax_problem(error: MarkedYAMLError, text: str) -> Problem:
    """What PyYAML found wrong in `text`, with its line."""
    mark = error.problem_mark or error.context_mark
    said = " ".join(part for part in (error.problem, error.context) if part)
    if isinstance(error, Refused):
        return Problem(error.problem or "", line=None if mark is None else mark.line + 1)
    if "unexpected end of stream" in said and error.context_mark is not None:
        mark = error.context_mark  # where the quote was opened says more than the end of the file
    lines = text.splitlines()
    # what is never closed is noticed behind the last line
    line = None if mark is None or not lines else min(mark.line + 1, len(lines))
    blank_before = _indent_with_tab(lines, line)
    if blank_before is not None:
        return Problem(_TAB, line=blank_before)
    if "expected ',' or" in said and line and "${" in lines[line - 1]:
        return Problem("within brackets a ${…} must stand in quotes", line=line)
    for pattern, sentence in _SENTENCES:
        match = re.search(pattern, said)
        if match:
            return Problem(visible(match.expand(sentence)), line=line)
    return Problem(f"is not YAML: {visible(' '.join(said.split()))}", line=line)


def _indent_with_tab(lines: list[str], line: int | None) -> int | None:
    """The line near the error that is indented with a tab, which YAML reports in many odd ways."""
    for number in (line, (line or 0) + 1, (line or 0) - 1):
        if number and 0 < number <= len(lines):
            indent = lines[number - 1][: len(lines[number - 1]) - len(lines[number - 1].lstrip())]
            if "\t" in indent:
                return number
    return None
