"""Less work before the hardware makes all of it slow: what the thermal governor may do.

A device that does not know its own limit takes the sensors' own: each zone says where the kernel slows it down.
"""

from typing import Annotated

from pydantic import Field

from edge_runtime.config.base import ConfigModel, Flag, Integer, Real


class GovernorConfig(ConfigModel):
    """Frames of live cameras are left out when the device gets hot. Recordings are never thinned.

    Attributes:
        enabled: leave frames out when it gets hot.
        limit_c: degrees Celsius that no sensor shall reach. Without it `device.profile.max_temperature_c`, and
            without that where the sensors say that the hardware slows down, or 95 where they do not say.
        careful_level: how many steps of work are left out at least while a temperature that was known is not:
            steps 0 to 5 look at 100, 75, 50, 35, 25 and 10 % of the frames.
    """

    enabled: Flag = True
    limit_c: Annotated[Real, Field(ge=40, le=130)] | None = None
    careful_level: Annotated[Integer, Field(ge=0, le=5)] = 2
