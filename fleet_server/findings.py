"""What a validator found, in words for people: its own are for programmers. No value is ever repeated."""

from collections.abc import Mapping
from typing import Any

_SENTENCES: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "json_invalid": "is not JSON",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_pattern_mismatch": "is of another form, or has characters that are not allowed there",
}
"""Types of errors of pydantic that settings and requests can meet, with the words for them."""


def what_is_wrong(error: Mapping[str, Any]) -> str:
    """What is wrong with one value, to stand behind its name.

    Args:
        error: as pydantic lists it, with `type`, `msg` and, where it has one, `ctx`.
    """
    known = _SENTENCES.get(error["type"])
    said = " ".join(str(error["msg"]).removeprefix("Value error, ").split())
    if known is None:
        return f"cannot be used: {said[:1].lower()}{said[1:]}"
    context = dict(error.get("ctx") or {})
    if "expected" in context:
        context["expected"] = str(context["expected"]).replace("'", "")
    try:
        return known.format(**context)
    except KeyError:
        return f"cannot be used: {said[:1].lower()}{said[1:]}"
