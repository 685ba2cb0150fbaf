"""What a virtual device is like: drawn from the fleet's seed and its name alone, so that a run can be repeated."""

import random
from dataclasses import dataclass
from enum import Enum


class Fault(str, Enum):
    """What is wrong with a device, whatever the release.

    Attributes:
        SLOW: every other model than its first takes three times as long: a chip that throttles.
        CRASHES: perception ends while another model than its first is in use.
        FULL_DISK: no release fits.
        CANNOT_LOAD: no model opens beside the one in use.
    """

    SLOW = "slow"
    CRASHES = "crashes"
    FULL_DISK = "full-disk"
    CANNOT_LOAD = "cannot-load"


@dataclass(frozen=True, slots=True)
class Shares:
    """How a fleet is mixed.

    Attributes:
        offline: share of the devices that are never there.
        flapping: share whose connection breaks now and then.
        failing: share with a `Fault`.
        download_s: shortest and longest time of a download.
        load_s: of loading a model.
        fps: frames a second that a device evaluates.
    """

    offline: float = 0.0
    flapping: float = 0.0
    failing: float = 0.0
    download_s: tuple[float, float] = (0.2, 2.0)
    load_s: tuple[float, float] = (0.1, 1.0)
    fps: float = 25.0


@dataclass(frozen=True, slots=True)
class Character:
    """One device.

    Attributes:
        stays_s: after so long in a session its connection breaks; None where it holds.
        model_ms: median time of one inference with its first model.
        celsius: of its hottest zone.
    """

    online: bool
    stays_s: float | None
    fault: Fault | None
    download_s: float
    load_s: float
    fps: float
    model_ms: float
    celsius: float


def character(seed: int, name: str, shares: Shares) -> Character:
    """What a device is like.

    Args:
        seed: of the fleet.
        name: the device's id.
        shares: of the fleet.
    """
    rng = random.Random(f"{seed}/{name}")  # noqa: S311 - a simulation that can be repeated
    online = rng.random() >= shares.offline
    flaps = rng.random() < shares.flapping
    fails = rng.random() < shares.failing
    return Character(
        online=online,
        stays_s=rng.uniform(5.0, 30.0) if flaps else None,
        fault=rng.choice(list(Fault)) if fails else None,
        download_s=rng.uniform(*shares.download_s),
        load_s=rng.uniform(*shares.load_s),
        fps=shares.fps * rng.uniform(0.9, 1.1),
        model_ms=rng.uniform(8.0, 30.0),
        celsius=rng.uniform(45.0, 65.0),
    )
