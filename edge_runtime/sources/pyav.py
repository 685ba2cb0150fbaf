"""Files, RTSP, HTTP and V4L2 through FFmpeg (PyAV): true frames, true times, counted damage."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator

import av
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.sources.address import Address
from edge_runtime.sources.arrival import Arrival, LiveEdge, sensor_ns
from edge_runtime.sources.ffmpeg_errors import explained, is_silence
from edge_runtime.sources.ffmpeg_open import open_stream
from edge_runtime.sources.mailbox import DropCause
from edge_runtime.sources.pacing import Pacer
from edge_runtime.sources.pixels import ToBgr, rotation_of
from edge_runtime.sources.reader import Grab, ReadCounts, SourceRefused, SourceSilent, StreamFacts

_NO_TIMESTAMPS = 0x0080  # AVFMT_NOTIMESTAMPS: stamps are made up from a nominal rate (MJPEG over HTTP: 25)
_MAX_READ_ERRORS = 16  # in a row; a damaged file is read on behind the damage, a broken one is not for ever
_REMEMBERED_ARRIVALS = 128  # more than any decoder reorders
_POLL_S = 0.002  # between two questions to a camera that is asked without waiting


class PyavReader:
    """One opened stream.

    Args:
        address: what to open.
        clock: stamps arrivals.
        cancel: set to make waits between reads end early.

    Raises:
        SourceRefused: it is no video that can be decoded, or lacks the asked stream.
        SourceError: it cannot be opened now.
    """

    def __init__(self, address: Address, clock: Clock, cancel: threading.Event) -> None:
        self._address = address
        self._clock = clock
        self._cancel = cancel
        self.counts = ReadCounts()
        self.warning: str | None = None
        self._container, self._stream = open_stream(address)
        self._live = address.times is not None
        self._stamped = not int(self._container.format.flags) & _NO_TIMESTAMPS
        # In a file with an index a corrupt packet is the one that is cut off; a decoder with several threads
        # loses the frames before it with it. A transport stream marks packets of which most can be decoded.
        self._resilient = self._container.format.name == "mpegts"
        # Video on demand and HLS come in bursts, faster than they were taken: they are played at their pace.
        bursts = self._container.format.name == "hls" or bool(self._container.duration)
        self._paced_ns = self._resets = 0
        self._pacer = Pacer(moves=True) if address.kind == "http" and bursts else None
        self._edge = self._new_edge() if self._pacer is None else None
        self._to_bgr = ToBgr()
        self._arrivals: OrderedDict[int | None, Arrival] = OrderedDict()
        self._decoded: deque[VideoFrame] = deque()
        self._last_arrival = Arrival(clock.monotonic_ns())
        self._need_keyframe = False
        self._seen = False
        self._given = 0
        self._last_ns = 0
        self._demuxed = self._demux()
        context = self._stream.codec_context
        self.facts = StreamFacts(
            width=context.width,
            height=context.height,
            codec=context.name,
            fps=_rate(self._stream),
            frames=self._stream.frames or None,
        )

    def _new_edge(self) -> LiveEdge | None:
        times = self._address.times
        return None if times is None else LiveEdge(times.max_age_ns, self._clock.monotonic_ns())

    def read(self) -> Grab | None:
        """The next picture; see `Reader`."""
        times = self._address.times
        deadline_ns = self._clock.monotonic_ns() + int(times.silent_s * NS_PER_S) if times else None
        while not self._decoded:
            if self._cancel.is_set():
                return None
            if deadline_ns is not None and self._clock.monotonic_ns() > deadline_ns:
                raise self._silent()
            arrived = next(self._demuxed, None)
            if arrived is None:
                self._note_an_early_end()
                if not self._given and not self._live:
                    raise SourceRefused(f"{self._address.name}: not one frame of it can be decoded")
                return None
            self._decode(*arrived)
        return self._grab(self._decoded.popleft())

    def _demux(self) -> Iterator[tuple["Packet[VideoStream]", Arrival]]:
        """Packets of the chosen stream with their arrival, the flushing one last."""
        errors = 0
        source = self._container.demux(self._stream)
        waited_since_ns = self._clock.monotonic_ns()
        while True:
            try:
                packet = next(source)
            except StopIteration:
                return
            except (av.error.FFmpegError, OSError, ValueError) as error:
                source = self._container.demux(self._stream)  # a generator that raised is over
                if isinstance(error, BlockingIOError):
                    if self._clock.monotonic_ns() - waited_since_ns > self._silence_ns():
                        raise self._silent() from None
                    if self._cancel.wait(_POLL_S):
                        return
                    continue
                if self._live:
                    raise self._silent() if is_silence(error) else explained(error, self._address) from None
                errors += 1
                self.counts.drops[DropCause.CORRUPT.value] += 1
                if errors > _MAX_READ_ERRORS:
                    return
                continue
            errors = 0
            now_ns = self._clock.monotonic_ns()
            yield packet, self._judge(packet, now_ns, now_ns - waited_since_ns)
            waited_since_ns = self._clock.monotonic_ns()

    def _judge(self, packet: "Packet[VideoStream]", now_ns: int, waited_ns: int) -> Arrival:
        if self._edge is None:
            return Arrival(now_ns)
        pts_ns = (
            _in_ns(packet.pts if packet.pts is not None else packet.dts, packet) if self._stamped else None
        )
        return self._edge.arrived(now_ns, waited_ns, pts_ns)

    def _decode(self, packet: "Packet[VideoStream]", arrival: Arrival) -> None:
        if packet.size:
            self._arrivals[packet.pts] = self._last_arrival = arrival
            if len(self._arrivals) > _REMEMBERED_ARRIVALS:
                self._arrivals.popitem(last=False)
            if arrival.behind or (self._need_keyframe and not packet.is_keyframe):
                self._need_keyframe = True
                self.counts.drops[DropCause.BEHIND.value] += 1
                return
            self._need_keyframe = False
            if packet.is_corrupt and not self._resilient:
                self.counts.drops[DropCause.CORRUPT.value] += 1
                return
        try:
            frames = packet.decode()
        except EOFError:
            return
        except (av.error.FFmpegError, ValueError):
            self.counts.drops[DropCause.CORRUPT.value] += 1
            return
        self._decoded.extend(frames)

    def _grab(self, frame: VideoFrame) -> Grab:
        # A decoder that reorders gives a frame long after its packet came.
        arrival = self._arrivals.get(frame.pts, self._last_arrival)
        capture_ns = arrival.capture_ns if self._live else self._clock.monotonic_ns()
        try:
            image = self._to_bgr(frame)
        except (av.error.FFmpegError, ValueError) as error:
            raise SourceRefused(
                f"{self._address.name}: pictures in the format {frame.format.name} cannot be converted ({error})"
            ) from None
        self._given += 1
        if frame.is_corrupt:
            self.counts.damaged += 1
        height, width = image.shape[:2]
        if not self._seen or (width, height) != (self.facts.width, self.facts.height):
            self._learn_size(width, height)
            self._seen = True
        pts_ns = _in_ns(frame.pts, frame) if self._stamped or not self._live else None
        self._last_ns = max(pts_ns or 0, self._last_ns)
        if self._address.kind == "v4l2":
            capture_ns = sensor_ns(pts_ns, capture_ns) or capture_ns
        elif self._pacer is not None:
            capture_ns = self._wait_until_due(pts_ns, capture_ns)
        return Grab(image, pts_ns, capture_ns, arrival.preroll)

    def _wait_until_due(self, pts_ns: int | None, now_ns: int) -> int:
        """Hold a picture that came too soon; when it is due, which is the best guess of its capture."""
        if self._pacer is None or pts_ns is None:
            return now_ns
        if pts_ns < self._paced_ns:
            self._resets += 1
        self._paced_ns = pts_ns
        due_ns = self._pacer.due_ns(self._resets, pts_ns, now_ns)
        while (left_ns := due_ns - self._clock.monotonic_ns()) > 0:
            if self._cancel.wait(left_ns / NS_PER_S):
                break
        return due_ns

    def _learn_size(self, width: int, height: int) -> None:
        self.facts = StreamFacts(
            width=width,
            height=height,
            codec=self.facts.codec,
            fps=self.facts.fps,
            rotation=rotation_of(self._to_bgr.matrix),
            frames=self.facts.frames,
        )

    def _silence_ns(self) -> int:
        times = self._address.times
        return 0 if times is None else int(times.silent_s * NS_PER_S)

    def _silent(self) -> SourceSilent:
        times = self._address.times
        limit = f" for {times.silent_s:g} s" if times else ""
        return SourceSilent(f"{self._address.name} gave no picture{limit}")

    def _note_an_early_end(self) -> None:
        """A file that stops well before its own header says so is cut off: say it instead of passing over."""
        expected, stream = self.facts.frames, self._stream
        length_ns = _in_ns(stream.duration, stream)
        if self._live or expected is None or self._given >= expected or length_ns is None:
            return
        end_ns = (_in_ns(stream.start_time, stream) or 0) + length_ns
        if end_ns - self._last_ns < 2 * length_ns // expected:
            return  # declared numbers of frames are often off by some, but then nothing is missing at the end
        self.warning = (
            f"{self._address.name} ends after {self._given} of {expected} frames: it is cut off or damaged"
        )

    def close(self) -> None:
        """Close the container and drop what holds the decoder's threads."""
        self._decoded.clear()
        self._demuxed = iter(())
        self._container.close()


def _rate(stream: VideoStream) -> float | None:
    rate = stream.average_rate
    return float(rate) if rate else None


def _in_ns(stamp: int | None, timed: "Packet[VideoStream] | VideoFrame | VideoStream") -> int | None:
    """A stamp of `timed` in nanoseconds, exactly rounded down."""
    base = timed.time_base
    if stamp is None or base is None:
        return None
    return stamp * NS_PER_S * base.numerator // base.denominator
