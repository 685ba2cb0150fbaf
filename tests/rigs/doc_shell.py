"""The commands of a piece of shell, as far as a page of documentation uses it, and of looser notations.

No heredocs and no functions: a page that needs them shows a file instead. What is not a command (assignments, words
of the language, patterns of `case`, redirections) is left out.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import product

_SIGNS = "();<>|&"
_SKIPPED = {"if", "then", "else", "elif", "fi", "do", "done", "while", "until", "!", "{", "}", "esac"}
_ALL_SKIPPED = {"for", "case"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WITHIN = re.compile(r"\$\(([^()]*)\)")
_PROMPT = re.compile(r"^(?:[\w-]+)?\$ ")


def commands_of(script: str) -> Iterator[list[str]]:
    """The words of each simple command of a script, those within `$(…)` too.

    Raises:
        ValueError: it is no shell that this reads: an open quotation, a heredoc.
    """
    for line in _logical_lines(script):
        yield from _of_line(line)


def _logical_lines(script: str) -> Iterator[str]:
    """Lines without their comments, joined where one goes on."""
    kept = ""
    for raw in script.splitlines():
        line = without_comment(kept + raw)
        if line is None:
            kept += f"{raw}\n"
        elif line.endswith("\\"):
            kept = line[:-1] + " "
        else:
            kept = ""
            yield line
    if kept.strip():
        raise ValueError(f"it does not end: {kept.strip()[-60:]}")


def without_comment(line: str) -> str | None:
    """A line up to its comment; None where a quotation is still open."""
    quote = ""
    for place, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"" and line[place - 1 : place] != "\\":
            quote = sign
        elif sign == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place].rstrip()
    return None if quote else line.rstrip()


def _of_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_SIGNS)
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[list[str]] = []
    words: list[str] = []
    depth, skip = 0, False
    for token in lexer:
        if skip:
            skip = False
        elif set(token) <= set(_SIGNS):
            if "<<" in token:
                raise ValueError("a heredoc: show the file in a block of its own")
            if "<" in token or ">" in token:
                skip = True
                if words and words[-1] in ("1", "2"):
                    words.pop()
                continue
            found.append(words)
            words = []
            depth += token.count("(")
            if ")" in token:
                if depth == 0:  # the end of a pattern of `case`
                    found = []
                depth = max(0, depth - token.count(")"))
        else:
            words.append(token)
    for one in (*found, words):
        yield from _command(one)


def _command(words: list[str]) -> Iterator[list[str]]:
    for word in words:
        for inner in _WITHIN.findall(word):
            yield from commands_of(inner)
    while words and (words[0] in _SKIPPED or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if words and words[0] not in _ALL_SKIPPED and words != ["$"]:
        yield words


def noted(text: str) -> Iterator[list[str]]:
    """Words of a command as prose notes it: `[--json]` may be left out, `a|b` is either, two blanks end it.

    Args:
        text: one line, or what stands between backticks.
    """
    line = re.split(r"\s{2,}|\s#\s", _PROMPT.sub("", text.strip()), maxsplit=1)[0]
    for part in line.split(" | "):
        yield from _alternatives(_loosely(part))


def _loosely(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:  # an apostrophe of a sentence
        words = text.split()
    return [word for word in (_bare(word) for word in words) if word]


def _bare(word: str) -> str:
    """Without the brackets around what may be left out."""
    if word.startswith("["):
        word = word[1:]
    return word[:-1] if word.endswith("]") and "[" not in word else word


def _alternatives(words: list[str]) -> Iterable[list[str]]:
    """One line for each of `a|b|c` among the words before the first option; of values only the first."""
    first = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    heads = product(*(word.split("|") for word in words[:first]))
    tail = [word.partition("|")[0] for word in words[first:]]
    return ([*head, *tail] for head in heads)


def noted_lines(block: str) -> list[str]:
    """Lines of a block that is no shell, joined where one goes on."""
    return re.sub(r"[ \t]*\\\n\s*", " ", block).splitlines()
