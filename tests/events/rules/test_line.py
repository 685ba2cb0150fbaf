"""Crossing a line: direction, extent, dead band, debounce on both sides, no double count."""

import math
from itertools import groupby

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edge_runtime.events.rules.base import MAX_TRACKS
from edge_runtime.events.rules.line import LineMachine
from tests.rigs.events import Machine, Seen, directions, rule

# Up the middle of the picture: looking from A to B, the right hand is the right half of the picture.
UP = ((0.5, 0.9), (0.5, 0.1))
A, B = (30.0, 50.0), (70.0, 50.0)
L2R, R2L = "left_to_right", "right_to_left"


def line(**fields: object) -> Machine:
    return Machine(rule("line", **{"line": UP, "dead_band": 0.0, "debounce": 0.2, **fields}))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ([A] * 4 + [B] * 4, [L2R]),
        ([B] * 4 + [A] * 4, [R2L]),
        ([A] * 3 + [B] + [A] * 3, []),  # supervision #2598
        ([A] * 4 + [B] * 2 + [A] * 4, []),
        ([A] * 4 + [B] * 3 + [A] * 4, [L2R, R2L]),
        ([B] + [A] * 4, []),  # one wrong first frame settles nothing
        ([A] * 4 + [B, (50.0, 50.0), B], [L2R]),  # standing on the line does not begin anew
        ([A] * 2 + [B] * 4, []),  # the first side was not settled either
        ([A] * 4 + [B, A] * 8 + [B] * 4, [L2R]),
        ([A] * 4 + [None] * 5 + [B] * 4, [L2R]),  # the same track, unseen while it crossed
        ([B] * 10, []),
        ([A] * 4 + [(50.0, 50.0)] * 10, []),  # it stands on the line
        ([A] * 4 + [(50.0, 50.0)] * 10 + [B] * 4, [L2R]),
        ([A] * 4 + [(50.0, 50.0)] * 10 + [A] * 4, []),
        ([(50.0, 50.0)] * 10 + [B] * 4, []),  # it came up on the line: no side to come from
    ],
)
def test_sides(path: list[tuple[float, float] | None], expected: list[str]) -> None:
    machine = line()
    assert directions(machine.walk(path)) == expected
    assert sum(machine.rule.tally().values()) == len(expected)


@pytest.mark.parametrize(("direction", "expected"), [("both", [L2R, R2L]), (L2R, [L2R]), (R2L, [R2L])])
def test_direction(direction: str, expected: list[str]) -> None:
    assert directions(line(direction=direction).walk([A] * 4 + [B] * 4 + [A] * 4)) == expected


@pytest.mark.parametrize(
    ("a", "b", "start", "end", "expected"),
    [
        ((0.5, 0.9), (0.5, 0.1), A, B, L2R),  # up
        ((0.5, 0.1), (0.5, 0.9), A, B, R2L),  # down
        ((0.1, 0.5), (0.9, 0.5), (50, 30), (50, 70), L2R),  # to the right: the right hand is below
        ((0.9, 0.5), (0.1, 0.5), (50, 30), (50, 70), R2L),
        ((0.1, 0.1), (0.9, 0.9), (70, 30), (30, 70), L2R),
    ],
)
def test_right_is_the_right_hand_of_one_who_walks_from_a_to_b(
    a: tuple[float, float],
    b: tuple[float, float],
    start: tuple[float, float],
    end: tuple[float, float],
    expected: str,
) -> None:
    assert directions(line(line=(a, b)).walk([start] * 4 + [end] * 4)) == [expected]


@pytest.mark.parametrize(
    ("y", "expected"),
    [(50, [L2R]), (10, [L2R]), (90, [L2R]), (9.5, []), (90.5, []), (5, []), (95, [])],
)
def test_only_within_the_segment_whose_ends_belong_to_it(y: float, expected: list[str]) -> None:
    assert directions(line().walk([(30.0, y)] * 4 + [(70.0, y)] * 4)) == expected


def test_where_the_path_passes_over_decides_not_where_it_is_noticed() -> None:
    """Straight across the middle and then far up, before the debounce has passed."""
    path = [(40.0, 50.0)] * 4 + [(60.0, 50.0), (60.0, 3.0), (60.0, 1.0), (60.0, 1.0)]
    assert directions(line().walk(path)) == [L2R]


def test_walking_round_the_end_counts_nothing_and_back_through_counts_once() -> None:
    round_the_end = [(40.0, 50.0)] * 4 + [(40.0, 4.0), (45.0, 4.0), (55.0, 4.0), (60.0, 50.0)]
    machine = line()
    assert directions(machine.walk(round_the_end + [(60.0, 50.0)] * 4)) == []
    assert directions(machine.walk([(40.0, 50.0)] * 4, start=3)) == [R2L]


def test_along_the_dead_band_and_out_beyond_the_end_is_no_crossing() -> None:
    """It slides along inside the band, passes over the line's extension there, and comes out on the far side."""
    machine = line(dead_band=0.05)
    path = [(40.0, 50.0)] * 4 + [(47.0, 50.0), (47.0, 20.0), (48.0, 5.0), (52.0, 5.0), (60.0, 40.0)]
    assert directions(machine.walk(path + [(60.0, 40.0)] * 4)) == []


def test_inside_the_dead_band_the_side_does_not_change() -> None:
    machine = line(dead_band=0.05, debounce=0)
    wobble = [(x, 50.0) for x in (40, 46, 54, 46, 54, 46, 54.9, 45.1)]
    assert directions(machine.walk(wobble)) == []
    assert directions(machine.walk([(55.1, 50.0)], start=5)) == [L2R]


