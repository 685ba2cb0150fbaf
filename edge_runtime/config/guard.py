"""What holds the permission to move, and watches the processes of a device whether it moves or not.

A device whose configuration has this section, or one about delivery, runs under the guard. Without a `profile` the
device is taken for one that cannot move, such as a camera on a wall: then nothing latches.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from edge_runtime.config.base import ConfigModel, Flag, Integer, Name, Text
from edge_runtime.config.governor import GovernorConfig
from edge_runtime.config.monitor import MonitorConfig


def _public_key(value: str) -> str:
    if len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise ValueError(
            "must be 64 hexadecimal digits in lower case: edge-runtime guard key show FILE prints it"
        )
    return value


PublicKey = Annotated[str, AfterValidator(_public_key)]


class HardwareWatchdogConfig(ConfigModel):
    """A watchdog of the machine, which reboots it when the guard no longer feeds it.

    Attributes:
        device: its file.
        timeout: seconds until it reboots; longer than the service manager's longest stall. Hardware may round it.
    """

    device: Text = "/dev/watchdog"
    timeout: Annotated[Integer, Field(ge=1, le=3600)] = 30


class GuardConfig(ConfigModel):
    """The guard.

    Attributes:
        profile: file of the body's profile, YAML or JSON, relative to the configuration file: which conditions
            count and how, its modes, its stopping distance. Without one the body cannot move.
        motion_gate: file of the motion gate's settings, YAML or JSON; without one there is no motion gate.
        keys: Ed25519 public keys, 64 hexadecimal digits, of those who may acknowledge a latch, by name;
            `edge-runtime guard key new` makes one.
        hardware_watchdog: fed by the guard while all is well enough; none without it.
        real_time: ask for SCHED_FIFO and locked memory. What was not given is said at the start and in the status.
        monitor: what is looked at beside the cameras: heat, disk, memory, clock, batteries, pose and map.
        governor: leaves frames out before heat makes the hardware slow.
    """

    profile: Text | None = None
    motion_gate: Text | None = None
    keys: dict[Name, PublicKey] = Field(default_factory=dict, max_length=16)
    hardware_watchdog: HardwareWatchdogConfig | None = None
    real_time: Flag = True
    monitor: MonitorConfig = MonitorConfig()
    governor: GovernorConfig = GovernorConfig()
