"""What Prometheus sees of the guard: asked at the scrape, one state at a time, nothing without an answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_runtime.guard.memory import State
from edge_runtime.telemetry.metrics import Metrics
from tests.rigs.guarded_state import guarded_state

STATUS: dict[str, Any] = {
    "state": "SAFE",
    "since_ms": 2500,
    "permit": False,
    "lease_ms": 0,
    "latch": {"id": "0123456789ab", "causes": ["estop", "worker_dead"], "since_ms": 2500},
    "late_worst_us": 1500,
    "turns": 99,
    "facts": {"sched_fifo": True, "memory_locked": False},
    "tripped": ["estop"],
    "not_evaluated": ["pose_stale"],
    "workers": [
        {"name": "perception", "phase": "working", "starts": 2, "age_ms": 12},
        {"name": "uplink", "phase": "ended", "starts": 5, "age_ms": None},
    ],
}


def lines(answer: Mapping[str, Any] | None) -> list[str]:
    metrics = Metrics()
    metrics.watch_guard(lambda: answer)
    return [line for line in metrics.expose().decode().splitlines() if line.startswith("edge_guard")]


def test_a_guard_is_shown_as_it_tells_it() -> None:
    found = lines(STATUS)
    states = [line for line in found if line.startswith("edge_guard_state{")]
    assert len(states) == len(State)
    assert [line for line in states if line.endswith(" 1.0")] == ['edge_guard_state{state="SAFE"} 1.0']
    for line in (
        "edge_guard_up 1.0",
        "edge_guard_state_seconds 2.5",
        "edge_guard_permit 0.0",
        "edge_guard_lease_seconds 0.0",
        "edge_guard_latched 1.0",
        "edge_guard_late_worst_seconds 0.0015",
        "edge_guard_turns_total 99.0",
        'edge_guard_real_time{request="sched_fifo"} 1.0',
        'edge_guard_real_time{request="memory_locked"} 0.0',
        'edge_guard_tripped{condition="estop"} 1.0',
        'edge_guard_not_evaluated{condition="pose_stale"} 1.0',
        'edge_guard_latch_cause{condition="worker_dead"} 1.0',
        'edge_guard_worker_starts_total{worker="uplink"} 5.0',
        'edge_guard_worker_working{worker="uplink"} 0.0',
        'edge_guard_worker_beat_age_seconds{worker="perception"} 0.012',
    ):
        assert line in found
    assert not [line for line in found if "age" in line and "uplink" in line], "no age is not an age of 0"


def test_without_an_answer_no_state_is_shown() -> None:
    assert lines(None) == ["edge_guard_up 0.0"]


def test_nobody_is_asked_before_the_scrape() -> None:
    asked: list[int] = []
    metrics = Metrics()
    metrics.watch_guard(lambda: asked.append(1))
    assert asked == []
    metrics.expose()
    assert asked == [1]


def test_what_a_real_guard_tells_can_be_shown(tmp_path: Path) -> None:
    with guarded_state(tmp_path) as (_, guard):
        guard.arm()
        found = lines(guard.status())
    assert 'edge_guard_state{state="NOMINAL"} 1.0' in found
    assert "edge_guard_permit 1.0" in found
    assert 'edge_guard_worker_starts_total{worker="perception"} 1.0' in found
    assert not [line for line in found if line.startswith("edge_guard_latch_cause{")]
