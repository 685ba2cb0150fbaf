"""Entering and leaving a zone."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.events.rules.base import FORGET_AFTER_NS, MAX_TRACKS
from edge_runtime.events.rules.zone import ZoneMachine
from tests.rigs.events import Machine, Seen, directions, rule

LEFT_HALF = {"polygon": ((0, 0), (0.5, 0), (0.5, 1), (0, 1)), "on": ("enter", "leave")}
IN, OUT = (20.0, 50.0), (80.0, 50.0)


def zone(**fields: object) -> Machine:
    machine = Machine(rule("zone", **{**LEFT_HALF, "debounce": 0.3, **fields}))
    machine.at(-2.0)  # observation began two seconds ago: nobody was there
    for index in range(4):
        machine.at(-1.5 + index * 0.1)
    return machine


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ([OUT] * 6 + [IN] * 6, ["enter"]),
        ([IN] * 6 + [OUT] * 6, ["enter", "leave"]),  # appeared inside
        ([OUT] * 6 + [IN] * 3, []),  # 0.2 s inside: not yet
        ([OUT] * 6 + [IN] * 4, ["enter"]),  # 0.3 s
        ([OUT] * 6 + [IN] + [OUT] * 6, []),
        ([OUT] * 6 + [IN, OUT] * 10, []),  # it never stays
        ([OUT] * 6 + [IN] * 6 + [OUT] + [IN] * 6, ["enter"]),
        ([OUT] * 6 + [IN] * 6 + [OUT] * 6 + [IN] * 6, ["enter", "leave", "enter"]),
        ([OUT] * 6 + [IN] * 6 + [None] * 30, ["enter"]),  # gone is not left
        ([OUT] * 6 + [None] * 30, []),
        ([OUT] * 6 + [(50.0, 50.0)] * 6, ["enter"]),  # the edge is inside
    ],
)
def test_sides(path: list[tuple[float, float] | None], expected: list[str]) -> None:
    assert directions(zone().walk(path)) == expected


def test_without_debounce_one_frame_is_enough() -> None:
    assert directions(zone(debounce=0).walk([OUT, IN, OUT])) == ["enter", "leave"]


@pytest.mark.parametrize(("on", "expected"), [(("enter",), ["enter"]), (("leave",), ["leave"])])
def test_only_what_is_asked_for(on: tuple[str, ...], expected: list[str]) -> None:
    machine = zone(on=on)
    assert directions(machine.walk([OUT] * 6 + [IN] * 6 + [OUT] * 6)) == expected
    assert sum(machine.rule.tally().values()) == 1


def test_since_is_the_first_frame_on_the_new_side() -> None:
    (entered,) = zone().walk([OUT] * 6 + [IN] * 6)
    assert entered.since.media_ns == 600_000_000
    assert (entered.track, entered.reason) == (1, None)


def test_what_is_inside_when_observation_begins_has_not_entered() -> None:
    machine = Machine(rule("zone", **LEFT_HALF))
    assert directions(machine.walk([IN] * 10)) == []
    assert directions(machine.walk([OUT] * 10, start=1.0)) == ["leave"]


def test_appearing_inside_later_is_entering_and_says_so() -> None:
    machine = Machine(rule("zone", **LEFT_HALF))
    machine.walk([OUT] * 20)
    said = [machine.at(2 + index / 10, Seen(*IN, track=2)) for index in range(5)]
    (entered,) = [happening for step in said for happening in step]
    assert (entered.track, entered.reason) == (2, "first seen inside the zone")


def test_first_seen_outside_and_then_inside_is_entering_even_at_the_start() -> None:
    machine = Machine(rule("zone", **LEFT_HALF))
    (entered,) = machine.walk([OUT] * 2 + [IN] * 6)
    assert (entered.direction, entered.reason) == ("enter", None)


def test_a_slow_camera_has_three_frames_to_show_who_was_there() -> None:
    machine = Machine(rule("zone", **LEFT_HALF))
    said = machine.at(0) + machine.at(10, Seen(*IN)) + machine.at(20, Seen(*IN)) + machine.at(30, Seen(*IN))
    assert said == []


def test_after_a_new_epoch_ids_mean_others_and_nobody_has_entered() -> None:
    machine = zone()
    machine.walk([OUT] * 6)
    assert machine.new_epoch() == []
    # id 1 is now another object, which was inside when the camera came back
    assert machine.walk([IN] * 8, start=20.0) == []


def test_coasting_neither_enters_nor_leaves() -> None:
    machine = zone()
    machine.walk([OUT] * 6)
    said = []
    for index in range(10):
        said += machine.at(1 + index / 10, Seen(*IN, seen=False))
    assert said == []


def test_a_label_filter_hides_others() -> None:
    machine = zone(labels=("car",))
    assert machine.walk([OUT] * 6 + [IN] * 6) == []


def test_without_polygon_coming_into_view_is_entering() -> None:
    machine = Machine(rule("zone"))
    for index in range(20):
        machine.at(index / 10)
    assert directions(machine.walk([IN] * 6, start=3.0)) == ["enter"]


def test_measured_time_counts_not_frames() -> None:
    """Five frames in 40 ms are no 0.3 s; two frames 0.4 s apart are."""
    assert zone().walk([OUT] * 6 + [IN] * 5, step=0.01) == []
    machine = zone()
    machine.walk([OUT] * 6)
    assert machine.at(5.0, Seen(*IN)) == []
    assert directions(machine.at(5.4, Seen(*IN))) == ["enter"]


def test_a_millisecond_of_container_rounding_is_forgiven() -> None:
    machine = zone(debounce=0.2)
    machine.walk([OUT] * 6)
    at = [1.0, 1.033, 1.067, 1.1, 1.133, 1.167, 1.1995]
    assert directions([said for second in at for said in machine.at(second, Seen(*IN))]) == ["enter"]


def test_dead_tracks_do_not_fill_the_memory() -> None:
    machine = zone()
    for index in range(3 * MAX_TRACKS // 100):
        machine.at(index / 100, *(Seen(*IN, track=1 + index * 100 + row) for row in range(100)))
    assert isinstance(machine.rule, ZoneMachine)
    assert len(machine.rule._visitors) <= MAX_TRACKS
    machine.at(2 + FORGET_AFTER_NS / 1e9 + 60)
    assert len(machine.rule._visitors) == 0


frames = st.lists(st.tuples(st.sampled_from(["in", "out", "unseen"]), st.integers(5, 400)), max_size=60)


@given(frames=frames, debounce_ms=st.sampled_from([0, 100, 250, 500]))
def test_against_runs_of_sides(frames: list[tuple[str, int]], debounce_ms: int) -> None:
    """Reference: cut the sightings into runs of one side, keep those long enough, and read off the changes."""
    machine = zone(debounce=debounce_ms / 1000)
    at_ms, seen, said = 0, [], []
    for side, step in frames:
        at_ms += step
        rows = () if side == "unseen" else (Seen(*(IN if side == "in" else OUT)),)
        said += machine.at(at_ms / 1000, *rows)
        if rows:
            seen.append((side, at_ms))
    settled: list[str] = []
    for side, group in groupby(seen, key=lambda sighting: sighting[0]):
        run = list(group)
        if run[-1][1] - run[0][1] + 1 >= debounce_ms and (not settled or settled[-1] != side):
            settled.append(side)
    changes = ["enter" if side == "in" else "leave" for side in settled]
    assert directions(said) == (changes[1:] if changes and changes[0] == "leave" else changes)
