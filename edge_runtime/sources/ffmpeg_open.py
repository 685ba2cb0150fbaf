"""Opening a container with FFmpeg and choosing the stream to decode, with its threads."""

from os import cpu_count

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from edge_runtime.errors import SourceError
from edge_runtime.sources.address import Address
from edge_runtime.sources.ffmpeg_errors import explained
from edge_runtime.sources.reader import SourceRefused

_TEXT_FORMATS = frozenset({"tty", "bin", "adf", "idf", "xbin"})  # FFmpeg would draw any text file as video

_MANY_PIXELS = 1280 * 720
"""Up to this size one thread decodes in 1 to 5 ms, faster than models look, and damaged pictures come out the
same in every run: with several threads the decoder's guesses about lost parts depend on timing."""


def open_stream(address: Address) -> tuple[InputContainer, VideoStream]:
    """The opened container and the chosen video stream.

    Raises:
        SourceRefused: it is no video that can be decoded, or lacks the asked stream.
        SourceError: it cannot be opened now.
    """
    times = address.times
    try:
        container = av.open(
            address.url,
            "r",
            format=address.container,
            options=address.options,
            metadata_errors="replace",  # a camera's name in Latin-1 is no reason to fail
            timeout=None if times is None else (times.open_s, times.silent_s),
        )
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise explained(error, address) from None
    try:
        return container, _chosen(container, address)
    except SourceError:
        container.close()
        raise


def _chosen(container: InputContainer, address: Address) -> VideoStream:
    name, number = address.name, address.stream
    if container.format.name in _TEXT_FORMATS:
        raise SourceRefused(f"{name} is a text file, not a video")
    videos = [stream for stream in container.streams.video if not _is_cover(stream)]
    if not videos:
        kinds = ", ".join(sorted({stream.type for stream in container.streams})) or "nothing"
        raise SourceRefused(f"{name} holds no video stream, only {kinds}")
    if number >= len(videos):
        held = f"{len(videos)} video stream{'s' if len(videos) > 1 else ''}"
        raise SourceRefused(f"{name} has {held}; there is no stream {number}, they count from 0")
    stream = videos[number]
    if getattr(stream, "codec_context", None) is None:
        raise SourceRefused(f"{name} is coded in a way that this FFmpeg cannot decode")
    # Frame threads hold back as many frames as there are threads: right for a file, wrong for a camera.
    stream.thread_type = "SLICE" if address.times is not None else "AUTO"
    large = stream.codec_context.width * stream.codec_context.height > _MANY_PIXELS
    stream.codec_context.thread_count = min(cpu_count() or 1, 4) if large else 1
    return stream


def _is_cover(stream: VideoStream) -> bool:
    """Whether a "video stream" is the cover picture of a song."""
    disposition = getattr(stream, "disposition", None)
    return "attached_pic" in str(getattr(disposition, "name", disposition) or "")
