"""URLs of cameras and of the link: the right scheme and a host, said without ever repeating a credential."""

import re
from urllib.parse import urlsplit

from edge_runtime.telemetry import split_user_information

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


def rtsp_url(value: str) -> str:
    """An `rtsp://` or `rtsps://` URL with a host.

    Raises:
        ValueError: it is none; the text names the scheme only.
    """
    return _url(value, ("rtsp", "rtsps"), {"http": "http", "https": "http"})


def http_url(value: str) -> str:
    """An `http://` or `https://` URL with a host.

    Raises:
        ValueError: it is none; the text names the scheme only.
    """
    return _url(value, ("http", "https"), {"rtsp": "rtsp", "rtsps": "rtsp"})


def proxy_url(value: str) -> str:
    """An `http://` URL of a proxy, with a host and a port and nothing behind them.

    Raises:
        ValueError: it is none; the text names the scheme only.
    """
    _url(value, ("http",), {})
    parts = split_user_information(value)
    if not re.search(r":[0-9]+$", parts.host):
        raise ValueError("must end with the proxy's port, such as http://proxy:3128")
    if parts.rest not in ("", "/"):
        raise ValueError("must hold nothing behind the port")
    return value


def _url(value: str, schemes: tuple[str, ...], elsewhere: dict[str, str]) -> str:
    wanted = " or ".join(f"{scheme}://" for scheme in schemes)
    parts = split_user_information(value)
    if not _SCHEME.fullmatch(parts.scheme):
        raise ValueError(f"must begin with {wanted}")
    scheme = parts.scheme.lower()
    if scheme not in schemes:
        hint = f"; for {scheme} write kind: {elsewhere[scheme]}" if scheme in elsewhere else ""
        raise ValueError(f"must begin with {wanted}, not {scheme}://{hint}")
    if any(char.isspace() or not char.isprintable() for char in value):
        raise ValueError("must not hold spaces or control characters; write %20 for a space")
    if not parts.host.strip(":"):
        raise ValueError(f"names no host after {scheme}://")
    try:
        port = urlsplit(f"{scheme}://{parts.host}").port
    except ValueError:
        raise ValueError(
            "has a port that is no number from 1 to 65535; write %2F, %23, %3F and %40 for / # ? @ in a password"
        ) from None
    if port == 0:
        raise ValueError("has a port that is no number from 1 to 65535")
    return value
