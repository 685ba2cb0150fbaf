"""Bug kind 9: age that grows without a sign, in a library's buffer or a socket's."""

from edge_runtime.sources.arrival import Arrival, LiveEdge, sensor_ns

MS = 1_000_000
MAX_AGE = 500 * MS


def edge() -> LiveEdge:
    return LiveEdge(MAX_AGE, opened_ns=0)


def test_what_was_buffered_while_opening_is_not_delivered() -> None:
    live = edge()
    burst = [live.arrived(i * MS, MS // 10, i * 100 * MS) for i in range(20)]
    assert all(arrival.preroll for arrival in burst)
    assert live.arrived(80 * MS, 60 * MS, 2000 * MS) == Arrival(80 * MS)
    assert live.arrived(81 * MS, MS, 2100 * MS) == Arrival(81 * MS)


def test_withholding_has_a_limit() -> None:
    live = edge()
    assert live.arrived(1900 * MS, 0, 0).preroll
    assert live.arrived(2100 * MS, 0, 100 * MS) == Arrival(2100 * MS)


def test_a_packet_that_waited_is_as_old_as_its_stamp_says() -> None:
    live = edge()
    live.arrived(100 * MS, 50 * MS, 0)
    # Decoding takes 60 ms, the camera 33: nothing is waited for, and age grows by 27 ms a frame.
    ages = [
        live_age(live.arrived((100 + 60 * i) * MS, MS, 33 * i * MS), (100 + 60 * i) * MS)
        for i in range(1, 10)
    ]
    assert ages == [27 * i for i in range(1, 10)]


def live_age(arrival: Arrival, now_ns: int) -> int:
    return (now_ns - arrival.capture_ns) // MS


def test_far_behind_packets_are_skipped_until_the_newest() -> None:
    live = edge()
    live.arrived(0, 50 * MS, 0)
    assert not live.arrived(600 * MS, 0, 200 * MS).behind
    assert live.arrived(900 * MS, 0, 300 * MS).behind
    assert live.arrived(901 * MS, 0, 400 * MS).behind
    assert live.arrived(930 * MS, 20 * MS, 900 * MS) == Arrival(930 * MS)


def test_skipping_has_a_limit_for_cameras_too_fast_to_wait_for() -> None:
    live = edge()
    live.arrived(0, 50 * MS, None)
    assert not live.arrived(400 * MS, MS, None).behind
    assert live.arrived(510 * MS, MS, None).behind
    assert live.arrived(900 * MS, MS, None).behind
    assert live.arrived(1020 * MS, MS, None) == Arrival(1020 * MS)


def test_stamps_that_run_slow_do_not_make_frames_old() -> None:
    """A camera that stamps 25 a second and delivers 20: waiting for each proves that none waited."""
    live = edge()
    for i in range(1, 400):
        assert live.arrived(50 * i * MS, 30 * MS, 40 * i * MS) == Arrival(50 * i * MS)


def test_another_timeline_is_nothing_to_compare_with() -> None:
    live = edge()
    live.arrived(0, 50 * MS, 3_600_000 * MS)
    assert live.arrived(40 * MS, MS, 0) == Arrival(40 * MS)
    assert live_age(live.arrived(140 * MS, MS, 40 * MS), 140 * MS) == 60


def test_a_first_stamp_after_packets_without_one() -> None:
    live = edge()
    live.arrived(0, 50 * MS, None)
    assert live.arrived(40 * MS, MS, 7000 * MS) == Arrival(40 * MS)
    assert live_age(live.arrived(140 * MS, MS, 7040 * MS), 140 * MS) == 60


def test_a_driver_s_stamp_counts_where_it_is_of_our_clock() -> None:
    assert sensor_ns(990 * MS, 1000 * MS) == 990 * MS
    assert sensor_ns(1001 * MS, 1000 * MS) is None
    assert sensor_ns(1_700_000_000_000 * MS, 1000 * MS) is None
    assert sensor_ns(0, 20_000 * MS) is None
    assert sensor_ns(None, 1000 * MS) is None
