"""Whether faults may be injected on this device; see the room `faults`."""

from edge_runtime.config.base import ConfigModel, Flag


class FaultsConfig(ConfigModel):
    """The fault injector.

    Attributes:
        enabled: whoever owns the state directory may make the camera and the health readings fail, with
            `edge-runtime fault`. Refused unless `device.purpose` is `bench`.
    """

    enabled: Flag = False
