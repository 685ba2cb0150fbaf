"""Which name a new device gets. Pure, but for the random tail where nothing else tells two devices apart."""

import re
import secrets

from edge_runtime.protocol.topics import DEVICE_PATTERN

_DEVICE = re.compile(DEVICE_PATTERN)
_RESERVED_PREFIX = "fleet-"
_LONGEST = 63


def is_reserved(name: str) -> bool:
    """Whether a name belongs to the server: a broker tells the server's certificate by it."""
    return name == "fleet" or name.startswith(_RESERVED_PREFIX)


def wished_name(device: str | None, common_name: str | None) -> str | None:
    """The name that a device asked for, where it is one: an explicit wish before the request's common name."""
    if device is not None:
        return device
    if common_name is not None and _DEVICE.fullmatch(common_name) and not is_reserved(common_name):
        return common_name
    return None


def made_name(serial: str | None, *, distinct: bool = False) -> str:
    """A name from a hardware serial number, or a random one.

    Args:
        serial: printable ASCII; what a name cannot hold becomes a hyphen.
        distinct: add a random tail, because another device has the plain name.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", (serial or "").lower()).strip("-")
    if not slug:
        return f"device-{secrets.token_hex(4)}"
    if is_reserved(slug):
        slug = f"device-{slug}"
    tail = f"-{secrets.token_hex(3)}" if distinct else ""
    return slug[: _LONGEST - len(tail)].rstrip("-") + tail
