"""The virtual camera as a network camera: MJPEG over HTTP, which the runtime opens like any other.

    python -m sim.scene.camera --port 8090 --people 3 --weather rain

and in a device's configuration `source: {kind: http, url: "http://127.0.0.1:8090/video"}`.
"""

import argparse
import contextlib
import http.server
import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import cv2
from pydantic import ValidationError

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.errors import ConfigError
from edge_runtime.sources import Image
from sim.scenario.records import World
from sim.scene.render import Renderer
from sim.scene.world import LABELS, Sight

_QUALITY = 90
MOST_FPS = 100.0


@dataclass(frozen=True, slots=True)
class Truth:
    """One thing in the picture, as `/truth` gives it."""

    label: str
    box: tuple[float, float, float, float]
    visible: bool


def truths(sights: Sequence[Sight]) -> list[dict[str, Any]]:
    """The truth of a picture as JSON."""
    return [
        asdict(
            Truth(LABELS[one.actor.label], tuple(round(value, 1) for value in one.box), one.visible)  # type: ignore[arg-type]
        )
        for one in sights
    ]


class VirtualCamera:
    """Draws one world, at its own pace, to everybody who connects.

    Args:
        world: before it.
        fps: pictures a second.
        port: on loopback; 0 chooses one.

    Attributes:
        renderer: may be covered while it runs.
        port: where it listens.
    """

    def __init__(self, world: World, fps: float, port: int = 0) -> None:
        self.renderer, self._period_s = Renderer(world), 1.0 / fps
        self._clock = SystemClock()
        self._zero_ns = self._clock.monotonic_ns()
        self._over = threading.Event()
        self._drawn = threading.Condition()
        self._jpeg, self._number = b"", 0
        camera = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

            def do_GET(self) -> None:
                camera._serve(self)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # whoever looked has gone

        self._server = Server(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True),
            threading.Thread(target=self._draw, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def url(self) -> str:
        """Of its video."""
        return f"http://127.0.0.1:{self.port}/video"

    def seconds(self) -> float:
        """Since it began."""
        return (self._clock.monotonic_ns() - self._zero_ns) / NS_PER_S

    def close(self) -> None:
        """End it."""
        self._over.set()
        with self._drawn:
            self._drawn.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._threads[1].join(5)

    def _draw(self) -> None:
        while not self._over.wait(self._period_s):
            jpeg = encoded(self.renderer.draw(self.seconds()))
            with self._drawn:
                self._jpeg, self._number = jpeg, self._number + 1
                self._drawn.notify_all()

    def _serve(self, request: http.server.BaseHTTPRequestHandler) -> None:
        if request.path == "/truth":
            body = json.dumps(truths(self.renderer.truth(self.seconds()))).encode()
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
            return
        request.send_response(200)
        request.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        request.end_headers()
        number = 0
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                with self._drawn:
                    self._drawn.wait_for(lambda: self._number != number or self._over.is_set(), 5.0)  # noqa: B023
                    jpeg, number = self._jpeg, self._number
                head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
                request.wfile.write(head.encode() + jpeg + b"\r\n")


def encoded(image: Image) -> bytes:
    """A picture as JPEG."""
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    assert done
    return data.tobytes()


def _world(chosen: dict[str, Any]) -> World:
    """The world that a command line describes.

    Raises:
        ConfigError: there is none like it.
    """
    try:
        return World(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--{first['loc'][0]}: {first['msg']}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal or the end of standard input."""
    parser = argparse.ArgumentParser(
        prog="python -m sim.scene.camera", description="A virtual network camera."
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fps", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    for name, most in (("people", 20), ("vehicles", 10), ("pallets", 20)):
        parser.add_argument(f"--{name}", type=int, default=2 if name == "people" else 1, metavar=f"0..{most}")
    parser.add_argument(
        "--weather", choices=get_args(World.model_fields["weather"].annotation), default="clear"
    )
    for name in ("night", "dirt", "exposure", "shake"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    chosen = vars(parser.parse_args(arguments))
    port, fps = chosen.pop("port"), chosen.pop("fps")
    try:
        if not 0.01 <= fps <= MOST_FPS:
            raise ConfigError(f"--fps is 0.01 to {MOST_FPS:g}")
        if not 0 <= port <= 65_535:
            raise ConfigError("--port is 0, for any free one, to 65535")
        camera = VirtualCamera(_world(chosen), fps, port)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: port {port}: cannot be listened at: {error.strerror}\n")
        return 2
    sys.stdout.write(f"ready {camera.url}\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
    camera.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
