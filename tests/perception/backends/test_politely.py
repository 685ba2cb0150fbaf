"""A session that is opened beside others: its opening stands back, its own threads do not."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.perception.backends.onnxruntime import create_session
from edge_runtime.perception.backends.politely import NICE, make, politely


def priorities() -> dict[int, int]:
    """Niceness of each thread of this process."""
    tids = (int(task.name) for task in Path("/proc/self/task").iterdir())
    return {tid: os.getpriority(os.PRIO_PROCESS, tid) for tid in tids}


def own_priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def session(weights: Path, threads: int) -> Any:
    return create_session(weights, providers=["cpu"], threads=threads, spinning=False)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_opening_stands_back_and_the_sessions_threads_do_not(onnx_models: Path, threads: int) -> None:
    weights = (
        onnx_models / "deimv2_atto_coco_int8_320_damaged.onnx"
    )  # half a second of work for a graph's optimiser
    before, seen = priorities(), []

    def watched() -> Any:
        made = session(weights, threads)
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return made

    with politely():
        kept = make(watched, threads)
    assert seen == [NICE]
    own = {tid: nice for tid, nice in priorities().items() if tid not in before}
    assert sorted(own.values())[: threads - 1] == [0] * (threads - 1)
    assert priorities()[threading.get_native_id()] == before[threading.get_native_id()]
    del kept


def test_outside_nothing_stands_back(onnx_models: Path) -> None:
    with politely():
        pass
    assert make(threading.get_native_id, 1) == threading.get_native_id()
    assert session(onnx_models / "fastestdet_coco_352.onnx", 1) is not None
    assert own_priority() == 0


def test_what_goes_wrong_is_raised_where_it_is_waited_for() -> None:
    def fails() -> None:
        raise OSError("no such model")

    with politely(), pytest.raises(OSError, match="no such model"):
        make(fails, 1)


def test_a_session_that_makes_no_threads_is_made_all_the_same() -> None:
    def slow() -> str:
        time.sleep(0.05)
        return "made"

    with politely():
        assert make(slow, 4) == "made"


def test_another_thread_opens_as_ever(onnx_models: Path) -> None:
    found: list[int] = []
    opens: Callable[[], None] = lambda: found.append(make(threading.get_native_id, 1))  # noqa: E731
    with politely():
        thread = threading.Thread(target=opens)
        thread.start()
        thread.join()
        assert found == [thread.native_id]
