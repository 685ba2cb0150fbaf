"""Cameras and clips that tests make for themselves: real sockets, real codecs, real processes."""

import base64
import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import psutil

from edge_runtime.clock import WallLabel
from edge_runtime.sources import Frame, Image, SourceRunner
from sim.ports import free_port

RTSP_PACKAGES = (
    "gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-base gstreamer1.0-plugins-good "
    "gstreamer1.0-plugins-ugly gstreamer1.0-plugins-bad gstreamer1.0-libav"
)
_SYSTEM_PYTHON = "/usr/bin/python3"


class FakeClock:
    """A monotonic clock that moves when told."""

    def __init__(self, now_ns: int = 1_000_000_000_000) -> None:
        self.now_ns = now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def wall(self) -> WallLabel:
        return WallLabel(0, synced=False, boot_id="test")

    def advance(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)


def picture(number: int, width: int = 64, height: int = 48) -> Image:
    """A picture whose brightness tells its number, 40 to 239, with a checkerboard that compresses well."""
    image = np.full((height, width, 3), 40 + number * 7 % 200, np.uint8)
    image[: height // 4, : width // 4] = 255
    return image


def write_clip(
    path: Path,
    images: list[Image],
    *,
    codec: str = "mpeg4",
    pix_fmt: str | None = None,
    fps: int = 10,
    pts: list[int] | None = None,
    audio: bool = False,
    streams: int = 1,
    movflags: str | None = None,
    coder: dict[str, str] | None = None,
) -> Path:
    """Encode a clip; `pts` in hundredths of a frame; stream k > 0 shows the pictures inverted."""
    tick = 1 if codec == "mpeg2video" else 100  # MPEG-2 knows a few rates only
    options = {"movflags": movflags} if movflags else {}
    with av.open(str(path), "w", options=options) as container:
        videos = []
        for _ in range(streams):
            video = container.add_stream(codec, rate=fps)
            video.width, video.height = images[0].shape[1], images[0].shape[0]
            video.pix_fmt = pix_fmt or ("yuvj420p" if codec == "mjpeg" else "yuv420p")
            video.options = coder or {}
            video.codec_context.time_base = Fraction(1, fps * tick)
            video.bit_rate = 8_000_000  # plenty: a picture's brightness must come back as its number
            videos.append(video)
        sound = container.add_stream("aac", rate=8000, layout="mono") if audio else None
        for index, image in enumerate(images):
            for number, video in enumerate(videos):
                frame = av.VideoFrame.from_ndarray(255 - image if number else image, format="bgr24")
                frame.pts = pts[index] if pts else index * tick
                frame.time_base = Fraction(1, fps * tick)
                container.mux(video.encode(frame))
        if sound is not None:
            silence = av.AudioFrame.from_ndarray(
                np.zeros((1, 8192), np.float32), format="fltp", layout="mono"
            )
            silence.sample_rate = 8000
            container.mux(sound.encode(silence))
            container.mux(sound.encode(None))
        for video in videos:
            container.mux(video.encode(None))
    return path


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Whether `condition` came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def drain(runner: SourceRunner, timeout_s: float = 20.0) -> list[Frame]:
    """All frames of a recording, which must finish."""
    changed = threading.Event()
    runner.on_change(changed.set)
    frames: list[Frame] = []
    deadline = time.monotonic() + timeout_s
    runner.start()
    while not runner.finished:
        assert time.monotonic() < deadline, f"still {runner.status()}"
        changed.clear()
        frame = runner.poll()
        if frame is not None:
            frames.append(frame)
        elif not runner.finished:
            changed.wait(0.05)
    assert runner.stop()
    return frames


def collect(runner: SourceRunner, count: int, timeout_s: float = 20.0) -> list[Frame]:
    """The next `count` frames of a running source."""
    frames: list[Frame] = []

    def enough() -> bool:
        frame = runner.poll()
        if frame is not None:
            frames.append(frame)
        return len(frames) >= count

    assert wait_until(enough, timeout_s), f"{len(frames)} frames of {count}: {runner.status()}"
    return frames


def footprint() -> tuple[int, int]:
    """Open file descriptors and threads of this process."""
    process = psutil.Process()
    return process.num_fds(), process.num_threads()


class MjpegCamera:
    """An HTTP camera on loopback: multipart JPEG, optionally with a password, that can hang, die and return.

    Attributes:
        interval_s: between pictures.
        hung: connections stay open and nothing is sent.
        frozen: the same picture again and again.
        connections: accepted requests so far.
    """

    def __init__(self, *, user: str | None = None, password: str = "", port: int = 0) -> None:
        self.interval_s = 0.02
        self.hung = threading.Event()
        self.frozen = False
        self.size = (64, 48)
        self.connections = 0
        self.refusal: int | None = None
        self._expected = user and "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self._sent = 0
        self._sockets: set[socket.socket] = set()
        self._server: http.server.ThreadingHTTPServer | None = None
        self.port = port or free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/video"

    def start(self) -> "MjpegCamera":
        camera = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

            def do_GET(self) -> None:
                camera._serve(self)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            block_on_close = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self.hung.clear()
        self._server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def _serve(self, request: http.server.BaseHTTPRequestHandler) -> None:
        self.connections += 1
        if request.path == "/page":
            body = b"<html><body>Please log in</body></html>" * 30
            request.send_response(200)
            request.send_header("Content-Type", "text/html")
            request.end_headers()
            request.wfile.write(body)
            return
        if self.refusal is not None:
            request.send_error(self.refusal)
            return
        if self._expected and request.headers.get("Authorization") != self._expected:
            request.send_response(401)
            request.send_header("WWW-Authenticate", 'Basic realm="camera"')
            request.end_headers()
            return
        self._sockets.add(request.connection)
        request.send_response(200)
        request.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        request.end_headers()
        server = self._server
        try:
            while self._server is server:
                if not self.hung.is_set():
                    ok, data = cv2.imencode(".jpg", picture(0 if self.frozen else self._sent, *self.size))
                    assert ok
                    self._sent += 1
                    head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {data.size}\r\n\r\n"
                    request.wfile.write(head.encode() + data.tobytes() + b"\r\n")
                time.sleep(self.interval_s)
        except OSError:
            pass
        finally:
            self._sockets.discard(request.connection)

    @property
    def sent(self) -> int:
        """Pictures sent so far."""
        return self._sent

    def kill(self) -> None:
        """Die as a camera without power does, all connections with it."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            for open_socket in list(self._sockets):
                with suppress(OSError):
                    open_socket.shutdown(socket.SHUT_RDWR)
            server.server_close()


class RtspCamera:
    """GStreamer's RTSP server in a process of its own, to be killed without mercy."""

    def __init__(self, clip: Path, *, user: str | None = None, password: str = "") -> None:
        self._clip = clip
        self._user = (user, password) if user else ()
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"rtsp://127.0.0.1:{self.port}/camera"

    def start(self) -> "RtspCamera":
        script = Path(__file__).parent / "rtsp_server.py"
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV"))
        }
        self._process = subprocess.Popen(
            [_SYSTEM_PYTHON, str(script), str(self._clip), str(self.port), *self._user],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.strip() == "ready", "the RTSP server did not start"
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


def rtsp_server_is_missing() -> str | None:
    """Why no RTSP server can be started here; None if one can."""
    reason = f"needs GStreamer's RTSP server: apt-get install {RTSP_PACKAGES}"
    if shutil.which(_SYSTEM_PYTHON) is None:
        return reason
    code = (
        "import gi; gi.require_version('Gst', '1.0'); gi.require_version('GstRtspServer', '1.0'); "
        "from gi.repository import Gst, GstRtspServer; Gst.init(None); "
        "assert all(Gst.ElementFactory.find(name) for name in ('x264enc', 'rtph264pay', 'avdec_h264'))"
    )
    found = subprocess.run([_SYSTEM_PYTHON, "-c", code], capture_output=True, check=False)
    return None if found.returncode == 0 else reason


@contextmanager
def running(runner: SourceRunner) -> Iterator[SourceRunner]:
    """A started source that is stopped at the end, and whose thread must end then."""
    runner.start()
    try:
        yield runner
    finally:
        assert runner.stop(15.0)
