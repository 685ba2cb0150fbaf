"""Writing a board without anybody at it: recovery mode, the vendor's script, and a boot into what was written."""

import pytest

from hil.parts import Button, Power, VendorScript
from hil.plan.reactions import recovery
from hil.plugin import Measure
from hil.rig import Rig

pytestmark = pytest.mark.trial

HOLD_S = 3.0


def test_it_is_written_and_boots(
    rig: Rig, power: Power, recovery_button: Button, vendor_script: VendorScript, measure: Measure
) -> None:
    """Held in recovery while power comes, written by the vendor's script, and on its feet again."""
    power.off()
    rig.clock.wait(rig.file.times.off)
    recovery_button.press()
    power.on()
    rig.clock.wait(HOLD_S)
    recovery_button.release()
    measure("recovery_mode", rig.until(vendor_script.in_recovery, 60), "s", at_most=30)
    began = rig.clock.now()
    vendor_script.flash()
    measure("flash", rig.clock.now() - began, "s", at_most=3600)
    power.off()
    rig.clock.wait(rig.file.times.off)
    power.on()
    began = rig.clock.now()
    rig.until(lambda: rig.device.state() not in (None, "INIT"), 2 * rig.file.times.boot)
    works = recovery(rig)
    measure("boot_after_flash", None if works is None else rig.clock.now() - began, "s", at_most=900)
