"""From power to work: first sign of life, first frame, permission to move."""

from hil.parts import Console, Power
from hil.plan.reactions import recovery
from hil.plugin import Measure
from hil.rig import Rig


def test_it_boots(rig: Rig, power: Power, measure: Measure) -> None:
    """Power goes and comes: the guard decides, the first frame is evaluated, and after a person's act it works."""
    power.off()
    rig.clock.wait(rig.file.times.off)
    assert rig.device.state() is None, "it answers without power"
    power.on()
    began, within_s = rig.clock.now(), rig.file.times.boot
    decided = rig.until(lambda: rig.device.state() not in (None, "INIT"), within_s)
    measure("boot", decided, "s", at_most=120)
    seen = rig.until(lambda: bool(rig.device.frames()), within_s)
    measure("first_frame", None if seen is None else rig.clock.now() - began, "s", at_most=120)
    works = recovery(rig)
    measure("work", None if works is None else rig.clock.now() - began, "s", at_most=180)


def test_the_console_speaks(rig: Rig, power: Power, console: Console, measure: Measure) -> None:
    """The way in that needs no network: something comes from it soon after power."""
    power.off()
    rig.clock.wait(rig.file.times.off)
    console.read()
    power.on()
    first = rig.until(lambda: bool(console.read().strip()), 60)
    measure("console_first_line", first, "s", at_most=30)
    recovery(rig)
