"""Where frames come from."""

from typing import Annotated, Literal

from pydantic import Field

from edge_runtime.config.base import ConfigModel, PositiveSeconds, Seconds

Pacing = Literal["every_frame", "real_time", "camera"]
"""How a recording is played: every frame as fast as it is consumed; every frame at its own pace; or like a
live camera, which drops what is not taken in time."""


class _Recorded(ConfigModel):
    pacing: Pacing = "every_frame"


class FileSource(_Recorded):
    """A video file.

    Attributes:
        stream: which video stream, counted from 0 among the video streams.
        loop: start again at the end; each pass is a new epoch.
    """

    kind: Literal["file"]
    path: str
    stream: Annotated[int, Field(ge=0)] = 0
    loop: bool = False


class ImagesSource(_Recorded):
    """A folder of images, in name order, `interval` seconds apart on the source's timeline."""

    kind: Literal["images"]
    path: str
    interval: PositiveSeconds = 1.0


class PlaylistItem(ConfigModel):
    """One clip of a composition; `start` and `duration` cut it, in seconds."""

    path: str
    start: Seconds = 0.0
    duration: PositiveSeconds | None = None


class PlaylistSource(_Recorded):
    """Clips played one after another on one timeline, scaled to one size: a declared composition."""

    kind: Literal["playlist"]
    clips: Annotated[tuple[PlaylistItem, ...], Field(min_length=1)]
    width: Annotated[int, Field(ge=16, le=8192)]
    height: Annotated[int, Field(ge=16, le=8192)]
    fps: Annotated[float, Field(gt=0, le=240)] | None = None


class _Live(ConfigModel):
    """A source that does not wait for us.

    Attributes:
        max_age: a frame older than this is dropped, never evaluated.
        stall_after: no new frame for this long means stalled, and the source is torn down and reopened.
        frozen_after: identical content for this long means frozen; 0 turns the check off.
        open_timeout: how long one attempt to connect may take.
        backoff_first, backoff_max: bounds of the full-jitter wait between attempts.
        give_up_after: failed for good after trying this long without a frame; None tries for ever.
    """

    max_age: PositiveSeconds = 0.5
    stall_after: PositiveSeconds = 5.0
    frozen_after: Seconds = 10.0
    open_timeout: PositiveSeconds = 10.0
    backoff_first: PositiveSeconds = 0.5
    backoff_max: PositiveSeconds = 30.0
    give_up_after: PositiveSeconds | None = None


class RtspSource(_Live):
    """An RTSP camera. The URL may hold credentials or take them from `username` and `password`."""

    kind: Literal["rtsp"]
    url: str
    transport: Literal["tcp", "udp"] = "tcp"
    username: str | None = None
    password: str | None = Field(default=None, repr=False)
    stream: Annotated[int, Field(ge=0)] = 0


class HttpSource(_Live):
    """HTTP or MJPEG stream."""

    kind: Literal["http"]
    url: str
    username: str | None = None
    password: str | None = Field(default=None, repr=False)


class V4l2Source(_Live):
    """A USB or built-in camera through Video4Linux."""

    kind: Literal["v4l2"]
    device: str = "/dev/video0"
    width: Annotated[int, Field(ge=16, le=8192)] | None = None
    height: Annotated[int, Field(ge=16, le=8192)] | None = None
    fps: Annotated[float, Field(gt=0, le=480)] | None = None
    input_format: str | None = None


class GStreamerSource(_Live):
    """A GStreamer pipeline up to raw video: CSI cameras and the hardware decoder on Jetson.

    The runtime appends `videoconvert` and its own appsink; the string must not hold a sink.
    """

    kind: Literal["gstreamer"]
    pipeline: str


class SyntheticSource(_Live):
    """A drawn scene with moving boxes, seeded; for tests, benchmarks and soak runs.

    Attributes:
        frames: ends after so many; None never ends.
        pacing: `camera` is live; the others play like a recording.
        dead_after: stops delivering after so many frames, as a camera whose cable is cut.
    """

    kind: Literal["synthetic"]
    width: Annotated[int, Field(ge=16, le=8192)] = 640
    height: Annotated[int, Field(ge=16, le=8192)] = 480
    fps: Annotated[float, Field(gt=0, le=480)] = 30.0
    objects: Annotated[int, Field(ge=0, le=500)] = 3
    seed: int = 0
    frames: Annotated[int, Field(ge=1)] | None = None
    dead_after: Annotated[int, Field(ge=0)] | None = None
    pacing: Pacing = "camera"


SourceConfig = Annotated[
    FileSource
    | ImagesSource
    | PlaylistSource
    | RtspSource
    | HttpSource
    | V4l2Source
    | GStreamerSource
    | SyntheticSource,
    Field(discriminator="kind"),
]

__all__ = [
    "FileSource",
    "GStreamerSource",
    "HttpSource",
    "ImagesSource",
    "Pacing",
    "PlaylistItem",
    "PlaylistSource",
    "RtspSource",
    "SourceConfig",
    "SyntheticSource",
    "V4l2Source",
]
