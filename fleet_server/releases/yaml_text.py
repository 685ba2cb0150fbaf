"""YAML from people, read as devices read it, so that whatever stands in it ends in one sentence."""

from edge_runtime.document import Problem, Unreadable, read_document


class NoYaml(ValueError):
    """It cannot be read; the text says why, as the end of a sentence."""


def read_yaml(data: bytes) -> object:
    """The plain data in a text.

    Raises:
        NoYaml: it is no UTF-8, no YAML, or nothing that a device would take: a key that is given twice, a tag.
    """
    try:
        found = read_document(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise NoYaml("it is no UTF-8 text") from None
    except Unreadable as error:
        raise NoYaml(_said(error.problem)) from None
    if found.problems:
        raise NoYaml(_said(found.problems[0]))
    return found.data


def _said(problem: Problem) -> str:
    place = None if problem.line is None else f"line {problem.line}"
    return ": ".join(part for part in (place, problem.path, problem.text) if part)
