"""Names as people give them: whole, or with the middle left out as a table on a narrow terminal shows them."""

import re

from edge_runtime.errors import ConfigError
from fleet_server.cli.client import FleetClient
from fleet_server.cli.errors import NotFound
from fleet_server.cli.output import CUT

_LISTED = 5
_CUT = re.compile(rf"{CUT}|\.\.\.")


def whole_device(client: FleetClient, name: str) -> str:
    """The id of the device that a name means; a whole name is taken as it is, and nobody is asked.

    Raises:
        NotFound: no device has such an id.
        ConfigError: several have, or the middle is left out twice.
    """
    if not _CUT.search(name):
        return name
    head, *tails = _CUT.split(name)
    if len(tails) != 1:
        raise ConfigError(f"{name}: leave out one middle, as in dock{CUT}17")
    found = [
        device["id"]
        for device in client.pages("/v1/devices", "devices", "after")
        if is_cut_of(device["id"], head, tails[0])
    ]
    if not found:
        raise NotFound(f"no device has an id like {name}: see fleet device list")
    if len(found) > 1:
        more = "" if len(found) <= _LISTED else f" and {len(found) - _LISTED} more"
        raise ConfigError(f"{name} means {len(found)} devices: {', '.join(found[:_LISTED])}{more}")
    return str(found[0])


def is_cut_of(text: str, head: str, tail: str) -> bool:
    """Whether a text begins and ends so, with something between."""
    return len(text) > len(head) + len(tail) and text.startswith(head) and text.endswith(tail)
