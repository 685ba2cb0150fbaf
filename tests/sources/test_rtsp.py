"""Acceptance 5: RTSP for real, the server killed and restarted."""

from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.config.source import RtspSource
from edge_runtime.sources import Frame, SourceRunner, SourceState, open_source
from sim.ports import free_port
from tests.rigs.cameras import RtspCamera, collect, footprint, running, wait_until

pytestmark = pytest.mark.gstreamer

CLOCK = SystemClock()
MAX_AGE_S = 0.5


def viewer(url: str, **fields: object) -> SourceRunner:
    quick = {
        "open_timeout": 5,
        "stall_after": 1.5,
        "backoff_first": 0.05,
        "backoff_max": 0.2,
        "max_age": MAX_AGE_S,
    }
    config = RtspSource.model_validate({"kind": "rtsp", "url": url, **quick, **fields})
    return open_source("cam", config, base=Path(), clock=CLOCK, seed=0)


def thumbnail(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return np.asarray(cv2.resize(image, (48, 36), interpolation=cv2.INTER_AREA), np.float32).ravel()


@pytest.fixture(scope="module")
def clip(media: Path) -> npt.NDArray[np.float32]:
    """Thumbnails of all 795 frames of the clip that the camera shows."""
    with av.open(str(media / "vtest.avi")) as container:
        return np.stack([thumbnail(f.to_ndarray(format="bgr24")) for f in container.decode(video=0)])


def frame_number(frame: Frame, clip: npt.NDArray[np.float32]) -> int:
    """Which frame of the clip it shows."""
    return int(np.argmin(((clip - thumbnail(frame.image)) ** 2).mean(axis=1)))


def check_restarts(media: Path, clip: npt.NDArray[np.float32], restarts: int) -> None:
    camera = RtspCamera(media / "vtest.avi").start()
    runner = viewer(camera.url)
    footprints = []
    with running(runner):
        for epoch in range(restarts + 1):
            began_ns = CLOCK.monotonic_ns()
            frames: list[Frame] = []
            while len(frames) < 6:
                (frame,) = collect(runner, 1)
                # No stale frame: young when it is taken, and of the server that runs now, which began to
                # play the clip from its first frame only after it was started.
                assert CLOCK.monotonic_ns() - frame.capture_ns <= (MAX_AGE_S + 0.1) * NS_PER_S
                assert frame.epoch == epoch
                played = (frame.capture_ns - began_ns) / NS_PER_S * 10
                assert frame_number(frame, clip) <= played + 5
                frames.append(frame)
            assert [f.sequence for f in frames] == sorted({f.sequence for f in frames})
            numbers = [frame_number(f, clip) for f in frames]
            assert numbers == sorted(numbers)
            # The stamps are the camera's: 100 ms a frame, however they arrived.
            steps = np.diff([f.media_ns for f in frames]) / 1e6 / np.diff([f.sequence for f in frames])
            assert np.abs(steps - 100).max() < 5
            footprints.append(footprint())
            if epoch < restarts:
                camera.kill()
                assert wait_until(lambda: runner.status().state is SourceState.RECONNECTING, 20)
                while runner.poll() is not None:
                    pass
                camera.start()
        status = runner.status()
    camera.kill()
    assert status.reconnects == restarts
    assert status.state is SourceState.RUNNING
    settled = footprints[1:]
    assert max(fds for fds, _ in settled) <= settled[0][0] + 1
    assert max(threads for _, threads in settled) <= settled[0][1] + 1


def test_frames_arrive_and_the_server_may_die_and_return(
    rtsp_server: None, media: Path, clip: npt.NDArray[np.float32]
) -> None:
    check_restarts(media, clip, 2)


@pytest.mark.trial
@pytest.mark.timeout(300)
def test_ten_restarts(rtsp_server: None, media: Path, clip: npt.NDArray[np.float32]) -> None:
    check_restarts(media, clip, 10)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_what_was_buffered_while_opening_is_not_given(rtsp_server: None, media: Path, transport: str) -> None:
    camera = RtspCamera(media / "vtest.avi").start()
    with running(viewer(camera.url, transport=transport)) as runner:
        (frame,) = collect(runner, 1)
        status = runner.status()
    camera.kill()
    assert status.drops["preroll"] == frame.sequence
    assert frame.sequence > 0


def test_a_password(rtsp_server: None, media: Path) -> None:
    camera = RtspCamera(media / "vtest.avi", user="vi ew", password="p@s:s/wö%rd").start()
    with running(viewer(camera.url, username="vi ew", password="p@s:s/wö%rd")) as runner:
        collect(runner, 1)
    runner = viewer(camera.url, username="vi ew", password="wrong-geheim", give_up_after=0.1)
    with running(runner):
        assert wait_until(lambda: runner.finished)
        status = runner.status()
    camera.kill()
    assert status.state is SourceState.FAILED
    assert "refuses the user name or password (401)" in (status.error or "")
    assert "wrong-geheim" not in repr(status)


def test_a_path_that_does_not_exist(rtsp_server: None, media: Path) -> None:
    camera = RtspCamera(media / "vtest.avi").start()
    with running(viewer(camera.url + "/other")) as runner:
        assert wait_until(lambda: runner.status().error is not None)
        assert "does not exist on the camera (404): check the path" in (runner.status().error or "")
    camera.kill()


def test_nobody_listens() -> None:
    runner = viewer(f"rtsp://bob:hunter22@127.0.0.1:{free_port()}/live", give_up_after=0.2)
    with running(runner):
        assert wait_until(lambda: runner.finished)
        error = runner.status().error or ""
    assert "nothing listens there" in error
    assert "hunter22" not in error
