"""Fault bits before and after: what is new is told, and a boot that sets counters back hides nothing."""

import pytest

from hil.bench.runtime import bits_of
from hil.faults import FaultBits, kernel_faults, new_faults

LOG = """\
[    0.000000] Booting Linux on physical CPU 0x0000000000
[    3.100000] tegra-xusb 3610000.usb: Firmware timestamp: 2023-02-10
[   88.200000] Internal error: Oops: 0000000096000005 [#1] PREEMPT SMP
[   91.000000] tegra-ras: RAS Error in CCPLEX
[  120.000000] watchdog: BUG: soft lockup - CPU#3 stuck for 22s!
""".splitlines()


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (FaultBits(), FaultBits(), []),
        (FaultBits(throttled=7), FaultBits(throttled=7), []),
        (FaultBits(throttled=7), FaultBits(throttled=9), ["throttled"]),
        (FaultBits(throttled=7), FaultBits(throttled=2), ["throttled"]),  # a boot set it to zero
        (FaultBits(throttled=7), FaultBits(throttled=0), []),
        (FaultBits(over_current=1), FaultBits(over_current=2), ["over_current"]),
        (FaultBits(), FaultBits(memory_errors=1), ["memory_error"]),
        (FaultBits(latch="a"), FaultBits(latch="a"), []),
        (FaultBits(latch="a"), FaultBits(latch="b"), ["latch"]),
        (FaultBits(), FaultBits(latch="a"), ["latch"]),
        (FaultBits(kernel=("x",)), FaultBits(kernel=("x",)), []),
        (FaultBits(kernel=("x",)), FaultBits(kernel=("x", "y")), ["kernel"]),
    ],
)
def test_what_is_new_is_told(before: FaultBits, after: FaultBits, kinds: list[str]) -> None:
    assert [one.kind for one in new_faults(before, after)] == kinds


def test_lines_of_a_kernel_that_no_healthy_board_writes() -> None:
    found = kernel_faults(LOG)
    assert [line.split("] ")[1][:14] for line in found] == [
        "Internal error",
        "tegra-ras: RAS",
        "watchdog: BUG:",
    ]
    assert kernel_faults(LOG[:2]) == ()


def test_bits_out_of_what_a_board_says_of_its_health() -> None:
    health = {
        "throttling": {"active": True, "by": ["cpu"], "counts": {"cpu0": 3, "cpu1": None}},
        "jetson": {"over_current": {"oc1": {"events": 2, "throttles": None}}},
    }
    assert bits_of(health) == (4, 2, ())
    health = {"throttling": {"active": None, "by": [], "counts": {}}, "jetson": None}
    assert bits_of(health) == (0, 0, ("whether the hardware throttles",))
