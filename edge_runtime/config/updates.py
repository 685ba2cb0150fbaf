"""Updates: releases of models and configurations that the fleet assigns to this device.

Without this section the device takes none. Times are local ones of `time_zone`.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from edge_runtime.config.base import ClockTime, ConfigModel, Flag, Integer, PositiveSeconds, Real, Text
from edge_runtime.protocol.windows import require_length, zone_of

MIB = 1 << 20

_DAY_S, _HOUR_S = 86_400.0, 3_600.0


def _zone(value: str) -> str:
    zone_of(value)
    return value


TimeZone = Annotated[Text, AfterValidator(_zone)]
HARDWARE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._,:+/-]{0,127}$"
HARDWARE_RULE = "use 1 to 128 letters, digits, ., _, comma, :, +, / and -, beginning with a letter or a digit"
HardwareName = Annotated[str, Field(pattern=HARDWARE_PATTERN)]

INTERFACE_PATTERN = r"^[A-Za-z0-9*?._-]{1,32}$"
INTERFACE_RULE = "use 1 to 32 letters, digits, ., _ and -, with * and ? for what may be anything"
Interface = Annotated[str, Field(pattern=INTERFACE_PATTERN)]


class WindowConfig(ConfigModel):
    """When a new release may be put in use; an end that is not after the start is on the next day.

    A time that a change of the clock skips is the moment of the change; of one that comes twice the first counts.

    Attributes:
        days: on which it opens; empty means all.
        start: local time at which it opens.
        end: local time at which it closes.
    """

    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = ()
    start: ClockTime
    end: ClockTime

    @model_validator(mode="after")
    def _lasts(self) -> "WindowConfig":
        require_length(self.start, self.end)
        return self


class DownloadConfig(ConfigModel):
    """What fetching a release may cost.

    Attributes:
        rate_kb_s: no more kilobytes a second are taken than this; without it as many as come.
        daily_mb: megabytes of releases a day; they count against `delivery.uplink.daily_bytes` as well.
        metered: what to do on a link whose bytes cost: `wait` for another one, or `use` it.
        metered_interfaces: names of such links, with * and ?.
        deadline: seconds for one release, all tries together.
    """

    rate_kb_s: Annotated[Integer, Field(ge=1)] | None = None
    daily_mb: Annotated[Integer, Field(ge=1)] | None = None
    metered: Literal["wait", "use"] = "wait"
    metered_interfaces: Annotated[tuple[Interface, ...], Field(max_length=16)] = ("wwan*", "ppp*", "usb*")
    deadline: PositiveSeconds = _DAY_S


class UpdatesConfig(ConfigModel):
    """Releases that the fleet assigns.

    Attributes:
        enabled: take them; `false` leaves the section written and nothing running.
        hardware: names that this device answers to, beside those of its board; releases name what they are for.
        time_zone: of the windows, such as Europe/Zurich.
        windows: when a new release may be put in use; without any, at any time. What the fleet takes back waits for
            none.
        download: what fetching may cost.
        quota_mb: megabytes for releases; the running, the last good and the assigned one are never pushed out.
        reserve_mb: megabytes of the disk that stay free for everything else.
        prepare: seconds that loading a release beside the one in use may take, an engine's build included.
        trial_share: share of the time that a candidate's own process may run while it is opened and tried on the
            CPU, above 0, to 1. It stands behind the cameras, and takes from them all the same where two processors
            are one core's; the smaller the share, the longer a candidate takes.
        wait: seconds that a release may wait for a window, a lock, or a robot that moves.
    """

    enabled: Flag = True
    hardware: Annotated[tuple[HardwareName, ...], Field(max_length=8)] = ()
    time_zone: TimeZone = "UTC"
    windows: Annotated[tuple[WindowConfig, ...], Field(max_length=16)] = ()
    download: DownloadConfig = DownloadConfig()
    quota_mb: Annotated[Integer, Field(ge=64)] = 4096
    reserve_mb: Annotated[Real, Field(ge=1)] = 256
    prepare: PositiveSeconds = 6 * _HOUR_S
    trial_share: Annotated[Real, Field(gt=0, le=1)] = 0.2
    wait: PositiveSeconds = 14 * _DAY_S
