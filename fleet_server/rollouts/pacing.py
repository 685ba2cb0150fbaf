"""How many devices may be asked now: by how many are at it, and by the bytes that they fetch."""

from fleet_server.rollouts.plan_records import Pacing


def allowance(
    pacing: Pacing, *, in_flight: int, asked_last_hour: int, device_bytes: int, at_once: int
) -> int:
    """Devices that may be asked in this step, 0 or more.

    Args:
        pacing: of the plan.
        in_flight: devices that are asked and not done.
        asked_last_hour: devices that were asked within the last hour.
        device_bytes: of the release, that one device fetches at most.
        at_once: bound of one step.
    """
    room = min(pacing.max_in_flight - in_flight, at_once)
    if pacing.bytes_per_hour is not None:
        # one device an hour where the release is larger than that: else it would never be asked
        hourly = max(1, pacing.bytes_per_hour // max(1, device_bytes))
        room = min(room, hourly - asked_last_hour)
    return max(0, room)
