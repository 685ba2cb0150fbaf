"""A camera that fails as ordered: stands between a source and its reader, and changes nothing unless asked."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.errors import SourceError
from edge_runtime.faults.catalogue import Kind, Unit
from edge_runtime.faults.injection import Injection
from edge_runtime.faults.orders import Injector
from edge_runtime.sources.frame import Image
from edge_runtime.sources.reader import Grab, Reader

MOST_HELD = 64
"""Pictures that wait while they are delayed; more would be gigabytes. Others are left out."""


class FaultyReader:
    """A reader around another one.

    Args:
        inner: gives the pictures.
        injector: says what holds.
        name: of the camera.
        clock: says when a delayed picture is due.
    """

    def __init__(self, inner: Reader, injector: Injector, name: str, clock: Clock) -> None:
        self._inner, self._injector, self._name, self._clock = inner, injector, name, clock
        self.facts, self.counts = inner.facts, inner.counts
        self.warning = inner.warning
        self._last: Image | None = None
        self._given_ns = 0
        self._held: deque[Grab] = deque()

    def read(self) -> Grab | None:
        """The next picture, as the orders have it.

        Raises:
            SourceError: the camera is off by order, or the stream broke.
        """
        while True:
            order = self._injector.on(Unit.CAMERA, self._name)
            if order is not None and order.kind in (Kind.OFF, Kind.INTERMITTENT):
                raise broken(order)
            if self._held and (order is None or order.kind is not Kind.DELAYED):
                self._held.clear()  # the fault is over: nobody wants the past
            grab = self._inner.read()
            self.warning = self._inner.warning
            if grab is None:
                return None
            given = grab if order is None else self._changed(grab, order)
            if given is not None:
                if order is None or order.kind is not Kind.STUCK:
                    self._last = given.image
                self._given_ns = given.capture_ns
                return given

    def close(self) -> None:
        """Close what is inside."""
        self._held.clear()
        self._inner.close()

    def _changed(self, grab: Grab, order: Injection) -> Grab | None:
        """What is given in place of a picture; None where nothing is yet."""
        kind = order.kind
        if kind is Kind.STUCK:
            same_size = self._last is not None and self._last.shape == grab.image.shape
            image = self._last if self._last is not None and same_size else grab.image
            self._last = image
            return replace(grab, image=image.copy())
        if kind is Kind.GARBAGE:
            seed = np.random.default_rng(grab.capture_ns & 0xFFFFFFFF)
            return replace(grab, image=seed.integers(0, 256, grab.image.shape, dtype=np.uint8))
        if kind is Kind.WRONG:
            return replace(grab, image=np.ascontiguousarray(grab.image[:, ::-1]))
        assert order.amount is not None
        amount_ns = round(order.amount * NS_PER_S)
        if kind is Kind.SLOW:
            return grab if grab.capture_ns - self._given_ns >= amount_ns else None
        if len(self._held) < MOST_HELD:
            self._held.append(grab)
        due = self._clock.monotonic_ns() - self._held[0].capture_ns >= amount_ns
        return self._held.popleft() if due else None


def broken(order: Injection) -> SourceError:
    """What a camera says that is off by order."""
    return SourceError(f"fault injection {order.id}: {order.text}")


def through_faults(
    open_reader: Callable[[threading.Event], Reader], injector: Injector, name: str, clock: Clock
) -> Callable[[threading.Event], Reader]:
    """The same opener, whose connections fail as ordered.

    Args:
        open_reader: of the camera.
        injector: says what holds.
        name: of the camera.
        clock: time.
    """

    def opened(cancel: threading.Event) -> Reader:
        order = injector.on(Unit.CAMERA, name)
        if order is not None and order.kind in (Kind.OFF, Kind.INTERMITTENT):
            raise broken(order)
        return FaultyReader(open_reader(cancel), injector, name, clock)

    return opened
