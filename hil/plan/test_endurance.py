"""What takes time to show: heat, memory, descriptors, swap."""

from hil.device_parts import Heat, Memory
from hil.plugin import Measure
from hil.rig import Rig

LOOKS = 30
WARM_UP = 0.2
"""Of the steady time: what is filled once is no slope."""

_MIB, _HOUR_S = float(1 << 20), 3600.0


def test_a_thermal_soak(rig: Rig, heat: Heat, measure: Measure) -> None:
    """As warm as the rig can make it, as busy as in the field: not too hot, and frames in time."""
    hottest: list[float] = []
    with rig.clock.long_run("heat"):
        heat.warm()
        for _ in range(LOOKS):
            rig.clock.wait(rig.file.times.soak / LOOKS)
            celsius = heat.celsius()
            hottest += [] if celsius is None else [celsius]
        late = heat.late_share()
    measure("soak_hottest", max(hottest, default=None), "C", at_most=95)
    measure("soak_late_frames", late, "share", at_most=0.01)


def test_memory_and_descriptors_stay_flat(rig: Rig, memory: Memory, measure: Measure) -> None:
    """Growth from the first to the last third of a steady time, by the hour."""
    steady_s = rig.file.times.steady
    rig.clock.wait(WARM_UP * steady_s)
    began, looks = rig.clock.now(), []
    while rig.clock.now() - began < steady_s:
        rig.clock.wait(steady_s / LOOKS)
        looks.append(memory.use())
    third = len(looks) // 3
    hours = (rig.clock.now() - began) * 2 / 3 / _HOUR_S
    resident = _median([one.resident_bytes for one in looks[-third:]]) - _median(
        [one.resident_bytes for one in looks[:third]]
    )
    descriptors = _median([one.descriptors for one in looks[-third:]]) - _median(
        [one.descriptors for one in looks[:third]]
    )
    measure("memory_growth", resident / _MIB / hours, "MiB/h", at_most=8)
    measure("descriptor_growth", descriptors / hours, "1/h", at_most=2)
    measure("swap", max(one.swap_bytes for one in looks) / _MIB, "MiB", at_most=64)


def _median(values: list[int]) -> float:
    ordered = sorted(values)
    return float(ordered[len(ordered) // 2])
