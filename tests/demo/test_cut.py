"""The cable is out for the middle of a run, never before there is a link, and never after the run."""

from typing import Any

import pytest

from deploy.demo.cut import Cut, CutPlan, Moment, Pull, plan


def at(now_s: float, frames: int, **facts: Any) -> Moment:
    return Moment(now_s, frames, **({"arrived": 1, "queued": 0, "bytes_down": 100} | facts))


def link(cut: Cut) -> str:
    return cut.link.value


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (490, CutPlan(76, 225, 490)),
        (60, CutPlan(9, 28, 60)),
        (29, None),
        (None, None),
    ],
)
def test_the_cut_shrinks_with_the_run_and_is_left_out_where_there_is_no_room(
    total: int | None, expected: CutPlan | None
) -> None:
    assert plan(total) == expected


def test_a_run_in_real_time_from_the_first_link_to_the_catch_up() -> None:
    cut = Cut(plan(490))
    assert cut.step(at(0.0, 0, arrived=0, bytes_down=0)) is None
    assert link(cut) == "connecting"
    assert cut.step(at(1.0, 30, arrived=0)) is None
    assert link(cut) == "connected"
    assert cut.step(at(2.5, 75)) is None
    assert cut.step(at(2.6, 76)) is Pull.CUT
    assert link(cut) == "CUT"
    assert cut.step(at(5.0, 150, queued=3)) is None
    assert cut.missed is False
    assert cut.step(at(7.8, 225, queued=5)) is Pull.HEAL
    assert cut.step(at(8.0, 230, queued=5)) is None
    assert link(cut) == "reconnecting"
    cut.step(at(9.0, 260, queued=6, bytes_down=200))
    assert link(cut) == "catching up"
    cut.step(at(9.3, 270, queued=None, bytes_down=300))
    assert link(cut) == "catching up", "who does not answer has not caught up"
    cut.step(at(9.5, 275, queued=0, bytes_down=400))
    assert link(cut) == "connected"
    assert (cut.cut_s, cut.healed_s, cut.caught_up_s, cut.piled) == (2.6, 7.8, 9.5, 6)
    assert cut.step(at(12.0, 350, queued=2, bytes_down=500)) is None, "once is enough"
    assert cut.caught_up_s == 9.5


def test_without_an_event_at_the_server_there_is_nothing_to_cut() -> None:
    cut = Cut(plan(490))
    for frames in range(0, 490, 10):
        assert cut.step(at(frames / 30, frames, arrived=0)) is None
    assert cut.missed


def test_a_slow_machine_gets_its_cable_back() -> None:
    cut = Cut(plan(490))
    assert cut.step(at(30.0, 80)) is Pull.CUT
    assert cut.step(at(49.9, 100)) is None
    assert cut.step(at(50.0, 101)) is Pull.HEAL


def test_a_quick_machine_keeps_it_out_long_enough_to_be_seen() -> None:
    cut = Cut(plan(490))
    assert cut.step(at(1.0, 80)) is Pull.CUT
    assert cut.step(at(1.5, 400)) is None
    assert cut.step(at(3.0, 480)) is Pull.HEAL


def test_the_end_of_the_run_heals_the_cable_and_cuts_none() -> None:
    cut = Cut(plan(490))
    assert cut.step(at(1.0, 80)) is Pull.CUT
    assert cut.step(at(1.1, 90, ended=True)) is Pull.HEAL
    late = Cut(plan(490))
    assert late.step(at(1.0, 80, ended=True)) is None
    assert late.step(at(1.0, 490)) is None
    assert late.missed
    assert not Cut(None).missed, "none was planned"
