"""The base of every configuration model, and its scalars: strict about names, frozen, no infinities.

The scalars refuse what pydantic would quietly accept: `true` as the number 1, `yes` or 1 as a boolean, a
number as a time of day. Text that holds a number is accepted, because `${env:NAME}` yields text.
"""

import re
from datetime import time
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from edge_runtime.telemetry import MASK, redact_patterns

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
NAME_RULE = "use 1 to 64 letters, digits, - and _, beginning with a letter or a digit"

TEXT_PATTERN = r"^[^\x00]+$"
"""What only a NUL character breaks."""

LONGEST_S = 31_536_000
"""A year: whatever is longer was meant in another unit."""

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError(
            "not_a_number", "must be a number, not {word}", {"word": str(value).lower()}
        )
    return value


def _flag(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise PydanticCustomError("not_a_flag", "must be true or false")


def _clock_time(value: Any) -> Any:
    if isinstance(value, time):
        return value
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise PydanticCustomError("not_a_time", "must be a time of day from 00:00 to 23:59, such as 08:30")
    hour, minute, second = (int(part or 0) for part in match.groups())
    return time(hour, minute, second)


class Credential(str):
    """Text that is or may hold a credential: an ordinary `str`, but `repr` and dumps show it masked."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(self.masked())

    def masked(self) -> str:
        """What may be shown: URLs without user information, anything else as `***`."""
        return redact_patterns(self) if "://" in self or " ! " in self else MASK


def _as_credential(value: str) -> Credential:
    return Credential(value)


def _dump_credential(value: str) -> str:
    return Credential(value).masked()


Integer = Annotated[int, BeforeValidator(_number)]
Real = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
ClockTime = Annotated[time, BeforeValidator(_clock_time)]
Text = Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT_PATTERN)]
CredentialText = Annotated[Text, AfterValidator(_as_credential), PlainSerializer(_dump_credential)]

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Label = Annotated[str, Field(min_length=1, max_length=64)]
Seconds = Annotated[Real, Field(ge=0, le=LONGEST_S)]
PositiveSeconds = Annotated[Real, Field(gt=0, le=LONGEST_S)]
Fraction = Annotated[Real, Field(ge=0, le=1)]
Point = tuple[Real, Real]


class ConfigModel(BaseModel):
    """Refuses unknown keys, so that a misspelt one is found before it is missed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
