"""A candidate that gets little of a processor is waited for, and one that gets nowhere is not."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.node.hot_swap import trial
from edge_runtime.node.hot_swap.patience import (
    LONGEST_REST_S,
    MOST_STILL_S,
    MOST_USED_S,
    STARVED,
    Patience,
    rest_s,
    run_s,
    used_s,
)
from edge_runtime.perception.backends import PROVING_TIMEOUT_S
from edge_runtime.protocol.swap import CandidateState, Load
from edge_runtime.protocol.update import UpdateCode
from tests.rigs.swapping import Exchanging, release_of, swap_config

pytestmark = pytest.mark.timeout(400)

DAY_S = 86_400


def test_what_computes_is_waited_for_however_long_it_takes() -> None:
    """A fiftieth of a processor: five minutes of work are over after four hours."""
    patience = Patience()
    for second in range(0, 300 * 50, 10):
        assert patience.lost(second / 50, second) is None


def test_what_computes_for_ever_or_not_at_all_is_not() -> None:
    patience = Patience()
    assert patience.lost(MOST_USED_S, 1) is None
    assert "computed for 601 s" in str(patience.lost(MOST_USED_S + 1, DAY_S))
    patience = Patience()
    assert patience.lost(3.0, 1000) is None
    assert patience.lost(3.0, 1000 + MOST_STILL_S) is None
    assert "not computed for 601 s" in str(patience.lost(3.0, 1001 + MOST_STILL_S))
    assert patience.lost(3.01, 1001 + MOST_STILL_S) is None


@pytest.mark.parametrize(
    ("took_s", "used_s", "share", "rests_s"),
    [
        (0.05, 0.05, 0.2, 0.2),  # a processor to itself: four times as long as it took
        (0.5, 0.05, 0.2, 2.0),  # it waited for one, and so do the cameras for it
        (20.0, 2.0, 0.2, LONGEST_REST_S),  # in proportion it were 80 s, and an hour has no fifty frames
        (20.0, 20.0, 0.2, 80.0),  # but never more than its share
        (20.0, 20.0, 1.0, 0.0),
        (0.1, 0.3, 1.0, 0.2),
        (0.0, 0.0, 0.5, 0.0),
    ],
)
def test_it_rests_for_its_share_and_gets_on(
    took_s: float, used_s: float, share: float, rests_s: float
) -> None:
    found = rest_s(took_s, used_s, share)
    assert found == pytest.approx(rests_s)
    assert used_s <= share * (took_s + found) + 1e-9 or share == 1


def test_a_slow_detector_behind_busy_cameras_sees_enough_frames_in_the_terms_time() -> None:
    """Two seconds of work a frame, ten times that on the clock: 36 frames in an hour, where 50 are asked for."""
    took_s = 2.0 * STARVED
    frames = 3600 / (took_s + rest_s(took_s, 2.0, 0.2))
    assert frames >= 50


def test_one_run_has_time_for_being_stopped_and_for_waiting() -> None:
    assert run_s(0.2, on_cpu=True) == PROVING_TIMEOUT_S * STARVED / 0.2
    assert run_s(0.2, on_cpu=False) == PROVING_TIMEOUT_S


def test_the_processor_time_of_a_process_is_counted() -> None:
    assert used_s(os.getpid()) > 0
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        try:
            before = used_s(child.pid)
            while used_s(child.pid) < before + 0.1:
                pass  # it computes
        finally:
            child.kill()
    with pytest.raises(OSError, match="No such file"):
        used_s(child.pid)


def test_a_candidate_that_computes_for_ever_has_failed(
    tmp_path: Path,
    fast_package: Path,
    other: Callable[..., Path],
    street: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = other()
    monkeypatch.setattr(trial, "Patience", functools.partial(Patience, most_used_s=0.05))
    monkeypatch.setattr(trial, "_LOOK_MS", 10)
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        device.tell(Load(slot="m", release=release_of(1), package_dir=str(package)))
        device.wait(lambda: candidate(device).state is CandidateState.FAILED)
        assert candidate(device).code is UpdateCode.LOAD
        assert "was not open" in candidate(device).text
    assert device.watching.gaps() == []


def candidate(device: Exchanging) -> Any:
    found = device.look().candidate
    assert found is not None
    return found
