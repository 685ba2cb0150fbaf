"""Credentials never reach a log, an error or a `repr`: one place that knows what they look like.

Two nets: patterns (user information and tokens in URLs, GStreamer's `user-pw=`, Authorization headers) and
the values that the configuration resolved from `${env:…}` and `${file:…}` or read as a password. Where the
two cannot decide they hide too much rather than too little: everything before the last `@` of a URL goes,
because a password may itself hold `@`, `/` or `#` unescaped.
"""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

MASK = "***"

_MIN_SECRET = 4  # a shorter value would blank out ordinary words wherever it occurs

_URL_USER = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s\"'<>]*@", re.IGNORECASE)
_QUERY = re.compile(
    r"(?P<key>[?&;](?:user(?:name)?|usr|login|pass(?:word|wd)?|pwd|[a-z_-]*token|auth|api_?key|key|secret"
    r"|sig(?:nature)?|session(?:id)?)=)[^&;\s\"'<>]+",
    re.IGNORECASE,
)
# In a query a value ends at its separator; elsewhere & and ; may belong to a password.
_ASSIGNED = re.compile(
    r"(?P<query>[?&;])?(?P<key>[\w-]*(?:user-(?:pw|id)|proxy-(?:pw|id)|passw(?:or)?d|secret|token)\s*=\s*)"
    r"(?:\(\w+\)\s*)?(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?(query)[^\s!&;]+|[^\s!]+))",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(?P<key>\b(?:Basic|Bearer|Digest)\s+)[A-Za-z0-9+/=._~-]{6,}(?:,?\s*\w+=\"[^\"]*\")*")


@dataclass(frozen=True, slots=True)
class SplitUrl:
    """A URL in its parts, each as it is written there (RFC 3986, section 3.2).

    Attributes:
        scheme: what stands before `://`; empty where there is none, and then only `rest` holds anything.
        user: before the first colon of the user information; None without user information.
        password: after that colon; None without one.
        host: with its port.
        rest: path, query and fragment.
    """

    scheme: str
    user: str | None
    password: str | None = field(repr=False)
    host: str
    rest: str = field(repr=False)


def split_user_information(url: str) -> SplitUrl:
    """Take the user information out of a URL.

    It ends at the last `@` before the first `/`, `?` or `#`: that is where whoever connects looks for the host.
    A password with one of these three unescaped is therefore none, and its URL names a wrong host.
    """
    scheme, separator, after = url.partition("://")
    if not separator:
        return SplitUrl("", None, None, "", url)
    end = re.search(r"[/?#]|$", after)
    cut = end.start() if end else len(after)
    information, at, host = after[:cut].rpartition("@")
    user, colon, password = information.partition(":")
    return SplitUrl(scheme, user if at else None, password if colon else None, host, after[cut:])


def assigned_secrets(text: str) -> Iterator[str]:
    """The values of properties such as `user-pw=` in a text, without their quotes."""
    for match in _ASSIGNED.finditer(text):
        yield match["value"].strip("\"'")


def redact_patterns(text: str) -> str:
    """`text` without what looks like credentials; depends on nothing but `text`."""
    if "://" in text:
        text = _URL_USER.sub(rf"\g<scheme>{MASK}@", text)
    if "=" in text:
        text = _QUERY.sub(rf"\g<key>{MASK}", text)
        text = _ASSIGNED.sub(rf"\g<query>\g<key>{MASK}", text)
    return _HEADER.sub(rf"\g<key>{MASK}", text)


class SecretRegistry:
    """Values that must never be shown, in the spellings in which they may come back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exact: frozenset[str] = frozenset()
        self._spellings: tuple[str, ...] = ()

    def add(self, value: str) -> None:
        """Never show `value` again; an empty one is ignored."""
        value = value.strip()
        if not value:
            return
        spellings = {value, quote(value, safe=""), quote(value), unquote(value)}
        with self._lock:
            self._exact |= {value}
            long_enough = {text for text in spellings if len(text) >= _MIN_SECRET}
            # Longest first: a secret that contains another must not leave its tail behind.
            self._spellings = tuple(
                sorted(long_enough | set(self._spellings), key=lambda text: (-len(text), text))
            )

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._exact, self._spellings = frozenset(), ()

    def redact(self, text: str) -> str:
        """`text` without credentials and without registered values."""
        if text in self._exact:
            return MASK
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASK)
        return redact_patterns(text)


SECRETS = SecretRegistry()
"""What this process must not show; the configuration fills it."""


def register_secret(value: str) -> None:
    """Never show `value` in a log, an error or a metric of this process."""
    SECRETS.add(value)


def redact(text: str) -> str:
    """`text` as it may be shown: without credentials and registered secrets."""
    return SECRETS.redact(text)
