"""Where a source is, in words that hold no credentials.

The patterns live in `telemetry.redaction`; this module knows which parts of a source's configuration are
secret, tells the registry about them, and names a source for people.
"""

import re
from urllib.parse import quote, unquote, urlsplit

from edge_runtime.config.source import (
    GStreamerSource,
    HttpSource,
    RtspSource,
    SourceConfig,
    SyntheticSource,
    V4l2Source,
)
from edge_runtime.telemetry import MASK, assigned_secrets, redact, register_secret, split_user_information

_ESCAPED_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*%3A%2F%2F)[^\s\"'<>]*?%40", re.IGNORECASE)
_MIN_USER = 4  # shorter user names would blank out ordinary words
_COMMON_USERS = frozenset({"admin", "root", "user", "guest", "camera", "viewer", "service"})


def without_credentials(text: str) -> str:
    """`text` as it may be shown, also where it holds a URL escaped inside another URL."""
    text = _ESCAPED_URL.sub(rf"\g<scheme>{MASK}%40", text)
    return redact(text)


def register_credentials(config: SourceConfig) -> None:
    """Tell the registry every secret that a source's configuration holds, so that no text shows it again."""
    if isinstance(config, (RtspSource, HttpSource)):
        parts = split_user_information(config.url)
        for secret in (parts.password, config.password):
            if secret:
                register_secret(secret)
                register_secret(unquote(secret))
        for name in (parts.user, config.username):
            if name and len(name) >= _MIN_USER and unquote(name).lower() not in _COMMON_USERS:
                register_secret(unquote(name))
    elif isinstance(config, GStreamerSource):
        for secret in assigned_secrets(config.pipeline):
            register_secret(secret)
        for url in re.findall(r"[a-z][a-z0-9+.-]*://[^\s\"']+", config.pipeline, re.IGNORECASE):
            password = split_user_information(url).password
            if password:
                register_secret(unquote(password))


def with_user(url: str, username: str | None, password: str | None) -> str:
    """`url` with its user information replaced by the given credentials, escaped; unchanged without any."""
    if username is None and password is None:
        return url
    parts = split_user_information(url)
    user = parts.user if username is None else quote(username, safe="")
    secret = "" if password is None else ":" + quote(password, safe="")
    return f"{parts.scheme}://{user or ''}{secret}@{parts.host}{parts.rest}"


def name_of(config: SourceConfig) -> str:
    """What to call a source in an error: its address without credentials."""
    if isinstance(config, (RtspSource, HttpSource)):
        return without_credentials(config.url)
    if isinstance(config, V4l2Source):
        return config.device
    if isinstance(config, GStreamerSource):
        return without_credentials(f"pipeline {config.pipeline!r}")
    if isinstance(config, SyntheticSource):
        return "synthetic camera"
    if config.kind == "playlist":
        return f"playlist of {len(config.clips)} clips"
    return config.path


def scheme_of(url: str) -> str:
    """The scheme of a URL in lower case; empty where it has none."""
    try:
        return urlsplit(url).scheme.lower()
    except ValueError:
        return ""
