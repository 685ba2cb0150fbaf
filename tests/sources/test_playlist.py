import os
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.config.source import PlaylistSource
from edge_runtime.sources import Frame, SourceRunner, SourceState, open_source
from edge_runtime.sources.playlist import letterboxed
from tests.rigs.cameras import drain, picture, write_clip

MS = 1_000_000


def playlist(base: Path, *clips: dict[str, object], **fields: object) -> SourceRunner:
    config = PlaylistSource.model_validate(
        {"kind": "playlist", "clips": clips, "width": 64, "height": 48, **fields}
    )
    return open_source("cam", config, base=base, clock=SystemClock())


def seen(frames: list[Frame]) -> list[int]:
    """Which picture each frame shows."""
    return [round((float(np.median(frame.image)) - 40) / 7) for frame in frames]


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    write_clip(tmp_path / "a.mp4", [picture(i) for i in range(10)], fps=10)
    write_clip(tmp_path / "b.mp4", [picture(i) for i in range(20, 28)], fps=5)
    return tmp_path


def test_clips_follow_each_other_on_one_timeline(clips: Path) -> None:
    runner = playlist(clips, {"path": "a.mp4"}, {"path": "b.mp4"}, {"path": "a.mp4"})
    frames = drain(runner)
    assert seen(frames) == [*range(10), *range(20, 28), *range(10)]
    times = [round(frame.media_ns / MS) for frame in frames]
    assert times == [*range(0, 1000, 100), *range(1000, 2600, 200), *range(2600, 3600, 100)]
    assert {frame.epoch for frame in frames} == {0}
    assert [frame.sequence for frame in frames] == list(range(28))
    assert runner.status().state is SourceState.ENDED


def test_cuts(clips: Path) -> None:
    frames = drain(
        playlist(clips, {"path": "a.mp4", "start": 0.3, "duration": 0.4}, {"path": "b.mp4", "start": 1.0})
    )
    assert seen(frames) == [3, 4, 5, 6, 25, 26, 27]
    assert [round(frame.media_ns / MS) for frame in frames] == [0, 100, 200, 300, 400, 600, 800]


def test_a_cut_longer_than_its_clip_ends_with_it(clips: Path) -> None:
    frames = drain(playlist(clips, {"path": "a.mp4", "duration": 99}, {"path": "b.mp4", "duration": 0.2}))
    assert [round(frame.media_ns / MS) for frame in frames][-2:] == [900, 1000]


def test_a_constant_rate_repeats_and_leaves_out(clips: Path) -> None:
    frames = drain(
        playlist(clips, {"path": "a.mp4", "duration": 0.4}, {"path": "b.mp4", "duration": 0.6}, fps=20)
    )
    assert seen(frames) == [0, 0, 1, 1, 2, 2, 3, 3, *[20] * 4, *[21] * 4, *[22] * 4]
    assert [round(frame.media_ns / MS) for frame in frames] == list(range(0, 1000, 50))
    sparse = drain(playlist(clips, {"path": "a.mp4"}, fps=5))
    assert seen(sparse) == [0, 2, 4, 6, 8]
    frames[0].image[:] = 0
    assert frames[1].image.any(), "a repeated picture must belong to its frame"


def test_a_clip_whose_stamps_are_reset_goes_on(clips: Path) -> None:
    once = write_clip(clips / "once.ts", [picture(i) for i in range(6)], codec="libx264")
    (clips / "twice.ts").write_bytes(once.read_bytes() * 2)
    frames = drain(playlist(clips, {"path": "twice.ts"}, {"path": "a.mp4"}))
    assert seen(frames) == [*range(6), *range(6), *range(10)]
    assert [round(frame.media_ns / MS) for frame in frames] == list(range(0, 2200, 100))
    assert {frame.epoch for frame in frames} == {0}


def test_clips_keep_their_shape_in_black(clips: Path, tmp_path: Path) -> None:
    write_clip(tmp_path / "wide.mp4", [picture(5, 128, 32)] * 3)
    frames = drain(playlist(clips, {"path": "a.mp4"}, {"path": "wide.mp4"}))
    assert {frame.image.shape for frame in frames} == {(48, 64, 3)}
    wide = frames[-1].image
    assert not wide[:15].any()
    assert not wide[33:].any()
    assert wide[17:31].min() > 40


def test_letterbox_geometry() -> None:
    for width, height, size in [
        (176, 144, (640, 480)),
        (480, 640, (64, 48)),
        (64, 48, (64, 48)),
        (1, 999, (16, 16)),
    ]:
        out = letterboxed(np.full((height, width, 3), 200, np.uint8), *size)
        assert out.shape == (size[1], size[0], 3)
        lit = out[..., 0] > 0
        rows, columns = lit.any(axis=1).sum(), lit.any(axis=0).sum()
        scale = min(size[0] / width, size[1] / height)
        assert (columns, rows) == (max(round(width * scale), 1), max(round(height * scale), 1))
        assert abs(int(np.nonzero(lit.any(axis=0))[0][0]) - (size[0] - columns) / 2) <= 0.5


def test_a_clip_that_is_cut_off_is_told_and_the_next_one_plays(clips: Path, tmp_path: Path) -> None:
    whole = write_clip(tmp_path / "w.mp4", [picture(i) for i in range(20)], movflags="faststart")
    (tmp_path / "cut.mp4").write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    runner = playlist(clips, {"path": "cut.mp4"}, {"path": "a.mp4"})
    frames = drain(runner)
    assert seen(frames)[-10:] == list(range(10))
    assert "cut.mp4 ends after" in (runner.status().error or "")
    assert np.diff([frame.media_ns for frame in frames]).min() > 0


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([{"path": "none.mp4"}], "none.mp4 does not exist"),
        ([{"path": "a.mp4"}, {"path": "none.mp4"}], "none.mp4 does not exist"),
        ([{"path": "a.mp4", "start": 50}], "clips[0]: a.mp4 has no frame after 50 s"),
        ([{"path": "a.mp4"}, {"path": "fifo.mp4"}], "fifo.mp4 is a pipe, not a video file"),
        ([{"path": "junk.mp4"}], "junk.mp4 is not a video that can be read"),
    ],
)
def test_a_composition_that_cannot_be_played_is_refused(
    clips: Path, items: list[dict[str, object]], sentence: str
) -> None:
    (clips / "junk.mp4").write_bytes(b"junk" * 100)
    os.mkfifo(clips / "fifo.mp4")
    runner = playlist(clips, *items)
    assert drain(runner) == []
    assert runner.status().state is SourceState.FAILED
    assert sentence in (runner.status().error or "")


def test_stopping_in_the_middle_closes_the_clip(clips: Path) -> None:
    runner = playlist(clips, {"path": "a.mp4"}, {"path": "b.mp4"}, pacing="real_time")
    runner.start()
    while runner.poll() is None:
        pass
    assert runner.stop()
    assert runner.status().state is SourceState.ENDED
