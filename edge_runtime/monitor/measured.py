"""Measurements as the flight recorder keeps them: short, once a second, null where nobody knows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edge_runtime.health.reading import Reading
from edge_runtime.monitor.adapters import Heard
from edge_runtime.monitor.conditions import processor_sensors
from edge_runtime.monitor.readings import BatteryReading, Readings
from edge_runtime.monitor.sampling import HostSample
from edge_runtime.protocol.operation import CameraHealth

if TYPE_CHECKING:
    from edge_runtime.outbox import OutboxStatus

MOST_SENSORS = 16
MOST_CAMERAS = 16


def measured(
    sample: HostSample,
    readings: Readings,
    heard: Heard,
    *,
    queue: "OutboxStatus | None",
    cameras: Sequence[CameraHealth],
    worst_round_ms: float,
) -> dict[str, Any]:
    """One second of the device.

    Args:
        sample: of the machine.
        readings: of the round.
        heard: from adapters.
        queue: as the outbox says; None where it does not answer.
        cameras: as perception wrote them down last.
        worst_round_ms: the longest round of this second.
    """
    sensors = processor_sensors(sample.temperatures)
    known = [(name, zone.celsius.value) for name, zone in sensors.items() if zone.celsius.value is not None]
    hottest = sorted(known, key=lambda pair: -pair[1])[:MOST_SENSORS]
    return {
        "temperatures": {name: round(celsius, 1) for name, celsius in hottest},
        "throttled": sample.throttled.value,
        "throttled_by": list(sample.throttled_by),
        "memory_mib": _mebi(sample.memory.available_bytes),
        "memory_full_percent": sample.memory_full_percent.value,
        "disk_mib": {name: _mebi(disk.free_bytes) for name, disk in sample.disks.items()},
        "queue": None if queue is None else _queue(queue),
        "cameras": {
            camera.name: [camera.state, round(camera.age_ms)] for camera in list(cameras)[:MOST_CAMERAS]
        },
        "batteries": {name: _battery(reading) for name, reading in readings.batteries.items()},
        "reports": [heard.reports, heard.refused],
        "round_ms": round(worst_round_ms, 1),
    }


def _mebi(found: Reading[int]) -> int | None:
    return None if found.value is None else found.value >> 20


def _queue(status: "OutboxStatus") -> dict[str, Any]:
    return {
        "state": status.state.value,
        "queued": status.ledger.queued,
        "mib": round(status.bytes / 2**20, 2),
        "fill": round(status.bytes / max(1, status.quota_bytes), 3),
        "oldest_s": None if status.oldest_age_ms is None else status.oldest_age_ms // 1000,
    }


def _battery(reading: BatteryReading | None) -> list[float | None]:
    if reading is None:
        return [None, None]
    charge, volts = reading.charge.value, reading.volts.value
    return [
        None if charge is None else round(charge, 3),
        None if volts is None else round(volts, 2),
    ]
