"""From a look at the device to what the governor wants to know."""

from edge_runtime.health.governor import GovernorSettings, ThermalReading
from edge_runtime.health.snapshot import HealthSnapshot


def thermal_reading(snapshot: HealthSnapshot, settings: GovernorSettings) -> ThermalReading:
    """The reading of a snapshot, as if all sensors had the limit of the settings.

    Zones throttle at different temperatures (99 C a processor, 86 C another). Where zones say so, the one with the
    fewest degrees left counts, moved to the scale of `limit_c`; otherwise the hottest sensor as it is.
    """
    margin, hottest = snapshot.hottest.margin_c.value, snapshot.hottest.celsius.value
    celsius = hottest if margin is None else settings.limit_c - margin
    return ThermalReading(celsius, snapshot.taken_ns, snapshot.throttling.active.value)
