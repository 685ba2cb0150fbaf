"""A camera that fails as ordered, through the real source, its thread and its checks."""

import itertools
import threading
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.config.source import SyntheticSource
from edge_runtime.errors import SourceError
from edge_runtime.faults import Injector, injection, write_orders
from edge_runtime.faults.camera import FaultyReader, through_faults
from edge_runtime.sources import Image, SourceState, open_source
from edge_runtime.sources.reader import Grab, ReadCounts, StreamFacts
from tests.rigs.cameras import FakeClock, picture, running, wait_until

INTERVAL_S = 0.1


class Lens:
    """Pictures at a fixed pace; reading one lets the time pass that it takes to come."""

    def __init__(self, clock: FakeClock) -> None:
        self.facts, self.counts = StreamFacts(64, 48, "drawn"), ReadCounts()
        self.warning: str | None = None
        self._clock, self.number = clock, 0
        self.closed = False

    def read(self) -> Grab | None:
        self._clock.advance(INTERVAL_S)
        self.number += 1
        return Grab(picture(self.number), None, self._clock.now_ns)

    def close(self) -> None:
        self.closed = True


class Bench:
    """A lens, its faults, and the reader around both."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.path = folder / "faults.json"
        self.lens = Lens(self.clock)
        self.injector = Injector(self.path, self.clock, lambda *_: None, self._refuse)
        self.reader = FaultyReader(self.lens, self.injector, "yard", self.clock)

    @staticmethod
    def _refuse(sentence: str) -> None:
        raise AssertionError(sentence)

    def order(self, kind: str, amount: float | None = None, for_s: float = 5.0) -> None:
        one = injection(
            "camera",
            kind,
            id="00000001",
            begins_ns=self.clock.now_ns,
            for_s=for_s,
            boot_id="test",
            amount=amount,
        )
        write_orders(self.path, [one])
        self.clock.advance(0.11)

    def differs(self) -> bool:
        """Whether what comes next is not the picture of this moment, or comes more seldom."""
        before = self.lens.number
        try:
            found = [self.reader.read() for _ in range(2)]
        except SourceError:
            return True
        newest = found[-1]
        seldom = self.lens.number - before > len(found)
        return seldom or newest is None or not np.array_equal(newest.image, picture(self.lens.number))

    def take(self) -> Image:
        found = self.reader.read()
        assert found is not None
        return found.image


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_without_an_order_nothing_is_changed(bench: Bench) -> None:
    for number in range(1, 6):
        assert np.array_equal(bench.take(), picture(number))


def test_off_breaks_the_connection_and_lets_none_be_made(bench: Bench) -> None:
    bench.take()
    bench.order("off")
    with pytest.raises(SourceError, match="fault injection 00000001"):
        bench.reader.read()
    opened = through_faults(lambda _: bench.lens, bench.injector, "yard", bench.clock)
    with pytest.raises(SourceError, match="the connection breaks"):
        opened(threading.Event())
    bench.clock.advance(6)
    assert opened(threading.Event()).read() is not None


def test_stuck_repeats_the_last_good_picture_with_new_times(bench: Bench) -> None:
    last = bench.take()
    bench.order("stuck")
    first, second = bench.reader.read(), bench.reader.read()
    assert first is not None
    assert second is not None
    assert np.array_equal(first.image, last)
    assert np.array_equal(second.image, last)
    assert second.capture_ns > first.capture_ns
    assert first.image is not second.image, "a reader's picture is shared with nobody"


def test_garbage_is_noise_and_wrong_is_a_mirror(bench: Bench) -> None:
    bench.order("garbage")
    assert len(np.unique(bench.take())) > 200
    bench.order("wrong")
    assert np.array_equal(bench.take()[:, ::-1], picture(bench.lens.number))


def test_slow_gives_a_picture_now_and_then(bench: Bench) -> None:
    bench.take()
    bench.order("slow", 1.0)
    given = [bench.reader.read() for _ in range(3)]
    times = [one.capture_ns for one in given if one is not None]
    gaps = [(after - before) / NS_PER_S for before, after in itertools.pairwise(times)]
    assert all(1.0 <= gap < 1.2 for gap in gaps), gaps


def test_delayed_gives_each_picture_late_with_its_true_time(bench: Bench) -> None:
    bench.order("delayed", 1.0)
    for _ in range(3):
        found = bench.reader.read()
        assert found is not None
        assert 1.0 <= (bench.clock.now_ns - found.capture_ns) / NS_PER_S < 1.3
    bench.clock.advance(6)
    found = bench.reader.read()
    assert found is not None
    assert found.capture_ns == bench.clock.now_ns, "the past is not given once the fault is over"


@pytest.mark.parametrize("kind", ["off", "stuck", "garbage", "wrong", "slow", "delayed", "intermittent"])
def test_every_kind_ends_by_itself(bench: Bench, kind: str) -> None:
    bench.take()
    bench.order(kind, for_s=60.0)
    bench.clock.advance(2.5)  # into the half of four seconds in which an intermittent one is off
    assert bench.differs()
    bench.clock.advance(60.0)
    for _ in range(2):
        assert np.array_equal(bench.take(), picture(bench.lens.number))


def test_closing_closes_what_is_inside(bench: Bench) -> None:
    bench.reader.close()
    assert bench.lens.closed


def test_a_real_source_breaks_and_comes_back(tmp_path: Path) -> None:
    clock, path = SystemClock(), tmp_path / "faults.json"
    told: list[tuple[str, bool]] = []
    injector = Injector(path, clock, lambda one, begun: told.append((one.kind.value, begun)), print)
    config = SyntheticSource(
        kind="synthetic", fps=50, width=64, height=48, backoff_first=0.05, backoff_max=0.1
    )
    runner = open_source(
        "yard",
        config,
        base=tmp_path,
        clock=clock,
        through=lambda one: through_faults(one, injector, "yard", clock),
    )

    def order(kind: str) -> None:
        now_ns, boot = clock.monotonic_ns(), clock.wall().boot_id
        write_orders(
            path, [injection("camera", kind, id="00000001", begins_ns=now_ns, for_s=60, boot_id=boot)]
        )

    with running(runner):
        assert wait_until(lambda: runner.status().state is SourceState.RUNNING, 30)
        order("off")
        assert wait_until(lambda: runner.status().state is SourceState.RECONNECTING, 30)
        assert "fault injection 00000001" in (runner.status().error or "")
        write_orders(path, [])
        assert wait_until(lambda: runner.status().state is SourceState.RUNNING, 30)
    assert told == [("off", True), ("off", False)]
