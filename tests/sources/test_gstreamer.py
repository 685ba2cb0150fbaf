"""GStreamer pipelines for real, where the system's `gi` can be imported."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.source import GStreamerSource
from edge_runtime.sources import SourceRunner, SourceState, open_source
from tests.rigs.cameras import RtspCamera, collect, drain, footprint, picture, running, wait_until, write_clip

pytestmark = pytest.mark.gstreamer


def pipeline(text: str, masks: tuple[PrivacyMask, ...] = (), **fields: object) -> SourceRunner:
    quick = {"open_timeout": 5, "stall_after": 1, "backoff_first": 0.01, "backoff_max": 0.05}
    config = GStreamerSource.model_validate({"kind": "gstreamer", "pipeline": text, **quick, **fields})
    return open_source("cam", config, masks=masks, base=Path(), clock=SystemClock(), seed=0)


def test_a_live_pipeline_gives_fresh_pictures_in_bgr(gst: None) -> None:
    text = "videotestsrc is-live=true pattern=blue ! video/x-raw,width=321,height=243,framerate=30/1"
    with running(pipeline(text)) as runner:
        frames = collect(runner, 5)
        age_ns = SystemClock().monotonic_ns() - frames[-1].capture_ns
        status = runner.status()
    assert frames[0].image.shape == (243, 321, 3)
    assert np.abs(frames[0].image.mean(axis=(0, 1)) - (255, 0, 0)).max() <= 2
    assert 0 <= age_ns < 500_000_000
    steps = {round((b.media_ns - a.media_ns) / (b.sequence - a.sequence) / 1e6) for a, b in pairwise(frames)}
    assert steps <= {33, 34}
    assert status.stream is not None
    assert (status.stream.width, status.stream.height, status.stream.fps) == (321, 243, 30.0)


def test_a_picture_is_as_old_as_the_pipeline_s_clock_says(gst: None) -> None:
    late = "queue min-threshold-time=250000000"
    text = f"videotestsrc is-live=true ! video/x-raw,width=64,height=48,framerate=20/1 ! {late}"
    with running(pipeline(text)) as runner:
        ages = []
        for _ in range(4):
            (frame,) = collect(runner, 1)
            ages.append(SystemClock().monotonic_ns() - frame.capture_ns)
    assert min(ages) >= 200_000_000


def test_masks_are_black(gst: None) -> None:
    mask = PrivacyMask(polygon=((0, 0), (0.5, 0), (0.5, 1), (0, 1)))
    text = "videotestsrc is-live=true pattern=white ! video/x-raw,width=64,height=48"
    with running(pipeline(text, masks=(mask,))) as runner:
        (frame,) = collect(runner, 1)
    assert not frame.image[:, :32].any()
    assert frame.image[:, 32:].min() > 250


def test_a_file_is_played_at_its_own_pace(gst: None, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", [picture(i) for i in range(10)], codec="libx264", fps=20)
    with running(pipeline(f'filesrc location="{clip}" ! decodebin ! videorate', stall_after=3)) as runner:
        frames = collect(runner, 4)
    paced = (frames[-1].capture_ns - frames[0].capture_ns) / (frames[-1].media_ns - frames[0].media_ns)
    assert paced > 0.5


def test_the_end_of_a_pipeline_is_a_loss(gst: None) -> None:
    with running(pipeline("videotestsrc num-buffers=3 is-live=true")) as runner:
        assert wait_until(lambda: runner.status().epoch >= 1)
        assert runner.status().reconnects >= 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nosuchelement ! videoconvert", "no element"),
        ("videotestsrc ! audioconvert", "cannot be built"),
        ("videotestsrc nosuch=1", "cannot be built"),
    ],
)
def test_a_pipeline_that_cannot_be_built_is_refused(gst: None, text: str, sentence: str) -> None:
    runner = pipeline(text)
    assert drain(runner) == []
    status = runner.status()
    assert status.state is SourceState.FAILED
    assert status.attempts == 1
    assert sentence in (status.error or "")
    assert "\n" not in (status.error or "")


def test_a_camera_that_is_not_there_is_tried_again_without_its_password(gst: None) -> None:
    runner = pipeline(
        "rtspsrc location=rtsp://bob:hunter22@127.0.0.1:1/x user-pw=geheim99 ! decodebin", give_up_after=1
    )
    with running(runner):
        assert wait_until(lambda: runner.finished, 20)
        status = runner.status()
    assert status.state is SourceState.FAILED
    assert status.attempts > 1
    assert "failed in rtspsrc" in (status.error or "")
    assert "hunter22" not in repr(status)
    assert "geheim99" not in repr(status)


def test_a_silent_pipeline_stalls(gst: None) -> None:
    text = "videotestsrc is-live=true num-buffers=1 ! identity eos-after=100 ! video/x-raw,framerate=1/100"
    with running(pipeline(text, stall_after=0.3, open_timeout=2)) as runner:
        states: list[SourceState] = []
        runner.on_change(lambda: states.append(runner.status().state))
        assert wait_until(lambda: SourceState.RECONNECTING in states, 20)


def test_pipelines_are_torn_down_completely(gst: None) -> None:
    with running(
        pipeline("videotestsrc num-buffers=1 is-live=true ! video/x-raw,width=64,height=48")
    ) as runner:
        assert wait_until(lambda: runner.status().attempts >= 6, 30)
        before = footprint()
        assert wait_until(lambda: runner.status().attempts >= 18, 60)
        after = footprint()
    assert after[0] <= before[0] + 4
    assert after[1] <= before[1] + 4


@pytest.mark.trial
@pytest.mark.timeout(600)
def test_a_hundred_pipelines_leave_memory_flat(gst: None) -> None:
    process = psutil.Process()
    with running(
        pipeline("videotestsrc num-buffers=2 is-live=true ! video/x-raw,width=640,height=480")
    ) as runner:
        assert wait_until(lambda: runner.status().reconnects >= 20, 120)
        before = process.memory_info().rss
        assert wait_until(lambda: runner.status().reconnects >= 120, 400)
        assert process.memory_info().rss - before < 8 * 1024 * 1024


def test_rtsp_through_gstreamer(gst: None, rtsp_server: None, media: Path) -> None:
    camera = RtspCamera(media / "vtest.avi").start()
    with running(pipeline(f"rtspsrc location={camera.url} latency=100 ! decodebin", stall_after=5)) as runner:
        frames = collect(runner, 3)
        assert frames[0].image.shape == (576, 768, 3)
    camera.kill()


def test_without_gstreamer_the_packages_are_named() -> None:
    """In a Python that cannot see the system's packages, whatever this machine has."""
    code = (
        "import sys; sys.modules['gi'] = None\n"
        "from edge_runtime.sources.gstreamer import load_gst\n"
        "from edge_runtime.errors import MissingDependency\n"
        "try: load_gst()\n"
        "except MissingDependency as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "apt-get install python3-gi" in done.stdout


FAILING_INFERENCE = """
import sys
import numpy as np
from edge_runtime.sources.gstreamer import load_gst
load_gst()
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
try:
    session.run(None, {"x": np.zeros(7, np.float32)})
except Exception as error:
    print("raised", type(error).__name__)
"""


def test_a_failing_inference_is_an_exception_beside_gstreamer(gst: None, tmp_path: Path) -> None:
    """libunwind, which GStreamer brings, must not unwind ONNX Runtime's exceptions: it crashed the process."""
    shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [3, 5])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "fails",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [shape],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "fails.onnx"
    onnx.save(model, path)
    done = subprocess.run(
        [sys.executable, "-c", FAILING_INFERENCE, str(path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"ended with {done.returncode}"
    assert done.stdout.split()[0] == "raised"
