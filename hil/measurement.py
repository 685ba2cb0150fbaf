"""A measurement: a value with its unit and its limits. What never happened has no value, and meets no limit."""

from typing import Annotated

from pydantic import Field, model_validator

from edge_runtime.protocol.release import SignedRecord

Number = Annotated[float, Field(allow_inf_nan=False)]
MeasureName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class Limits(SignedRecord):
    """What a value has to lie within, both ends included.

    Attributes:
        unit: of the limits.
    """

    at_least: Number | None = None
    at_most: Number | None = None
    unit: Annotated[str, Field(min_length=1, max_length=16)]

    @model_validator(mode="after")
    def _limited(self) -> "Limits":
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs at_least or at_most: what has no limit cannot fail")
        return self

    @property
    def text(self) -> str:
        """The limits in words."""
        low = [] if self.at_least is None else [f"at least {self.at_least:g}"]
        high = [] if self.at_most is None else [f"at most {self.at_most:g}"]
        return f"{' and '.join(low + high)} {self.unit}"


class Measurement(Limits):
    """One value.

    Attributes:
        name: what was measured; once a run.
        test: that measured it.
        value: None where it never happened.
        met: whether it lies within the limits.
    """

    name: MeasureName
    test: Annotated[str, Field(max_length=200)]
    value: Number | None = None
    met: bool

    @property
    def value_text(self) -> str:
        """The value with its unit."""
        return "never" if self.value is None else f"{self.value:.4g} {self.unit}"

    @property
    def sentence(self) -> str:
        """What was measured and expected, in one line."""
        return f"{self.name}: {self.value_text} ({self.text})"


def judged(name: str, test: str, value: float | None, limits: Limits) -> Measurement:
    """A value held against its limits."""
    met = (
        value is not None
        and (limits.at_least is None or value >= limits.at_least)
        and (limits.at_most is None or value <= limits.at_most)
    )
    return Measurement(
        name=name,
        test=test,
        value=value,
        met=met,
        at_least=limits.at_least,
        at_most=limits.at_most,
        unit=limits.unit,
    )
