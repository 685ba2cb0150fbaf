from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import SystemClock
from edge_runtime.config.source import SyntheticSource
from edge_runtime.sources import open_source
from edge_runtime.sources.pacing import Pacer
from tests.rigs.cameras import drain, wait_until

MS = 1_000_000


def test_frames_are_due_at_their_own_distance() -> None:
    pacer = Pacer(moves=False)
    assert pacer.due_ns(0, 0, 1000 * MS) == 1000 * MS
    assert pacer.due_ns(0, 40 * MS, 1005 * MS) == 1040 * MS
    assert pacer.due_ns(0, 640 * MS, 1041 * MS) == 1640 * MS


def test_every_epoch_has_its_own_schedule() -> None:
    pacer = Pacer(moves=False)
    pacer.due_ns(0, 0, 0)
    assert pacer.due_ns(1, 0, 5000 * MS) == 5000 * MS
    assert pacer.due_ns(1, 10 * MS, 5000 * MS) == 5010 * MS


def test_a_lag_is_caught_up_or_given_up() -> None:
    kept, moved = Pacer(moves=False), Pacer(moves=True)
    for pacer in (kept, moved):
        pacer.due_ns(0, 0, 0)
        assert pacer.due_ns(0, 100 * MS, 900 * MS) == 100 * MS
    assert kept.due_ns(0, 200 * MS, 3000 * MS) == 200 * MS
    assert moved.due_ns(0, 200 * MS, 3000 * MS) == 3000 * MS
    assert moved.due_ns(0, 300 * MS, 3001 * MS) == 3100 * MS


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=50))
def test_due_times_never_run_back_within_an_epoch(steps: list[tuple[int, int]]) -> None:
    for moves in (False, True):
        pacer = Pacer(moves=moves)
        media = now = before = 0
        for media_step, wait in steps:
            media, now = media + media_step, now + wait
            due = pacer.due_ns(0, media, now)
            assert due >= before
            before = due


def test_real_time_gives_every_frame_not_before_its_time() -> None:
    config = SyntheticSource(kind="synthetic", width=32, height=32, fps=100, frames=20, pacing="real_time")
    frames = drain(open_source("cam", config, base=Path(), clock=SystemClock()))
    assert [frame.sequence for frame in frames] == list(range(20))
    for frame in frames:
        assert frame.capture_ns - frames[0].capture_ns >= frame.media_ns - MS


def test_a_recording_played_as_a_camera_drops(tmp_path: Path) -> None:
    from edge_runtime.config.source import FileSource
    from tests.rigs.cameras import picture, write_clip

    write_clip(tmp_path / "clip.mp4", [picture(i) for i in range(20)], fps=100)
    config = FileSource(kind="file", path="clip.mp4", pacing="camera")
    runner = open_source("cam", config, base=tmp_path, clock=SystemClock())
    assert runner.live
    runner.start()
    assert wait_until(lambda: runner.status().decoded == 20)
    assert wait_until(lambda: (runner.poll(), runner.finished)[1])
    assert runner.status().drops.get("superseded", 0) >= 18
    assert runner.status().state.value == "ended"
    assert runner.stop()
