import threading
import time

import numpy as np

from edge_runtime.sources.frame import Frame
from edge_runtime.sources.mailbox import InOrder, LatestWins

MS = 1_000_000


def frame(sequence: int, capture_ns: int = 0, side: int = 4) -> Frame:
    return Frame(np.zeros((side, side, 3), np.uint8), "cam", 0, sequence, capture_ns, 0)


def test_the_newest_frame_wins_and_the_others_are_counted() -> None:
    box = LatestWins(500 * MS)
    for sequence in range(5):
        assert box.put(frame(sequence))
    taken = box.take(0)
    assert taken is not None
    assert taken.sequence == 4
    assert box.take(0) is None
    assert box.drops() == {"superseded": 4}


def test_a_frame_over_age_is_never_given() -> None:
    box = LatestWins(500 * MS)
    box.put(frame(0, capture_ns=1000 * MS))
    assert box.waiting(1500 * MS) == 1000 * MS
    assert box.waiting(1501 * MS) is None
    assert box.take(1501 * MS) is None
    assert box.drops() == {"too_old": 1}
    assert box.take(1000 * MS) is None


def test_a_frame_of_the_exact_age_is_given() -> None:
    box = LatestWins(500 * MS)
    box.put(frame(0, capture_ns=0))
    assert box.take(500 * MS) is not None


def test_a_closed_mailbox_drops_and_counts() -> None:
    latest = LatestWins(500 * MS)
    latest.put(frame(0))
    latest.close()
    assert not latest.put(frame(1))
    assert latest.take(0) is None
    assert latest.waiting(0) is None
    assert latest.drops() == {"stopped": 2}
    ordered = InOrder()
    ordered.put(frame(0))
    ordered.put(frame(1))
    ordered.close()
    assert not ordered.put(frame(2))
    assert ordered.take(0) is None
    assert ordered.drops() == {"stopped": 3}


def test_every_frame_in_order_and_the_reader_waits() -> None:
    box = InOrder(capacity=3)
    progress: list[int] = []

    def read() -> None:
        for sequence in range(20):
            box.put(frame(sequence, capture_ns=sequence))
            progress.append(sequence)

    reader = threading.Thread(target=read)
    reader.start()
    seen: list[int] = []
    while len(seen) < 20:
        assert box.waiting(0) in (None, len(seen))
        taken = box.take(10**18)
        if taken is None:
            time.sleep(0.0005)
            continue
        seen.append(taken.sequence)
        assert len(progress) <= len(seen) + 4
    reader.join(5)
    assert seen == list(range(20))
    assert box.drops() == {}


def test_large_frames_are_bounded_by_bytes_but_two_always_fit() -> None:
    box = InOrder(capacity=8, max_bytes=100)
    box.put(frame(0, side=64))
    box.put(frame(1, side=64))
    third = threading.Thread(target=box.put, args=(frame(2, side=64),))
    third.start()
    third.join(0.05)
    assert third.is_alive()
    assert box.take(0) is not None
    third.join(5)
    assert not third.is_alive()


def test_closing_frees_a_reader_that_waits() -> None:
    box = InOrder(capacity=1)
    box.put(frame(0))
    result: list[bool] = []
    waiting = threading.Thread(target=lambda: result.append(box.put(frame(1))))
    waiting.start()
    waiting.join(0.02)
    assert waiting.is_alive()
    box.close()
    waiting.join(5)
    assert result == [False]
