"""A GStreamer pipeline through `gi`: CSI cameras and the hardware decoder on Jetson, and whatever else it reads.

`gi` and GStreamer come from the system (JetPack, Debian), never from pip; without them this source names the
packages. The pipeline's own clock says when a picture was taken: for a CSI camera that is the sensor's time.
"""

import contextlib
import ctypes
import threading
from typing import Any

import numpy as np

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.config.source import GStreamerSource
from edge_runtime.errors import MissingDependency, SourceError
from edge_runtime.sources.frame import Image
from edge_runtime.sources.reader import Grab, ReadCounts, SourceRefused, SourceSilent, StreamFacts
from edge_runtime.sources.redact import name_of, without_credentials

PACKAGES = (
    "python3-gi gir1.2-gst-plugins-base-1.0 gstreamer1.0-plugins-base gstreamer1.0-plugins-good "
    "gstreamer1.0-plugins-bad gstreamer1.0-libav"
)

_TAIL = " ! videoconvert ! video/x-raw,format=BGR ! appsink name=edge_runtime_sink max-buffers=2 drop=true"
_SLICE_NS = 200 * NS_PER_MS  # between looks at the bus and at a request to stop
_MAX_CLOCK_AGE_NS = 10 * NS_PER_S  # a pipeline clock that says more than this is not measuring age


def load_gst() -> tuple[Any, Any]:
    """The modules `Gst`, initialised, and `GstVideo`.

    Raises:
        MissingDependency: gi or GStreamer is not there; the text names the packages.
    """
    _keep_the_compilers_unwinder()
    try:
        import gi  # noqa: PLC0415 - from the system, where present

        gi.require_version("Gst", "1.0")
        gi.require_version("GstApp", "1.0")
        gi.require_version("GstVideo", "1.0")
        from gi.repository import Gst, GstApp, GstVideo  # noqa: PLC0415, F401 - the sink's methods
    except (ImportError, ValueError) as error:
        raise MissingDependency(
            f"a gstreamer source needs GStreamer and gi from the system ({error}): apt-get install {PACKAGES}, "
            "and a virtual environment made with --system-site-packages"
        ) from None
    Gst.init(None)
    return Gst, GstVideo


def _keep_the_compilers_unwinder() -> None:
    """Have libgcc unwind C++ exceptions in this process, whatever is loaded after it.

    GStreamer brings libunwind, and `gi` puts its symbols into the global scope. A library that binds
    `_Unwind_Resume` later gets libunwind's, whose frames libstdc++ cannot read: the first exception inside ONNX
    Runtime then ends the process with a segmentation fault (docs/decisions/0035-libgcc-before-gstreamer.md).
    """
    with contextlib.suppress(OSError):  # another C library, where there is nothing to protect
        ctypes.CDLL("libgcc_s.so.1", mode=ctypes.RTLD_GLOBAL)


