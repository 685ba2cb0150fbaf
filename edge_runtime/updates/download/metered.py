"""Whether bytes on the present link cost money: by the name of the interface that the default route takes.

A modem's interface has a name that a person knows (`wwan0`, `ppp0`, `usb0`); Linux keeps no flag of its own for it.
Through a VPN the default route is the tunnel's: name the tunnel where it runs over a modem.
"""

import fnmatch
from collections.abc import Sequence
from pathlib import Path

_UP = 0x1
_REJECT = 0x0200


def is_metered(patterns: Sequence[str], interface: str | None) -> bool:
    """Whether an interface is among those that cost.

    Args:
        patterns: names as in a shell, `wwan*`.
        interface: of the default route; None where there is none, which costs nothing.
    """
    return interface is not None and any(fnmatch.fnmatchcase(interface, one) for one in patterns)


def default_route_interface(proc_net: Path = Path("/proc/net")) -> str | None:
    """The interface of the default route with the lowest metric, IPv4 before IPv6; None where there is none."""
    return _of_ipv4(_lines(proc_net / "route")) or _of_ipv6(_lines(proc_net / "ipv6_route"))


def _of_ipv4(lines: list[list[str]]) -> str | None:
    """`Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses in hexadecimal."""
    found = [
        (int(line[6]), line[0])
        for line in lines[1:]
        if len(line) >= 8 and line[1] == line[7] == "00000000" and int(line[3], 16) & _UP
    ]
    return min(found)[1] if found else None


def _of_ipv6(lines: list[list[str]]) -> str | None:
    """`destination length source length gateway metric refs use flags interface`, all in hexadecimal."""
    found = [
        (int(line[5], 16), line[9])
        for line in lines
        if len(line) >= 10 and line[1] == "00" and set(line[0]) == {"0"} and not int(line[8], 16) & _REJECT
        if int(line[8], 16) & _UP and line[9] != "lo"
    ]
    return min(found)[1] if found else None


def _lines(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError:
        return []
