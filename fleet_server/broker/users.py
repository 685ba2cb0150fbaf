"""Who may connect to the broker and what each may touch: the same table for every kind of broker."""

from dataclasses import dataclass

from edge_runtime.protocol.topics import ROOT, Channel, Topic
from fleet_server.authority import INGEST_NAME

INGEST = INGEST_NAME
"""Common name of the server's own client certificate."""

_WRITTEN_BY_DEVICES = tuple(
    channel for channel in Channel if channel.value.startswith("up/") or channel is Channel.PRESENCE
)


@dataclass(frozen=True, slots=True, order=True)
class BrokerUser:
    """One certificate that the broker lets in.

    Attributes:
        name: common name: a device's id, or `INGEST`.
        serial: of the certificate, hexadecimal, as it stands in the subject's OU. Two certificates of one device
            are two users, so that one can be put out alone.
    """

    name: str
    serial: str

    @property
    def distinguished_name(self) -> str:
        """The subject as Go writes it (RFC 2253: last part first), which is how NATS looks it up."""
        return f"CN={self.name},OU={self.serial}"

    @property
    def is_ingest(self) -> bool:
        """Whether this is the server itself rather than a device."""
        return self.name == INGEST


@dataclass(frozen=True, slots=True)
class Permissions:
    """MQTT topic filters.

    Attributes:
        publish: what may be written.
        subscribe: what may be read.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def permissions(user: BrokerUser) -> Permissions:
    """A device writes its own `up` and `presence` and reads its own `down`; the server does the reverse.

    A device may write the channels that the protocol has and no others: below a wildcard it could leave retained
    messages without number in the broker's store.
    """
    if user.is_ingest:
        return Permissions(
            publish=(f"{ROOT}/+/down/#",),
            subscribe=(f"{ROOT}/+/up/#", f"{ROOT}/+/presence"),
        )
    return Permissions(
        publish=tuple(str(Topic(user.name, channel)) for channel in _WRITTEN_BY_DEVICES),
        subscribe=(f"{ROOT}/{user.name}/down/#",),
    )
