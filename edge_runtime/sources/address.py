"""What FFmpeg is asked to open: one record per source, with the options that each kind needs and why."""

from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.regular_file import special_kind
from edge_runtime.config.source import FileSource, HttpSource, RtspSource, V4l2Source
from edge_runtime.sources.reader import SourceRefused
from edge_runtime.sources.redact import name_of, scheme_of, with_user


@dataclass(frozen=True, slots=True)
class LiveTimes:
    """How long a live stream may take.

    Attributes:
        open_s: for each of the two steps of opening it: connecting, and finding the streams.
        silent_s: until the next frame.
        max_age_ns: how old a frame may be.
    """

    open_s: float
    silent_s: float
    max_age_ns: int


@dataclass(frozen=True, slots=True)
class Address:
    """A stream for FFmpeg.

    Attributes:
        url: with credentials; never shown.
        name: what to call it in an error, without credentials.
        kind: `file`, `rtsp`, `http` or `v4l2`.
        stream: which video stream, counted from 0.
        times: limits of a live stream; None for a recording.
        container: FFmpeg's name of the format, where it must not be guessed.
        options: FFmpeg's options.
    """

    url: str = field(repr=False)
    name: str
    kind: str
    stream: int = 0
    times: LiveTimes | None = None
    container: str | None = None
    options: dict[str, str] = field(default_factory=dict)


def _times(config: RtspSource | HttpSource | V4l2Source) -> LiveTimes:
    return LiveTimes(config.open_timeout, config.stall_after, int(config.max_age * NS_PER_S))


def file_address(path: str, base: Path, stream: int = 0) -> Address:
    """A video file, relative to `base`, checked as far as can be without decoding.

    Raises:
        SourceRefused: there is no such file, or it is a folder, a pipe, a device or empty, or may not be read.
    """
    if scheme_of(path) and "://" in path:
        raise SourceRefused(f"{path} is a URL, not a file; use kind: rtsp or kind: http")
    full = (base / Path(path).expanduser()).absolute()
    try:
        if full.is_dir():
            raise SourceRefused(f"{path} is a folder, not a video; kind: images reads a folder of pictures")
        found = full.stat()
        kind = special_kind(found.st_mode)
        if kind is not None:  # opening a pipe waits until somebody writes to it
            raise SourceRefused(
                f"{path} is {kind}, not a video file; kind: v4l2 reads a camera, kind: gstreamer other devices"
            )
        if found.st_size == 0 and full.is_file():
            raise SourceRefused(f"{path} is empty: copy or record it again")
    except FileNotFoundError:
        raise SourceRefused(f"{path} does not exist (looked for {full})") from None
    except OSError as error:
        raise SourceRefused(f"{path} cannot be read: {error.strerror}") from None
    # `file:` so that no name is taken for a protocol.
    return Address(f"file:{full}", path, "file", stream)


def address_of(config: FileSource | RtspSource | HttpSource | V4l2Source, base: Path) -> Address:
    """The address of one source.

    Raises:
        SourceRefused: it cannot be opened as written.
    """
    if isinstance(config, FileSource):
        return file_address(config.path, base, config.stream)
    if isinstance(config, RtspSource):
        return _rtsp(config)
    if isinstance(config, HttpSource):
        return _http(config)
    return _v4l2(config)


def _rtsp(config: RtspSource) -> Address:
    if scheme_of(config.url) not in ("rtsp", "rtsps"):
        raise SourceRefused(f"url must begin with rtsp:// or rtsps://, not {name_of(config)}")
    options = {
        "rtsp_transport": config.transport,
        "allowed_media_types": "video",  # an audio track would be fetched, and can poison the timestamps
        # Frames read while looking at the stream are too old to use; by default that lasts 3 s at 10 fps.
        "fpsprobesize": "0",
        "analyzeduration": "1000000",
    }
    url = with_user(config.url, config.username, config.password)
    return Address(url, name_of(config), "rtsp", config.stream, _times(config), None, options)


def _http(config: HttpSource) -> Address:
    if scheme_of(config.url) not in ("http", "https"):
        raise SourceRefused(f"url must begin with http:// or https://, not {name_of(config)}")
    options = {"fpsprobesize": "0", "analyzeduration": "1000000"}
    url = with_user(config.url, config.username, config.password)
    return Address(url, name_of(config), "http", 0, _times(config), None, options)


def _v4l2(config: V4l2Source) -> Address:
    # The driver's read blocks for ever when a camera hangs and cannot be interrupted: ask instead of wait.
    options = {"fflags": "+4", "fpsprobesize": "0"}  # AVFMT_FLAG_NONBLOCK has no name among the options
    if config.width is not None and config.height is not None:
        options["video_size"] = f"{config.width}x{config.height}"
    elif config.width is not None or config.height is not None:
        raise SourceRefused(f"{config.device}: give both width and height, or neither")
    if config.fps is not None:
        options["framerate"] = f"{config.fps:g}"
    if config.input_format is not None:
        options["input_format"] = config.input_format
    return Address(config.device, config.device, "v4l2", 0, _times(config), "v4l2", options)