class GStreamerReader:
    """One running pipeline.

    Args:
        config: the pipeline up to raw video.
        clock: stamps arrivals.
        cancel: set to make waits end early.

    Raises:
        MissingDependency: no GStreamer here.
        SourceRefused: the pipeline cannot be built as written.
        SourceError: it does not start now.
    """

    def __init__(self, config: GStreamerSource, clock: Clock, cancel: threading.Event) -> None:
        self._gst, self._gst_video = load_gst()
        self._config = config
        self._clock = clock
        self._cancel = cancel
        self._name = name_of(config)
        self.counts = ReadCounts()
        self.warning: str | None = None
        self.facts = StreamFacts(0, 0, "gstreamer")
        self._pipeline, self._sink = self._build()
        self._bus = self._pipeline.get_bus()
        try:
            self._is_live = self._start()
        except SourceError:
            self.close()
            raise

    def _build(self) -> tuple[Any, Any]:
        gst = self._gst
        text = self._config.pipeline.strip().rstrip("!").rstrip() + _TAIL
        try:
            pipeline = gst.parse_launch(text)
        except Exception as error:
            if type(error).__name__ != "GError" and not isinstance(error, (RuntimeError, TypeError)):
                raise
            raise SourceRefused(
                f"{self._name} cannot be built: {without_credentials(_message(error))}; it must be a pipeline "
                "up to raw video, without a sink"
            ) from None
        return pipeline, pipeline.get_by_name("edge_runtime_sink")

    def _start(self) -> bool:
        """Set the pipeline running; True where it is live (its clock then tells the age of pictures)."""
        gst = self._gst
        # Only on the way to PAUSED does a live pipeline say that it is one: it has nothing to show there yet.
        live = bool(self._reach(gst.State.PAUSED) == gst.StateChangeReturn.NO_PREROLL)
        if live:  # otherwise the sink keeps time: a recording must not run at the speed of its decoder
            self._sink.props.sync = False  # a camera's picture is wanted now, not when its clock says
        self._reach(gst.State.PLAYING)
        return live

    def _reach(self, state: Any) -> Any:
        """Change the pipeline's state, waiting within the time to open; the result of the change."""
        gst = self._gst
        deadline_ns = self._clock.monotonic_ns() + int(self._config.open_timeout * NS_PER_S)
        result = self._pipeline.set_state(state)
        while result == gst.StateChangeReturn.ASYNC:
            result = self._pipeline.get_state(_SLICE_NS)[0]
            self._raise_what_the_bus_says()
            if self._cancel.is_set():
                raise SourceError(f"{self._name} was stopped while it started")
            if result == gst.StateChangeReturn.ASYNC and self._clock.monotonic_ns() > deadline_ns:
                raise SourceSilent(f"{self._name} did not start within {self._config.open_timeout:g} s")
        if result == gst.StateChangeReturn.FAILURE:
            self._raise_what_the_bus_says(NS_PER_S)
            raise SourceError(f"{self._name} does not start, and does not say why")
        return result

    def read(self) -> Grab | None:
        """The newest picture; see `Reader`."""
        deadline_ns = self._clock.monotonic_ns() + int(self._config.stall_after * NS_PER_S)
        while not self._cancel.is_set():
            sample = self._sink.try_pull_sample(_SLICE_NS)
            if sample is not None:
                return self._grab(sample, self._clock.monotonic_ns())
            if self._raise_what_the_bus_says() or self._sink.is_eos():
                return None
            if self._clock.monotonic_ns() > deadline_ns:
                raise SourceSilent(f"{self._name} gave no picture for {self._config.stall_after:g} s")
        return None

    def _grab(self, sample: Any, now_ns: int) -> Grab:
        gst = self._gst
        buffer = sample.get_buffer()
        structure = sample.get_caps().get_structure(0)
        width, height = structure.get_value("width"), structure.get_value("height")
        if (width, height) != (self.facts.width, self.facts.height):
            found, numerator, denominator = structure.get_fraction("framerate")
            fps = numerator / denominator if found and numerator and denominator else None
            self.facts = StreamFacts(width, height, "gstreamer", fps)
        pts_ns = None if buffer.pts == gst.CLOCK_TIME_NONE else int(buffer.pts)
        return Grab(
            _picture(self._gst_video, buffer, width, height), pts_ns, now_ns - self._age_ns(sample, pts_ns)
        )

    def _age_ns(self, sample: Any, pts_ns: int | None) -> int:
        """How old the picture is by the pipeline's clock; 0 where that clock does not measure it."""
        gst = self._gst
        clock = self._pipeline.get_clock()
        if not self._is_live or pts_ns is None or clock is None:
            return 0
        taken_ns = sample.get_segment().to_running_time(gst.Format.TIME, pts_ns)
        age_ns = clock.get_time() - self._pipeline.get_base_time() - taken_ns
        return int(age_ns) if 0 <= age_ns <= _MAX_CLOCK_AGE_NS else 0

    def _raise_what_the_bus_says(self, wait_ns: int = 0) -> bool:
        """Raise an error that elements have posted; True at the end of the stream."""
        gst = self._gst
        message = self._bus.timed_pop_filtered(wait_ns, gst.MessageType.ERROR | gst.MessageType.EOS)
        if message is None:
            return False
        if message.type == gst.MessageType.EOS:
            return True
        error, _ = message.parse_error()  # the debug text may hold the URL
        element = message.src.get_name() if message.src is not None else "pipeline"
        raise SourceError(f"{self._name} failed in {element}: {without_credentials(_message(error))}")

    def close(self) -> None:
        """Stop every element and thread of the pipeline."""
        self._pipeline.set_state(self._gst.State.NULL)
        self._pipeline.get_state(NS_PER_S)
        self._bus.set_flushing(True)


def _message(error: BaseException) -> str:
    return " ".join(str(getattr(error, "message", None) or error).split())


def _picture(gst_video: Any, buffer: Any, width: int, height: int) -> Image:
    """A BGR buffer as an array of our own, its rows' padding left out."""
    meta = gst_video.buffer_get_video_meta(buffer)
    stride = (width * 3 + 3) // 4 * 4 if meta is None else meta.stride[0]  # GstVideo's default for 24 bits
    size = stride * (height - 1) + width * 3  # the last row need not be padded
    rows = np.zeros(stride * height, dtype=np.uint8)
    rows[:size] = np.frombuffer(buffer.extract_dup(0, size), dtype=np.uint8)
    return np.ascontiguousarray(rows.reshape(height, stride)[:, : width * 3]).reshape(height, width, 3)
