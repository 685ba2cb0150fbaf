"""Less work before the hardware makes all of it slow: what the thermal governor may do.

A device that does not know its own limit takes the sensors' own: each zone says where the kernel slows it down.
"""

from typing import Annotated

from pydantic import Field

from edge_runtime.config.base import ConfigModel, Flag, Integer, Name, Real

MOST_VARIANTS = 2


class GovernorConfig(ConfigModel):
    """When the device gets hot, frames of live cameras are left out, and then smaller models look at the rest.

    Attributes:
        enabled: leave frames out when it gets hot.
        limit_c: degrees Celsius that no sensor shall reach. Without it `device.profile.max_temperature_c`, and
            without that where the sensors say that the hardware slows down, or 95 where they do not say.
        careful_level: how many steps of work are left out at least while a temperature that was known is not:
            steps 0 to 3 look at 100, 75, 50 and 35 % of the frames; then a smaller model takes over where there
            is one, and it goes on to 25 and 10 %.
        variants: for a model of a camera the models, at most 2, each smaller than the one before, that take its
            place when fewer frames are not enough. They know the same labels in the same order, and may see the
            same data. Threads, mode, batch, timeout, and the score at which a detection counts are those of the
            model whose place they take.
    """

    enabled: Flag = True
    limit_c: Annotated[Real, Field(ge=40, le=130)] | None = None
    careful_level: Annotated[Integer, Field(ge=0, le=5)] = 2
    variants: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_VARIANTS)]] = Field(
        default_factory=dict
    )
