"""Frames are left out evenly, by a share of the work that would be done in full."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.perception.pipeline.thinning import Thinning
from edge_runtime.sources.frame import Frame

MS = 1_000_000
IMAGE = np.zeros((1, 1, 3), np.uint8)


def taken(
    captures_ns: list[int], share: float, *, work_ns: int = 0, thinning: Thinning | None = None
) -> list[int]:
    """Capture times of the frames that are wanted."""
    thinning = thinning or Thinning()
    return [
        at
        for sequence, at in enumerate(captures_ns)
        if thinning.wants(Frame(IMAGE, "yard", 0, sequence, at, at), share, work_ns)
    ]


def camera(fps: float, seconds: float, *, start_ns: int = 0) -> list[int]:
    return [start_ns + int(n * 1e9 / fps) for n in range(int(fps * seconds))]


@pytest.mark.parametrize("share", [1.0, 0.75, 0.5, 0.35, 0.25, 0.1])
@pytest.mark.parametrize("fps", [10, 25, 30, 120])
def test_a_share_of_what_the_camera_gives(share: float, fps: float) -> None:
    thinning = Thinning()
    taken(camera(fps, 2), 1.0, thinning=thinning)  # the device was cool at first
    found = taken(camera(fps, 40, start_ns=2_000_000_000), share, thinning=thinning)
    assert len(found) == pytest.approx(40 * fps * share, rel=0.03)
    gaps = np.diff(found)
    interval_ns = 1e9 / fps / share
    assert gaps.max() <= interval_ns + 1e9 / fps + 2
    assert gaps.min() >= interval_ns - 1e9 / fps - 2


def test_a_share_of_what_the_model_can_do_where_that_is_less() -> None:
    # 30 frames a second, a model that does 10: half of the work is 5, not 15 of which it then does 10
    assert len(taken(camera(30, 40), 0.5, work_ns=100 * MS)) == pytest.approx(200, rel=0.03)


def test_frames_that_were_dropped_between_do_not_look_like_a_slow_camera() -> None:
    thinning = Thinning()
    found = []
    for sequence in range(0, 900, 3):  # the model takes every third
        at = sequence * 33 * MS
        if thinning.wants(Frame(IMAGE, "yard", 0, sequence, at, at), 0.5, 99 * MS):
            found.append(at)
    assert len(found) == pytest.approx(150, rel=0.05)


def test_full_work_takes_every_frame_again_at_once() -> None:
    thinning = Thinning()
    taken(camera(30, 2), 0.1, thinning=thinning)
    rest = camera(30, 1, start_ns=2_000_000_000)
    assert taken(rest, 1.0, thinning=thinning) == rest


def test_after_a_silence_it_does_not_catch_up() -> None:
    thinning = Thinning()
    taken(camera(30, 2), 0.5, thinning=thinning)
    later = taken(camera(30, 2, start_ns=60_000_000_000), 0.5, thinning=thinning)
    assert len(later) <= 31


@given(
    st.lists(st.integers(1, 200), min_size=60, max_size=300),
    st.floats(0.05, 0.95),
    st.integers(0, 150),
)
def test_it_never_takes_much_more_than_its_share(gaps_ms: list[int], share: float, work_ms: int) -> None:
    captures = [int(n) for n in np.cumsum(gaps_ms) * MS]
    found = taken(captures, share, work_ns=work_ms * MS)
    assert found[0] == captures[0]
    least_ns = work_ms * MS / share
    for first, second in zip(found, found[2:], strict=False):
        assert second - first >= least_ns - 200 * MS  # two intervals, each begun up to half a period early
