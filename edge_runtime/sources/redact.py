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
from edge_runtime.telemetry import MASK, redact, register_secret

_ESCAPED_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*%3A%2F%2F)[^\s\"'<>]*?%40", re.IGNORECASE)
_PIPELINE_SECRET = re.compile(
    r"(?<![?&\w-])(?P<key>[\w-]*(?:user-pw|user-id|passw(?:or)?d|proxy-pw|proxy-id|secret|token)\s*=\s*)"
    r"(?:\(\w+\)\s*)?(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s!]+)",
    re.IGNORECASE,
)
_MIN_USER = 4  # shorter user names would blank out ordinary words
_COMMON_USERS = frozenset({"admin", "root", "user", "guest", "camera", "viewer", "service"})


def without_credentials(text: str) -> str:
    """`text` as it may be shown, also where it holds a URL escaped inside another URL."""
    text = _ESCAPED_URL.sub(rf"\g<scheme>{MASK}%40", text)
    text = _PIPELINE_SECRET.sub(rf"\g<key>{MASK}", text)
    return redact(text)


def register_credentials(config: SourceConfig) -> None:
    """Tell the registry every secret that a source's configuration holds, so that no text shows it again."""
    if isinstance(config, (RtspSource, HttpSource)):
        user, password = split_user(config.url)
        for secret in (password, config.password):
            if secret:
                register_secret(secret)
                register_secret(unquote(secret))
        for name in (user, config.username):
            if name and len(name) >= _MIN_USER and unquote(name).lower() not in _COMMON_USERS:
                register_secret(unquote(name))
    elif isinstance(config, GStreamerSource):
        for match in _PIPELINE_SECRET.finditer(config.pipeline):
            register_secret(match["value"].strip("\"'"))
        for url in re.findall(r"[a-z][a-z0-9+.-]*://[^\s\"']+", config.pipeline, re.IGNORECASE):
            password = split_user(url)[1]
            if password:
                register_secret(unquote(password))


def split_user(url: str) -> tuple[str | None, str | None]:
    """User name and password of a URL as they are written in it, each None where it has none."""
    _, separator, rest = url.partition("://")
    if not separator:
        return None, None
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    info, at, _ = authority.rpartition("@")
    if not at:
        return None, None
    user, colon, password = info.partition(":")
    return user, password if colon else None


def with_user(url: str, username: str | None, password: str | None) -> str:
    """`url` with its user information replaced by the given credentials, escaped; unchanged without any."""
    if username is None and password is None:
        return url
    scheme, separator, rest = url.partition("://")
    cut = re.search(r"[/?#]", rest)
    authority, path = (rest, "") if cut is None else (rest[: cut.start()], rest[cut.start() :])
    host = authority.rpartition("@")[2]
    user = split_user(url)[0] if username is None else quote(username, safe="")
    secret = "" if password is None else ":" + quote(password, safe="")
    return f"{scheme}{separator}{user or ''}{secret}@{host}{path}"


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
