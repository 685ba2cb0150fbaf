"""A written video decodes again with the same count, times and size."""

import os
import signal
import subprocess
import sys
import textwrap
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.annotation.video import ENCODERS, VideoWriter, _Timeline, available_encoders, fitted
from edge_runtime.errors import AnnotationError
from edge_runtime.sources.frame import Image

SECOND = 1_000_000_000


def picture(height: int, width: int, value: int) -> Image:
    image = np.full((height, width, 3), 40, np.uint8)
    image[:, : width // 2] = value
    return image


def decoded(path: Path) -> tuple[list[float], list[Image]]:
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    times = [float(frame.pts * frame.time_base) for frame in frames if frame.pts is not None]
    return times, [frame.to_ndarray(format="bgr24") for frame in frames]


@pytest.mark.parametrize("encoder", sorted(available_encoders()))
@pytest.mark.parametrize(
    ("suffix", "height", "width"), [(".mp4", 144, 176), (".mkv", 241, 427), (".m4v", 96, 64)]
)
def test_frames_come_back_in_number_time_size_and_content(
    tmp_path: Path, encoder: str, suffix: str, height: int, width: int
) -> None:
    path = tmp_path / "deep" / f"video{suffix}"
    writer = VideoWriter(path, 25.0, (encoder,))
    steps_s = [0.0, 0.04, 0.08, 0.7, 0.701, 2.0, 2.04]  # uneven on purpose: a camera is
    for index, media_s in enumerate(steps_s):
        writer.write(picture(height, width, 60 + 20 * index), round(media_s * SECOND) + 5 * SECOND)
    writer.close()
    writer.close()
    times, images = decoded(path)
    assert times == pytest.approx(steps_s, abs=0.0011)  # Matroska keeps milliseconds
    assert {image.shape for image in images} == {(height + height % 2, width + width % 2, 3)}
    assert writer.frames == len(images) == 7
    assert writer.encoder == encoder
    means = [float(image[height // 4 : height // 2, width // 8 : width // 4].mean()) for image in images]
    assert means == pytest.approx([60 + 20 * index for index in range(7)], abs=6)


def test_the_first_encoder_that_exists_is_taken(tmp_path: Path) -> None:
    writer = VideoWriter(tmp_path / "v.mp4", encoders=("absent", "mpeg4"))
    writer.write(picture(64, 64, 1), 0)
    writer.close()
    assert writer.encoder == "mpeg4"
    assert "libx264" in available_encoders() or "mpeg4" in available_encoders()
    assert ENCODERS[-1] == "mpeg4"


def test_without_any_encoder_the_error_names_them(tmp_path: Path) -> None:
    writer = VideoWriter(tmp_path / "v.mp4", encoders=("absent",))
    with pytest.raises(AnnotationError, match="none of the encoders absent"):
        writer.write(picture(64, 64, 1), 0)
    writer.close()


def test_epochs_follow_each_other_and_a_new_size_is_fitted(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    writer = VideoWriter(path, 10.0)
    for epoch, (height, width) in enumerate([(96, 128), (128, 96), (96, 128)]):
        for index in range(3):
            writer.write(picture(height, width, 200), index * SECOND // 10, epoch)
    writer.close()
    times, images = decoded(path)
    assert times == pytest.approx([0.1 * index for index in range(9)], abs=1e-3)
    assert {image.shape for image in images} == {(96, 128, 3)}
    assert images[4][:, :20].mean() < 20, "fitted with black at its sides"


def test_a_writer_that_saw_no_frame_leaves_no_error_and_no_older_video(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    path.write_bytes(b"of an earlier run")
    writer = VideoWriter(path)
    assert path.read_bytes() == b""
    writer.close()
    assert not path.exists()
    assert not writer.written
    path.write_bytes(b"of a later run")
    writer.close()
    assert path.exists()


def test_a_pipe_that_nobody_reads_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "v.mp4")
    with pytest.raises(AnnotationError, match="cannot be written: No such device"):
        VideoWriter(tmp_path / "v.mp4")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("video.txt", "name it so"),
        ("file/video.mp4", "cannot be written"),
        ("folder.mp4", "cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(AnnotationError, match=reason):
        VideoWriter(tmp_path / path)


def test_a_full_disk_is_an_error_with_its_reason_and_closing_is_safe(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    path.symlink_to("/dev/full")
    writer = VideoWriter(path)
    rng = np.random.default_rng(0)

    def fill() -> None:
        for index in range(200):
            writer.write(rng.integers(0, 255, (240, 320, 3), np.uint8), index * SECOND)

    with pytest.raises(AnnotationError, match="No space left on device"):
        fill()
    with pytest.raises(AnnotationError, match="has failed before"):
        writer.write(picture(240, 320, 1), SECOND)
    writer.close()


RECORD = """
import os, resource, signal, sys
from pathlib import Path
import numpy as np
from edge_runtime.annotation.video import VideoWriter
from edge_runtime.errors import AnnotationError

path, how = Path(sys.argv[1]), sys.argv[2]
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = VideoWriter(path, 10.0)
rng = np.random.default_rng(0)
try:
    for index in range(120):
        writer.write(rng.integers(0, 255, (96, 128, 3), np.uint8), index * 100_000_000)
except AnnotationError as error:
    print(error)
    writer.close()
    os._exit(3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def record(path: Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RECORD), str(path), how],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def playable_frames(path: Path) -> int:
    count = 0
    with av.open(str(path)) as container:
        try:
            for _ in container.decode(video=0):
                count += 1
        except av.error.InvalidDataError:
            pass  # the torn end
    return count


@pytest.mark.skipif(
    av.library_versions["libavformat"][:2] < (61, 7),
    reason="needs FFmpeg 7.1: older ones cannot hide fragments",
)
def test_a_killed_writer_leaves_a_playable_beginning(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    assert record(path, "kill").returncode == -signal.SIGKILL
    assert playable_frames(path) >= 60


def test_a_file_that_may_not_grow_any_more_keeps_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    done = record(path, "limit")
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stdout
    assert path.stat().st_size <= 400_000
    assert playable_frames(path) >= 20


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**12)), min_size=1, max_size=50),
)
def test_ticks_always_increase(steps: list[tuple[int, int]]) -> None:
    timeline = _Timeline(period=2400)
    ticks = [timeline.ticks(media_ns, epoch) for epoch, media_ns in steps]
    assert all(later > earlier for earlier, later in pairwise(ticks))


def test_ticks_keep_the_gaps_of_the_source() -> None:
    timeline = _Timeline(period=int(Fraction(60_000, 25)))
    assert [timeline.ticks(ms * 1_000_000, 0) for ms in (500, 540, 1540)] == [0, 2400, 62400]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40), st.integers(1, 40))
def test_fitting_keeps_size_and_aspect(rows: int, columns: int, height: int, width: int) -> None:
    image = fitted(np.full((rows, columns, 3), 9, np.uint8), height, width)
    assert image.shape == (height, width, 3)
    assert (image == 9).any()
