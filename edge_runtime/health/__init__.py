"""What the device says of itself: temperatures, power, memory, disk, clock, and what slows it down.

Everything that a board may not have is a `Reading`: a value, or None with the reason. `governor` turns readings of
the temperature into less work, before the hardware does it in its own way.
"""

from edge_runtime.health.reading import Reading
from edge_runtime.health.screen import screen_lines
from edge_runtime.health.snapshot import HealthReader, HealthSnapshot, read_health

__all__ = ["HealthReader", "HealthSnapshot", "Reading", "read_health", "screen_lines"]
