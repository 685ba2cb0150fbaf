"""What is wrong with a request of the wrong shape, in one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleet_server.findings import what_is_wrong

_SHOWN = 5
_PLACES = {"query": "the parameter", "path": "the address:", "header": "the header", "body": "the field"}


def sentence_of(errors: Sequence[Mapping[str, Any]]) -> str:
    """One sentence for what a validator found; it repeats no value that came with the request.

    Args:
        errors: as pydantic lists them, with `type`, `loc`, `msg` and `ctx`.
    """
    parts = [f"{_place(error['loc'])} {what_is_wrong(error)}" for error in errors[:_SHOWN]]
    more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    return ("; ".join(dict.fromkeys(parts)) or "the request is of the wrong shape") + more


def _place(loc: Sequence[object]) -> str:
    kind, *names = [str(part) for part in loc] or ["body"]
    # behind a key of an object that is itself wrong stands a mark of the validator
    name = ".".join(part for part in names if part != "[key]")[:80]
    if not name or (kind == "body" and name.isdecimal()):  # of JSON that cannot be read it names the position
        return "the body of the request"
    return f"{_PLACES.get(kind, 'the field')} {name}"
