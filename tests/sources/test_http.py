"""A real HTTP camera on loopback that hangs, dies, returns and wants a password."""

import http.server
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from av.packet import Packet
from av.video.stream import VideoStream

from edge_runtime.clock import SystemClock
from edge_runtime.config.source import HttpSource, V4l2Source
from edge_runtime.sources import SourceRunner, SourceState, open_source
from edge_runtime.sources.address import address_of
from edge_runtime.sources.arrival import Arrival
from edge_runtime.sources.pyav import PyavReader
from sim.ports import free_port
from tests.rigs.cameras import (
    MjpegCamera,
    collect,
    footprint,
    picture,
    running,
    wait_until,
    write_clip,
)


def viewer(url: str, **fields: object) -> SourceRunner:
    quick = {"open_timeout": 3, "stall_after": 0.4, "backoff_first": 0.01, "backoff_max": 0.05}
    config = HttpSource.model_validate({"kind": "http", "url": url, **quick, **fields})
    return open_source("cam", config, base=Path(), clock=SystemClock(), seed=0)


@pytest.fixture
def camera() -> Iterator[MjpegCamera]:
    camera = MjpegCamera().start()
    yield camera
    camera.kill()


def test_pictures_arrive_measured_by_the_clock(camera: MjpegCamera) -> None:
    camera.interval_s = 0.05
    with running(viewer(camera.url)) as runner:
        frames = collect(runner, 8)
        status = runner.status()
    assert status.state is SourceState.RUNNING
    assert status.stream is not None
    assert (status.stream.codec, status.stream.width, status.stream.height) == ("mjpeg", 64, 48)
    assert {frame.image.shape for frame in frames} == {(48, 64, 3)}
    # FFmpeg makes up 25 a second for such a stream; the camera sends one every 50 ms and a bit.
    span = frames[-1].media_ns - frames[0].media_ns
    assert span == frames[-1].capture_ns - frames[0].capture_ns
    assert span >= 7 * 50_000_000
    brightness = [int(np.median(frame.image)) for frame in frames]
    assert len(set(brightness)) > 5


@pytest.mark.parametrize("where", ["fields", "url"])
def test_a_password_with_every_kind_of_character(where: str) -> None:
    camera = MjpegCamera(user="us er", password="p@s:s/wö%rd?").start()
    if where == "fields":
        runner = viewer(camera.url, username="us er", password="p@s:s/wö%rd?")
    else:
        runner = viewer(camera.url.replace("http://", "http://us%20er:p%40s%3As%2Fw%C3%B6%25rd%3F@"))
    with running(runner):
        collect(runner, 2)
    camera.kill()


def test_a_wrong_password_is_one_sentence_without_it() -> None:
    camera = MjpegCamera(user="bob", password="right").start()
    runner = viewer(camera.url, username="bob", password="wrong-geheim", give_up_after=0.2)
    with running(runner):
        assert wait_until(lambda: runner.finished)
        status = runner.status()
    camera.kill()
    assert status.state is SourceState.FAILED
    assert "refuses the user name or password (401)" in (status.error or "")
    assert "wrong-geheim" not in repr(status)


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [(404, "does not exist on the camera (404)"), (403, "forbids access (403)"), (500, "cannot be opened")],
)
def test_refusals_say_what_to_check(camera: MjpegCamera, refusal: int, sentence: str) -> None:
    camera.refusal = refusal
    with running(viewer(camera.url)) as runner:
        assert wait_until(lambda: runner.status().error is not None)
        status = runner.status()
        assert status.state is SourceState.RECONNECTING
        assert sentence in (status.error or "")
        camera.refusal = None
        collect(runner, 1)
        assert runner.status().error is None


def test_nobody_there_is_said_and_tried_again() -> None:
    port = free_port()
    with running(viewer(f"http://127.0.0.1:{port}/video")) as runner:
        assert wait_until(lambda: runner.status().attempts > 2)
        assert "refuses the connection: nothing listens there" in (runner.status().error or "")
        camera = MjpegCamera(port=port).start()
        assert collect(runner, 1)[0].epoch == 0
        camera.kill()


