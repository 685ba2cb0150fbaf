"""The base of every configuration model: strict about names, frozen, no infinities."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
PositiveSeconds = Annotated[float, Field(gt=0, le=31_536_000)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Point = tuple[float, float]


class ConfigModel(BaseModel):
    """Refuses unknown keys, so that a misspelt one is found before it is missed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
