"""URLs of an external broker."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from edge_runtime.protocol.enrolment import BrokerAddress, BrokerTransport

_SCHEMES = {"mqtt": 1883, "mqtts": 8883, "wss": 443}


def parse_broker_url(url: str) -> BrokerAddress:
    """The broker that a URL names.

    Raises:
        ValueError: another scheme, no host, a path where none belongs, or `mqtt://` to another machine.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the broker's URL cannot be read") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError("a broker's URL is mqtts://host:port or wss://host/path")
    if parts.username or parts.password:
        raise ValueError("a broker's URL holds no user: ingest shows its certificate")
    if parts.scheme == "mqtt" and not _is_loopback(parts.hostname):
        raise ValueError("mqtt:// sends in the clear and is for loopback alone: use mqtts://")
    if parts.scheme == "wss":
        transport, path = BrokerTransport.WEBSOCKETS, parts.path or "/mqtt"
    else:
        transport, path = BrokerTransport.TCP, "/mqtt"
        if parts.path not in ("", "/"):
            raise ValueError("a path belongs to a wss:// URL only")
    return BrokerAddress(
        host=parts.hostname, port=port or _SCHEMES[parts.scheme], transport=transport, path=path
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