def test_a_name_that_does_not_exist() -> None:
    with running(viewer("http://camera.invalid/video")) as runner:
        assert wait_until(lambda: runner.status().error is not None)
        assert "camera.invalid/video gives no stream: its name may be wrong" in (runner.status().error or "")


def test_a_web_page_is_not_a_camera() -> None:
    camera = MjpegCamera().start()
    with running(viewer(camera.url.replace("/video", "/page"))) as runner:
        assert wait_until(lambda: runner.status().error is not None)
        assert "what answers is no camera" in (runner.status().error or "")
    camera.kill()


def test_a_camera_that_hangs_stalls_and_comes_back(camera: MjpegCamera) -> None:
    with running(viewer(camera.url)) as runner:
        collect(runner, 3)
        states: list[SourceState] = []
        runner.on_change(lambda: states.append(runner.status().state))
        camera.hung.set()
        assert wait_until(lambda: SourceState.RECONNECTING in states)
        assert states[states.index(SourceState.RECONNECTING) - 1] is SourceState.STALLED
        camera.hung.clear()
        assert collect(runner, 2)[-1].epoch >= 1


def test_a_hung_camera_does_not_block_stop(camera: MjpegCamera) -> None:
    runner = viewer(camera.url, stall_after=1.0)
    runner.start()
    collect(runner, 2)
    camera.hung.set()
    assert not runner.stop(0.01)
    assert runner.finished
    assert runner.status().abandoned
    assert runner.stop(10)
    assert not runner.status().abandoned


