"""Stage durations are bounded in memory and summarised while they are written."""

from edge_runtime.perception.pipeline.timing import StageTimes


def test_summary_counts_all_and_keeps_recent_percentiles() -> None:
    heard: list[tuple[str, str, float]] = []
    times = StageTimes(lambda *heard_of: heard.append(heard_of))
    for milliseconds in range(1, 101):
        times.record("infer", milliseconds * 1_000_000, ["a", "b"])
    times.record("track", 2_000_000, ["a"])
    summary = times.summary()
    assert list(summary) == ["infer", "track"]
    assert summary["infer"].count == 100
    assert summary["infer"].total_ms == 5050
    assert 50 <= summary["infer"].p50_ms <= 51
    assert 98 < summary["infer"].p99_ms <= 100
    assert heard[-1] == ("track", "a", 0.002)
    assert heard[:2] == [("infer", "a", 0.001), ("infer", "b", 0.001)]


def test_old_durations_leave_the_percentiles_but_not_the_count() -> None:
    times = StageTimes()
    for _ in range(10):
        times.record("infer", 10**12, ())
    for _ in range(9000):
        times.record("infer", 10**6, ())
    stage = times.summary()["infer"]
    assert stage.count == 9010
    assert stage.p99_ms == 1.0
