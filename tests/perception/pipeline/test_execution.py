"""Threads and workers are chosen on purpose."""

import pytest

from edge_runtime.perception.pipeline.execution import Execution, choose_execution, usable_cores


@pytest.mark.parametrize(
    ("mode", "threads", "every_frame", "cores", "expected"),
    [
        ("auto", 0, True, 4, Execution("throughput", 4, 1)),
        ("auto", 0, False, 4, Execution("latency", 1, 4)),
        ("latency", 1, True, 4, Execution("latency", 1, 1)),
        ("latency", 0, True, 2, Execution("latency", 1, 2)),
        ("throughput", 2, False, 8, Execution("throughput", 4, 2)),
        ("throughput", 8, False, 2, Execution("throughput", 1, 8)),
    ],
)
def test_choice(mode: str, threads: int, every_frame: bool, cores: int, expected: Execution) -> None:
    assert choose_execution(mode, threads, every_frame=every_frame, cores=cores) == expected  # type: ignore[arg-type]


def test_cores_are_those_this_process_may_use() -> None:
    assert usable_cores() >= 1