def reconnects(count: int) -> None:
    """Kill and restart a camera; what is open afterwards is what was open before."""
    camera = MjpegCamera().start()
    with running(viewer(camera.url)) as runner:
        footprints = []
        for number in range(count):
            (frame,) = collect(runner, 1)
            assert frame.epoch == number
            camera.kill()
            assert wait_until(lambda: runner.status().state is SourceState.RECONNECTING)
            while runner.poll() is not None:
                pass
            footprints.append(footprint())
            camera.start()
        assert collect(runner, 1)[0].epoch == count
        status = runner.status()
        assert status.reconnects == count
    camera.kill()
    settled = footprints[len(footprints) // 4 :]
    assert max(fds for fds, _ in settled) <= min(fds for fds, _ in settled) + 2
    assert max(threads for _, threads in settled) <= min(threads for _, threads in settled) + 2


def test_reconnects_leave_nothing_open() -> None:
    reconnects(6)


@pytest.mark.trial
@pytest.mark.timeout(600)
def test_a_hundred_reconnects_leave_nothing_open_and_memory_flat() -> None:
    import psutil

    process = psutil.Process()
    reconnects(20)
    before = process.memory_info().rss
    reconnects(100)
    assert process.memory_info().rss - before < 8 * 1024 * 1024


def test_a_frozen_camera_is_seen(camera: MjpegCamera) -> None:
    camera.frozen = True
    with running(viewer(camera.url, frozen_after=0.3, stall_after=5)) as runner:
        assert wait_until(lambda: runner.status().frozen)
        assert wait_until(lambda: runner.status().epoch == 1 and runner.status().frozen)
        attempts = runner.status().attempts
        camera.frozen = False
        assert wait_until(lambda: not runner.status().frozen)
        assert runner.status().attempts == attempts == 2


def test_a_changed_size_is_a_new_epoch(camera: MjpegCamera) -> None:
    with running(viewer(camera.url)) as runner:
        assert collect(runner, 1)[0].width == 64
        camera.size = (96, 64)
        assert wait_until(lambda: runner.status().epoch == 1)
        frame = collect(runner, 1)[0]
        assert (frame.width, frame.height, frame.epoch) == (96, 64, 1)
        status = runner.status()
        assert status.stream is not None
        assert (status.stream.width, status.reconnects) == (96, 0)


@pytest.mark.parametrize("name", ["clip.mp4", "clip.m3u8"])
def test_what_comes_in_bursts_is_played_at_its_pace(tmp_path: Path, name: str) -> None:
    write_clip(
        tmp_path / name,
        [picture(i) for i in range(12)],
        codec="libx264",
        fps=25,
        movflags="faststart" if name[-1] == "4" else None,
    )

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    with running(viewer(f"http://127.0.0.1:{server.server_address[1]}/{name}", stall_after=5)) as runner:
        frames = collect(runner, 8)
    server.shutdown()
    server.server_close()
    assert [frame.sequence for frame in frames] == list(range(8))
    assert (
        frames[7].capture_ns - frames[0].capture_ns == frames[7].media_ns - frames[0].media_ns == 280_000_000
    )


@pytest.mark.parametrize(
    ("device", "sentence"), [("/dev/video97", "whether the camera is plugged in"), ("/dev/null", "")]
)
def test_a_device_that_is_no_camera(device: str, sentence: str) -> None:
    config = V4l2Source(
        kind="v4l2", device=device, backoff_first=0.01, backoff_max=0.02, width=640, height=480, fps=30
    )
    runner = open_source("cam", config, base=Path(), clock=SystemClock())
    with running(runner):
        assert wait_until(lambda: runner.status().attempts > 1)
        status = runner.status()
    assert status.state is SourceState.RECONNECTING
    assert (status.error or "").startswith(device)
    assert sentence in (status.error or "")


@pytest.mark.camera
def test_a_real_camera() -> None:
    config = V4l2Source(kind="v4l2")
    with running(open_source("cam", config, base=Path(), clock=SystemClock())) as runner:
        frames = collect(runner, 5)
        assert all(SystemClock().monotonic_ns() - frame.capture_ns < 10**9 for frame in frames[-1:])
        assert runner.status().error is None


def test_half_a_size_is_refused() -> None:
    config = V4l2Source(kind="v4l2", width=640)
    runner = open_source("cam", config, base=Path(), clock=SystemClock())
    with running(runner):
        assert wait_until(lambda: runner.finished)
        assert runner.status().error == "/dev/video0: give both width and height, or neither"


def test_a_reader_that_was_away_skips_to_the_newest_picture(camera: MjpegCamera) -> None:
    """Bug kind 9: what waited in the socket is not taken for new."""
    config = HttpSource(kind="http", url=camera.url, max_age=0.3)
    reader = PyavReader(address_of(config, Path()), SystemClock(), threading.Event())
    given = 0
    while given < 10:
        assert reader.read() is not None
        given += 1
    time.sleep(0.8)
    # The first that waited may pass for new, up to the age that is allowed; then all others are skipped.
    while not reader.counts.drops["behind"]:
        assert reader.read() is not None
        given += 1
    begin = camera.sent
    assert reader.read() is not None
    given += 1
    skipped = reader.counts.drops["behind"]
    reader.close()
    assert skipped >= 20
    assert begin - 2 <= given + skipped <= camera.sent


def test_a_picture_is_captured_when_it_arrives_not_when_it_is_decoded(
    camera: MjpegCamera, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = PyavReader._decode

    def slowly(reader: PyavReader, packet: "Packet[VideoStream]", arrival: Arrival) -> None:
        time.sleep(0.03)
        decode(reader, packet, arrival)

    monkeypatch.setattr(PyavReader, "_decode", slowly)
    camera.interval_s = 0.06
    config = HttpSource(kind="http", url=camera.url)
    reader = PyavReader(address_of(config, Path()), SystemClock(), threading.Event())
    for _ in range(4):
        grab = reader.read()
        assert grab is not None
        assert SystemClock().monotonic_ns() - grab.capture_ns >= 30_000_000
    reader.close()
