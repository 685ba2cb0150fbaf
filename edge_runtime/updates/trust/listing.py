"""The releases that a role signs, read out of the very bytes that were signed, each when it is asked for.

A device is asked for one release of a thousand. To keep all of them as plain data is 40,000 objects, and Python's
collector walks through everything that the process has while they are made, at a moment that nobody can foresee.
Here each release is read, which shows that the text is whole, and let go of at once; where it stands is kept.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import TargetFile, Targets

from edge_runtime.errors import first_line
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused

MALFORMED = (RepositoryError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What tuf's records let out for what is no metadata."""

_read = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Listing:
    """Verified metadata of a role that signs releases.

    Attributes:
        signed: all of it but its targets.
        text: that was signed, compact JSON.
        places: where in it the description of a target begins, by path.
    """

    signed: Targets
    text: str
    places: Mapping[str, int]

    def target(self, path: str) -> TargetFile | None:
        """What is signed under a path; None where nothing is.

        Raises:
            UpdateRefused: METADATA_INVALID: what is signed there is no target.
        """
        place = self.places.get(path)
        if place is None:
            return None
        try:
            return TargetFile.from_dict(_read(self.text, place)[0], path)
        except MALFORMED as error:
            text = f"{path.partition('/')[0]} metadata lists {path} wrongly: {first_line(error)}"
            raise UpdateRefused(UpdateCode.METADATA_INVALID, text, again=True) from None


def read_listing(said: bytes) -> Listing | None:
    """What a role says, or None where it is written in another form than compact JSON, or is none of a `targets`.

    Args:
        said: the bytes that its signatures are over, verified.

    Raises:
        Exception: one of `MALFORMED`: it is no metadata.
    """
    places: dict[str, int] = {}

    def end(name: str, text: str, at: int) -> int:
        if name == "targets":
            return _members(text, at, _end_of_value, places)
        return _end_of_value(name, text, at)

    found: dict[str, int] = {}
    try:
        text = said.decode()
        if _members(text, 0, end, found) != len(text) or "targets" not in found:
            return None
    except (ValueError, IndexError):
        return None
    plain: dict[str, Any] = {
        name: _read(text, place)[0] for name, place in found.items() if name != "targets"
    }
    if plain.get("_type") != Targets.type:
        return None
    return Listing(Targets.from_dict({**plain, "targets": {}}), text, places)


def _members(text: str, at: int, end: Callable[[str, str, int], int], found: dict[str, int]) -> int:
    """Note where the value of each member of an object begins; where the object ends.

    Raises:
        ValueError, IndexError: there is no compact object, or a name in it comes twice.
    """
    if text[at] != "{":
        raise ValueError("no object")
    if text[at + 1] == "}":
        return at + 2
    separator = ","
    while separator == ",":
        name, at = _read(text, at + 1)
        if not isinstance(name, str) or name in found or text[at] != ":":
            raise ValueError("no member")
        found[name] = at + 1
        at = end(name, text, at + 1)
        separator = text[at]
    if separator != "}":
        raise ValueError("no end")
    return at + 1


def _end_of_value(_name: str, text: str, at: int) -> int:
    return int(_read(text, at)[1])
