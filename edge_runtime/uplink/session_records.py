"""What happens in an MQTT session, and what one is begun with, as plain records."""

import ssl
from dataclasses import dataclass

from edge_runtime.protocol.enrolment import BrokerAddress


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker accepted the session.

    Attributes:
        receive_maximum: publications that it takes before it must have acknowledged one.
        max_packet: bytes of the largest packet that it takes; None where it states none.
    """

    receive_maximum: int
    max_packet: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt or the session is over.

    Attributes:
        text: why, for people.
        reached: whether there was a connection, TLS included.
        answered: whether the broker spoke MQTT with us at all.
        refused: it answered with a refusal.
        unsupported: it, or its silence, suggests that it does not speak this version of MQTT.
        taken_over: another client took the session.
    """

    text: str
    reached: bool = False
    answered: bool = False
    refused: bool = False
    unsupported: bool = False
    taken_over: bool = False


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The answer to the subscription."""

    granted: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker's PUBACK. A reason of 0x80 or more is a failure, although paho calls it published.

    Attributes:
        mid: of the publication.
    """

    mid: int
    failed: bool
    text: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message on one of our topics."""

    topic: str
    payload: bytes
    retained: bool


SessionEvent = Connected | Ended | Subscribed | Acknowledged | Arrived


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to connect to, and as whom.

    Attributes:
        client_id: the device's id.
        address: the broker.
        tls: the device's certificate and the authority it trusts; None only where a test's broker has no TLS.
        mqtt5: the version to speak.
        proxy: URL of an HTTP proxy, or None.
        will_topic, will: published by the broker, retained, when the connection breaks.
    """

    client_id: str
    address: BrokerAddress
    tls: ssl.SSLContext | None
    mqtt5: bool
    proxy: str | None
    will_topic: str
    will: bytes
    keepalive_s: int
    connect_timeout_s: float
    will_delay_s: int
    session_expiry_s: int
