"""What is before the camera becomes an event in time; a camera that shows nothing is noticed, and comes back."""

import statistics

import pytest

from hil.device_parts import Events, Injector
from hil.parts import Marker, Shutter, UsbPorts
from hil.plan.reactions import reaction, recovery
from hil.plugin import Measure
from hil.rig import Rig

BLINKS = 3
HIDDEN_S = 5.0
"""The rule `empty` of a bench begins after two or three seconds without anybody."""

FAULT_S = 8.0


def _ended(events: Events) -> int:
    return sum(one.rule == "empty" and one.state == "ended" for one in events.seen())


def test_a_marker_becomes_an_event(rig: Rig, marker: Marker, events: Events, measure: Measure) -> None:
    """A marker blinks: somebody is there, so the absence that the device told is over, and it says so."""
    took: list[float | None] = []
    own: list[float] = []
    marker.show(lit=True)
    rig.clock.wait(HIDDEN_S)  # whatever absence was told before is over
    for _ in range(BLINKS):
        began = _begun(events)
        marker.show(lit=False)
        absent = rig.until(lambda began=began: _begun(events) > began, 6 * HIDDEN_S)  # type: ignore[misc]
        ended = _ended(events)
        marker.show(lit=True)
        shown = rig.until(lambda ended=ended: _ended(events) > ended, 30)  # type: ignore[misc]
        took.append(None if absent is None else shown)
        own += [one.latency_ms for one in events.seen()[-1:]]
    times = [one for one in took if one is not None]
    measure("marker_seen", float(len(times)), "times", at_least=BLINKS)
    measure("marker_to_event", max(times), "s", at_most=2)
    measure("picture_to_event", statistics.median(own), "ms", at_most=500)


def _begun(events: Events) -> int:
    return sum(one.rule == "empty" and one.state == "started" for one in events.seen())


@pytest.mark.parametrize("kind", ["off", "stuck"])
def test_a_camera_that_fails_is_noticed(rig: Rig, injector: Injector, measure: Measure, kind: str) -> None:
    """The device's own injector takes the camera away, or lets it show the same picture again and again."""
    began = injector.order("camera", kind, FAULT_S)
    measure(f"camera_{kind}_reaction", reaction(rig, began, FAULT_S + 10), "s", at_most=5)
    rig.clock.wait(max(0.0, began + FAULT_S - rig.clock.now()))
    measure(f"camera_{kind}_recovery", recovery(rig), "s", at_most=30)


def test_a_dark_camera_is_noticed(rig: Rig, shutter: Shutter, measure: Measure) -> None:
    """Dark is not the same as empty."""
    began = rig.clock.now()
    shutter.cover(shut=True)
    measure("camera_dark_reaction", reaction(rig, began, FAULT_S + 10), "s", at_most=5)
    shutter.cover(shut=False)
    measure("camera_dark_recovery", recovery(rig), "s", at_most=30)


def test_an_unplugged_camera_is_noticed(rig: Rig, usb: UsbPorts, measure: Measure) -> None:
    """The plug itself, as far as the hub really cuts it."""
    began = rig.clock.now()
    usb.off("camera")
    try:
        measure("camera_unplugged_reaction", reaction(rig, began, FAULT_S + 10), "s", at_most=5)
    finally:
        usb.on("camera")
    measure("camera_unplugged_recovery", recovery(rig), "s", at_most=60)