def test_the_dead_band_is_a_fraction_of_the_height() -> None:
    wide = Machine(
        rule("line", line=((200, 100), (200, 0)), units="pixels", dead_band=0.1, debounce=0),
        width=400,
        height=100,
    )
    assert directions(wide.walk([(180.0, 50.0), (209.0, 50.0)])) == []
    assert directions(wide.walk([(211.0, 50.0)], start=1)) == [L2R]


def test_another_id_on_the_other_side_has_crossed_nothing() -> None:
    machine = line()
    machine.walk([A] * 6)
    said = [machine.at(1 + index / 10, Seen(*B, track=2)) for index in range(6)]
    assert said == [[]] * 6


def test_an_id_of_a_new_epoch_has_crossed_nothing() -> None:
    machine = line()
    machine.walk([A] * 6)
    assert machine.new_epoch() == []
    assert machine.walk([B] * 6, start=9) == []


def test_coasting_over_the_line_counts_when_it_is_seen_there() -> None:
    machine = line()
    machine.walk([A] * 4)
    assert [machine.at(1 + index / 10, Seen(*B, seen=False)) for index in range(5)] == [[]] * 5
    assert directions(machine.walk([B] * 4, start=2)) == [L2R]


def test_since_is_the_first_frame_beyond_the_band() -> None:
    (crossing,) = line().walk([A] * 4 + [B] * 4)
    assert (crossing.since.media_ns, crossing.track) == (400_000_000, 1)


def test_many_walkers_at_once_are_told_apart() -> None:
    machine = line()
    said = []
    for index in range(12):
        rows = [Seen(*(A if (index < 6) == (track % 2 == 0) else B), track=track) for track in range(1, 21)]
        said += machine.at(index / 10, *rows)
    assert [(h.track, h.direction) for h in said] == [
        (track, L2R if track % 2 == 0 else R2L) for track in range(1, 21)
    ]


def test_dead_tracks_do_not_fill_the_memory() -> None:
    machine = line()
    for index in range(2 * MAX_TRACKS // 100):
        machine.at(index / 100, *(Seen(*A, track=1 + index * 100 + row) for row in range(100)))
    assert isinstance(machine.rule, LineMachine)
    assert len(machine.rule._walkers) <= MAX_TRACKS
    machine.at(200)
    assert len(machine.rule._walkers) == 0


sightings = st.lists(
    st.tuples(st.sampled_from(["A", "B", "band", "unseen"]), st.integers(5, 300)), max_size=80
)


@given(frames=sightings, debounce_ms=st.sampled_from([0, 100, 200, 450]))
def test_against_runs_of_sides(frames: list[tuple[str, int]], debounce_ms: int) -> None:
    """Reference: the band repeats the last side; runs long enough count; changes between them are crossings."""
    machine = line(dead_band=0.1, debounce=debounce_ms / 1000)
    places = {"A": A, "B": B, "band": (52.0, 50.0)}
    at_ms, sides, said = 0, [], []
    for what, step in frames:
        at_ms += step
        rows = () if what == "unseen" else (Seen(*places[what]),)
        said += machine.at(at_ms / 1000, *rows)
        if what in ("A", "B"):
            sides.append((what, at_ms))
        elif what == "band" and sides:
            sides.append((sides[-1][0], at_ms))
    settled: list[str] = []
    for side, group in groupby(sides, key=lambda sighting: sighting[0]):
        run = list(group)
        if run[-1][1] - run[0][1] + 1 >= debounce_ms and (not settled or settled[-1] != side):
            settled.append(side)
    assert directions(said) == [L2R if side == "B" else R2L for side in settled[1:]]


@settings(max_examples=60)
@given(
    line_points=st.tuples(*[st.integers(10, 90)] * 4),
    path=st.tuples(*[st.integers(0, 100)] * 4),
    frames=st.integers(20, 40),
)
def test_a_straight_walk_counts_exactly_when_it_passes_through_the_segment(
    line_points: tuple[int, int, int, int], path: tuple[int, int, int, int], frames: int
) -> None:
    ax, ay, bx, by = line_points
    sx, sy, ex, ey = path
    assume((ax, ay) != (bx, by))

    def side(x: float, y: float) -> float:
        return ((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / math.hypot(bx - ax, by - ay)

    start, end = side(sx, sy), side(ex, ey)
    assume(abs(start) > 6 and abs(end) > 6)  # it stands clear of the line for long enough at both ends
    share = start / (start - end) if start * end < 0 else None
    along = 0.0
    if share is not None:
        x, y = sx + share * (ex - sx), sy + share * (ey - sy)
        length = math.hypot(bx - ax, by - ay)
        along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length
        assume(abs(along) > 1e-2 and abs(along - length) > 1e-2)
        crosses = 0 < along < length
    else:
        crosses = False
    machine = line(line=((ax, ay), (bx, by)), units="pixels", dead_band=0.01, debounce=0.05)
    steps = [(sx, sy)] * 10 + [
        (sx + (ex - sx) * i / frames, sy + (ey - sy) * i / frames) for i in range(frames + 1)
    ]
    said = machine.walk([(float(x), float(y)) for x, y in steps + [(ex, ey)] * 10], step=0.033)
    assert directions(said) == ([L2R if end > 0 else R2L] if crosses else [])
