"""How long an errand that failed is left alone: twice as long each time, up to an hour, and not all at once."""

import hashlib

FIRST_MS = 30_000
LONGEST_MS = 3_600_000


def wait_ms(failures: int, device: str, seq: int) -> int:
    """Milliseconds to wait after so many failures in a row, at least half of the full step.

    Args:
        failures: at least 1.
        device: its id; spreads a fleet, the same way each time, so that a restart changes nothing.
        seq: of the assignment.
    """
    step = min(LONGEST_MS, FIRST_MS << min(failures - 1, 16))
    drawn = hashlib.sha256(f"{device}/{seq}/{failures}".encode()).digest()
    return step // 2 + step // 2 * int.from_bytes(drawn[:4], "big") // 0xFFFFFFFF
