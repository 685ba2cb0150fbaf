"""On-device runtime: cameras to bounded events, held by a watchdog, delivered only with permission."""

__version__ = "0.1.0"
