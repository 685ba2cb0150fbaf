"""Where frames come from."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from edge_runtime.config.base import (
    ConfigModel,
    CredentialText,
    Flag,
    Integer,
    PositiveSeconds,
    Real,
    Seconds,
    Text,
)
from edge_runtime.config.url import http_url, rtsp_url

Pacing = Literal["every_frame", "real_time", "camera"]
"""How a recording is played: every frame as fast as it is consumed; every frame at its own pace; or like a
live camera, which drops what is not taken in time."""


class _Recorded(ConfigModel):
    """A recording.

    Attributes:
        pacing: `every_frame` as fast as it is consumed, `real_time` at its own pace without losing a frame, or
            like a live `camera`, which drops what is not taken in time.
    """

    pacing: Pacing = "every_frame"


class FileSource(_Recorded):
    """A video file.

    Attributes:
        kind: `file`.
        path: of the video, relative to the configuration file.
        stream: which video stream, counted from 0 among the video streams.
        loop: start again at the end; each pass is a new epoch.
    """

    kind: Literal["file"]
    path: Text
    stream: Annotated[Integer, Field(ge=0)] = 0
    loop: Flag = False


class ImagesSource(_Recorded):
    """A folder of images, in name order, `interval` seconds apart on the source's timeline.

    Attributes:
        kind: `images`.
        path: of the folder, relative to the configuration file.
        interval: seconds between two images.
    """

    kind: Literal["images"]
    path: Text
    interval: PositiveSeconds = 1.0


class PlaylistItem(ConfigModel):
    """One clip of a composition; `start` and `duration` cut it, in seconds.

    Attributes:
        path: of the video, relative to the configuration file.
        start: seconds to skip at its beginning.
        duration: seconds to play; to its end without one.
    """

    path: Text
    start: Seconds = 0.0
    duration: PositiveSeconds | None = None


class PlaylistSource(_Recorded):
    """Clips played one after another on one timeline, scaled to one size: a declared composition.

    Attributes:
        kind: `playlist`.
        clips: in the order in which they are played.
        width, height: pixels to which every clip is scaled.
        fps: frames per second to which every clip is resampled; each keeps its own without one.
    """

    kind: Literal["playlist"]
    clips: Annotated[tuple[PlaylistItem, ...], Field(min_length=1)]
    width: Annotated[Integer, Field(ge=16, le=8192)]
    height: Annotated[Integer, Field(ge=16, le=8192)]
    fps: Annotated[Real, Field(gt=0, le=240)] | None = None


class _Live(ConfigModel):
    """A source that does not wait for us.

    Attributes:
        max_age: a frame older than this is dropped, never evaluated.
        stall_after: no new frame for this long means stalled, and the source is torn down and reopened.
        frozen_after: identical content for this long means frozen; 0 turns the check off.
        open_timeout: how long one attempt to connect may take.
        backoff_first, backoff_max: bounds of the full-jitter wait between attempts.
        give_up_after: failed for good after trying this long without a frame; without it, tries for ever.
    """

    max_age: PositiveSeconds = 0.5
    stall_after: PositiveSeconds = 5.0
    frozen_after: Seconds = 10.0
    open_timeout: PositiveSeconds = 10.0
    backoff_first: PositiveSeconds = 0.5
    backoff_max: PositiveSeconds = 30.0
    give_up_after: PositiveSeconds | None = None


class RtspSource(_Live):
    """An RTSP camera. The URL may hold credentials or take them from `username` and `password`.

    Attributes:
        kind: `rtsp`.
        url: `rtsp://` or `rtsps://`; shown without its credentials.
        transport: `tcp` loses nothing; `udp` may be quicker on a good network.
        username, password: instead of credentials in the URL; write `${file:PATH}` or `${env:NAME}`.
        stream: which video stream, counted from 0 among the video streams.
    """

    kind: Literal["rtsp"]
    url: Annotated[CredentialText, AfterValidator(rtsp_url)]
    transport: Literal["tcp", "udp"] = "tcp"
    username: CredentialText | None = None
    password: CredentialText | None = None
    stream: Annotated[Integer, Field(ge=0)] = 0


class HttpSource(_Live):
    """HTTP or MJPEG stream.

    Attributes:
        kind: `http`.
        url: `http://` or `https://`; shown without its credentials.
        username, password: instead of credentials in the URL; write `${file:PATH}` or `${env:NAME}`.
    """

    kind: Literal["http"]
    url: Annotated[CredentialText, AfterValidator(http_url)]
    username: CredentialText | None = None
    password: CredentialText | None = None


class V4l2Source(_Live):
    """A USB or built-in camera through Video4Linux.

    Attributes:
        kind: `v4l2`.
        device: path of the device, such as /dev/video0 or a stable name in /dev/v4l/by-id.
        width, height, fps: asked of the camera; it chooses without them.
        input_format: pixel format asked of the camera, such as mjpeg or yuyv422.
    """

    kind: Literal["v4l2"]
    device: Text = "/dev/video0"
    width: Annotated[Integer, Field(ge=16, le=8192)] | None = None
    height: Annotated[Integer, Field(ge=16, le=8192)] | None = None
    fps: Annotated[Real, Field(gt=0, le=480)] | None = None
    input_format: Text | None = None


class GStreamerSource(_Live):
    """A GStreamer pipeline up to raw video: CSI cameras and the hardware decoder on Jetson.

    The runtime appends `videoconvert` and its own appsink; the string must not hold a sink.

    Attributes:
        kind: `gstreamer`.
        pipeline: elements joined by ` ! `, as gst-launch-1.0 takes them, without a sink.
    """

    kind: Literal["gstreamer"]
    pipeline: CredentialText

    @field_validator("pipeline")
    @classmethod
    def _no_sink(cls, value: str) -> str:
        for element in value.split("!"):
            words = element.split()
            factory = words[0] if words else ""
            if not words:
                raise ValueError("has an empty element: between two ! there must be one")
            if factory.endswith("sink"):
                raise ValueError(f"must not hold a sink ({factory}): the runtime appends its own")
        return value


class SyntheticSource(_Live):
    """A drawn scene with moving boxes, seeded; for tests, benchmarks and soak runs.

    Attributes:
        kind: `synthetic`.
        width, height: of the picture, in pixels.
        fps: frames per second.
        objects: how many boxes move.
        seed: the same seed draws the same scene.
        frames: ends after so many; without it, never.
        pacing: `camera` is live; the others play like a recording.
        dead_after: stops delivering after so many frames, as a camera whose cable is cut.
    """

    kind: Literal["synthetic"]
    width: Annotated[Integer, Field(ge=16, le=8192)] = 640
    height: Annotated[Integer, Field(ge=16, le=8192)] = 480
    fps: Annotated[Real, Field(gt=0, le=480)] = 30.0
    objects: Annotated[Integer, Field(ge=0, le=500)] = 3
    seed: Integer = 0
    frames: Annotated[Integer, Field(ge=1)] | None = None
    dead_after: Annotated[Integer, Field(ge=0)] | None = None
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
