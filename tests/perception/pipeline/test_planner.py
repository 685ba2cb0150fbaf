"""Batches are fair and never hold a frame past its slack."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.perception.pipeline.planner import BatchPlanner, DurationModel, Waiting

MS = 1_000_000


def durations(**known: int) -> DurationModel:
    model = DurationModel()
    for key, milliseconds in known.items():
        model.learn(int(key.removeprefix("n")), milliseconds * MS)
    return model


def test_least_recently_served_goes_first() -> None:
    planner = BatchPlanner(3, 1)
    waiting = [Waiting(i, 0, 1000 * MS) for i in range(3)]
    order = []
    for _ in range(6):
        (chosen,) = planner.plan(0, waiting, DurationModel())
        planner.served(chosen)
        order.append(chosen)
    assert order == [0, 1, 2, 0, 1, 2]


def test_a_dead_camera_takes_no_turns() -> None:
    planner = BatchPlanner(3, 1)
    alive = [Waiting(i, 0, None) for i in (0, 2)]
    served: Counter[int] = Counter()
    for _ in range(10):
        (chosen,) = planner.plan(0, alive, DurationModel())
        planner.served(chosen)
        served[chosen] += 1
    assert served == {0: 5, 2: 5}


def test_batch_grows_to_its_capacity_when_there_is_slack() -> None:
    waiting = [Waiting(i, 0, 1000 * MS) for i in range(6)]
    assert BatchPlanner(6, 4).plan(0, waiting, durations(n1=10)) == [0, 1, 2, 3]


def test_batch_stops_growing_where_a_frame_would_outlive_its_limit() -> None:
    # 100 ms of age allowed, 40 ms a frame on this backend: three would take 120 ms
    waiting = [Waiting(i, 0, 100 * MS) for i in range(6)]
    assert BatchPlanner(6, 6).plan(0, waiting, durations(n1=40)) == [0, 1]


def test_an_old_frame_in_the_batch_narrows_its_slack() -> None:
    waiting = [Waiting(0, 0, 100 * MS), Waiting(1, 90 * MS, 100 * MS), Waiting(2, 90 * MS, 100 * MS)]
    assert BatchPlanner(3, 3).plan(90 * MS, waiting, durations(n1=10)) == [0]


def test_recordings_wait_without_a_limit() -> None:
    waiting = [Waiting(i, 0, None) for i in range(4)]
    assert len(BatchPlanner(4, 4).plan(10**15, waiting, durations(n1=1000))) == 4


def test_unknown_batch_size_is_extrapolated_from_a_smaller_one() -> None:
    model = durations(n2=20)
    assert model.estimate_ns(2) == 20 * MS
    assert model.estimate_ns(4) == 40 * MS
    assert DurationModel().estimate_ns(3) == 0


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(50, 500)), min_size=1, max_size=8),
    st.integers(1, 8),
    st.integers(1, 60),
)
def test_no_frame_but_the_first_is_planned_past_its_slack(
    cameras: list[tuple[int, int]], capacity: int, per_frame: int
) -> None:
    now = 200 * MS
    waiting = [Waiting(i, captured * MS, limit * MS) for i, (captured, limit) in enumerate(cameras)]
    known = durations(n1=per_frame)
    chosen = BatchPlanner(len(waiting), capacity).plan(now, waiting, known)
    assert 1 <= len(chosen) <= capacity
    if len(chosen) > 1:
        done = now + known.estimate_ns(len(chosen))
        for index in chosen:
            assert done <= waiting[index].capture_ns + (waiting[index].max_age_ns or 0)
