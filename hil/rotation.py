"""A rig that is sick leaves rotation: a file with the reason, and no run there before a person has removed it."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from edge_runtime.durable import write_file
from hil.problems import RigError
from sim.scenario.records import Record

STATE = Path(".cache/hil")
"""Of this checkout; `make clean` leaves it."""

_MOST_BYTES = 64 * 1024


class Sickness(Record):
    """Why a rig is out of rotation.

    Attributes:
        since: wall time, ISO 8601.
        test: in which it was noticed.
        reason: one sentence.
    """

    since: str
    test: str
    reason: Annotated[str, Field(max_length=2000)]


def sick_file(state: Path, rig: str) -> Path:
    """Where it is written down."""
    return state / rig / "sick.json"


def sickness(state: Path, rig: str) -> Sickness | None:
    """Why a rig is out of rotation; None where it is not. A file that nobody can read counts."""
    path = sick_file(state, rig)
    try:
        text = path.read_bytes()[:_MOST_BYTES]
    except FileNotFoundError:
        return None
    except OSError as error:
        return Sickness(since="unknown", test="", reason=f"{path} cannot be read: {error.strerror}")
    try:
        return Sickness.model_validate_json(text)
    except ValidationError:
        return Sickness(since="unknown", test="", reason=f"{path} is damaged")


def leave(state: Path, rig: str, found: Sickness) -> None:
    """Take a rig out of rotation; the first reason stays.

    Raises:
        RigError: it cannot be written down.
    """
    path = sick_file(state, rig)
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, found.model_dump_json(indent=2).encode() + b"\n")
    except OSError as error:
        raise RigError(f"{path}: cannot be written: {error.strerror}; {found.reason}") from None


def heal(state: Path, rig: str) -> Sickness | None:
    """Put a rig back into rotation; what it suffered from, None where it was in rotation.

    Raises:
        RigError: the file cannot be removed.
    """
    found = sickness(state, rig)
    try:
        sick_file(state, rig).unlink(missing_ok=True)
    except OSError as error:
        raise RigError(f"{sick_file(state, rig)}: cannot be removed: {error.strerror}") from None
    return found


def refusal(rig: str, found: Sickness) -> str:
    """Why a run does not begin, and what to do."""
    return (
        f"rig {rig} is out of rotation since {found.since}: {found.reason}; "
        f"put it right, then: python -m hil heal {rig}"
    )
