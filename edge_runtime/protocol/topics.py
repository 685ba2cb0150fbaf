"""MQTT topics: `fleet/v1/{device}/…`. A device writes its own `up` and `presence`, and reads its own `down`.

The broker enforces that from the common name of the device's certificate, which is the device's id. At most
seven slashes, so that AWS IoT Core can serve; no device id can contain a wildcard, a level separator or a dot
(NATS maps `/` to `.`).
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from pydantic import Field

ROOT = "fleet/v1"
DEVICE_PATTERN = r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$"
"""A device id: a DNS label, so that it is safe in topics, certificates, file names and URLs."""

DeviceId = Annotated[str, Field(pattern=DEVICE_PATTERN)]

_TOPIC = re.compile(r"fleet/v1/(?P<device>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/(?P<channel>[a-z0-9/]{2,24})")


class Channel(str, Enum):
    """What is below `fleet/v1/{device}/`."""

    EVENTS_INFO = "up/ev/0"
    EVENTS_NOTICE = "up/ev/1"
    EVENTS_WARNING = "up/ev/2"
    EVENTS_CRITICAL = "up/ev/3"
    SYNC = "up/sync"
    OUTCOME = "up/outcome"
    HEALTH = "up/health"
    HELD = "up/held"
    RESULT = "up/result"
    STATE = "up/state"
    RECEIPT = "down/rcpt"
    COMMAND = "down/cmd"
    DESIRED = "down/desired"
    PRESENCE = "presence"

    @property
    def is_events(self) -> bool:
        """Whether bundles of events travel here."""
        return self.value.startswith("up/ev/")


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of one device."""

    device: str
    channel: Channel

    def __str__(self) -> str:
        return f"{ROOT}/{self.device}/{self.channel.value}"

    @classmethod
    def parse(cls, text: str) -> "Topic | None":
        """The topic that `text` names, or None when it is none of ours."""
        found = _TOPIC.fullmatch(text)
        if found is None:
            return None
        try:
            return cls(found["device"], Channel(found["channel"]))
        except ValueError:
            return None


def events_channel(severity_rank: int) -> Channel:
    """Where a bundle goes whose most severe event has this rank, 0 (info) to 3 (critical)."""
    return Channel(f"up/ev/{severity_rank}")
