"""What a lane takes frames from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edge_runtime.sources.frame import Frame


class FrameSupply(Protocol):
    """What a lane needs of a camera; `edge_runtime.sources.SourceRunner` is one."""

    @property
    def name(self) -> str:
        """The camera's name, as in `Frame.source`."""
        ...

    @property
    def finished(self) -> bool:
        """No frame is waiting and none will come."""
        ...

    def waiting(self) -> int | None:
        """capture_ns of the frame that `poll` would give, or None."""
        ...

    def poll(self) -> Frame | None:
        """Take that frame; None when it was dropped meanwhile."""
        ...

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back, from any thread and outside any lock, when a frame arrives or the camera ends."""
        ...


@dataclass(frozen=True, slots=True)
class LaneSource:
    """A camera of the lane.

    Attributes:
        max_age_ns: a frame older than this is never evaluated; None for recordings, which wait.
        limit: take no more than so many frames.
    """

    runner: FrameSupply
    max_age_ns: int | None
    limit: int | None = None
