"""UUIDv7 (RFC 9562, section 5.7): ids that sort by the wall label they were made under."""

import secrets
import uuid


def uuid7(unix_ns: int, random_bits: int | None = None) -> str:
    """A version 7 UUID.

    Args:
        unix_ns: wall label in nanoseconds since 1970; only its milliseconds are used.
        random_bits: 74 random bits; drawn from the system's generator when None.

    Returns:
        The canonical lower-case text form.
    """
    milliseconds = (unix_ns // 1_000_000) & ((1 << 48) - 1)
    noise = secrets.randbits(74) if random_bits is None else random_bits & ((1 << 74) - 1)
    rand_a, rand_b = noise >> 62, noise & ((1 << 62) - 1)
    value = milliseconds << 80 | 0x7 << 76 | rand_a << 64 | 0b10 << 62 | rand_b
    return str(uuid.UUID(int=value))
