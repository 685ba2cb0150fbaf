"""What an HTTP answer means for a download: which bytes of its body are ours, or why none are. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.wants import Want

_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")
_UNSATISFIED = re.compile(r"bytes \*/([0-9]{1,15})")
_LENGTH = re.compile(r"[0-9]{1,15}")
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]{1,128}"')
_PASSING = frozenset({408, 425, 429})
"""Statuses below 500 that say "later"."""


class Setback(Exception):
    """A try that failed and may be repeated.

    Attributes:
        code, text: of the refusal, should this have been the last try.
        asked_s: how long the server wants to be left alone; None where it did not say.
    """

    def __init__(self, code: UpdateCode, text: str, asked_s: float | None = None) -> None:
        super().__init__(text)
        self.code, self.text, self.asked_s = code, text, asked_s


class BadRange(Exception):
    """The server cannot be spoken to about parts: ask for the whole, which needs no such understanding."""


@dataclass(frozen=True, slots=True)
class Body:
    """The body that follows an answer's head.

    Attributes:
        skip: bytes at its beginning that are here already.
        length: bytes that it may have in all.
        etag: a strong one, to ask for the rest with; None where there is none.
    """

    skip: int
    length: int
    etag: str | None


def judge(
    status: int, headers: Mapping[str, str], want: Want, *, offset: int, ranged: bool, etag: str | None
) -> Body:
    """What to do with an answer.

    Args:
        status: of HTTP.
        headers: by lower-case name, or with a mapping that does not care about case.
        want: what was asked for.
        offset: bytes that are here.
        ranged: whether only the rest was asked for.
        etag: that was sent along as `If-Range`.

    Raises:
        UpdateRefused: it will not get better by asking again.
        Setback: it may.
        BadRange: the answer to a request for a part cannot be used.
    """
    if status not in (200, 206):
        _refuse(status, headers, want, ranged=ranged)
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        # never unpacked: a kilobyte can hold a gigabyte, and the digest is of the plain content
        raise _failed(f"the server sends it compressed ({coding[:20]!r}), which was not asked for")
    answered = headers.get("etag", "")
    strong = answered if _STRONG_ETAG.fullmatch(answered) else None
    length = _content_length(headers)
    if status == 200:
        if length is not None and length != want.length:
            raise _other_length(length, want)
        return Body(offset, want.length, strong)
    if not ranged:
        raise _failed("the server answers with a part where the whole was asked for")
    first, last, total = _content_range(headers)
    if total != want.length:
        raise _other_length(total, want)
    if (first, last) != (offset, want.length - 1) or length not in (None, want.length - offset):
        raise BadRange
    if etag is not None and strong not in (None, etag):
        raise BadRange
    return Body(0, want.length - offset, strong)


def _refuse(status: int, headers: Mapping[str, str], want: Want, *, ranged: bool) -> None:
    if status in (404, 410):
        raise UpdateRefused(
            UpdateCode.DOWNLOAD_NOT_FOUND, f"the server has no content {want.sha256[:12]}… ({status})"
        )
    if status == 416 and ranged:
        found = _UNSATISFIED.fullmatch(headers.get("content-range", "").strip())
        if found and int(found[1]) != want.length:
            raise _other_length(int(found[1]), want)
        raise BadRange
    if status in _PASSING or 500 <= status <= 599:
        text = f"the server cannot give it now ({status})"
        raise Setback(UpdateCode.DOWNLOAD_FAILED, text, retry_after_s(headers))
    if 300 <= status <= 399:
        raise _failed(f"the server points elsewhere ({status}), and redirects are not followed")
    raise _failed(f"the server answers with {status}")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` asks for.

    A date is taken relative to the answer's own `Date`: this device's clock may be wrong by decades.
    """
    text = headers.get("retry-after", "").strip()
    if _LENGTH.fullmatch(text):
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        sent = parsedate_to_datetime(headers.get("date", ""))
        return max(0.0, (until - sent).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _content_range(headers: Mapping[str, str]) -> tuple[int, int, int]:
    found = _RANGE.fullmatch(headers.get("content-range", "").strip())
    if found is None:
        raise BadRange
    return int(found[1]), int(found[2]), int(found[3])


def _content_length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length", "").strip()
    return int(text) if _LENGTH.fullmatch(text) else None


def _failed(text: str) -> UpdateRefused:
    return UpdateRefused(UpdateCode.DOWNLOAD_FAILED, text)


def _other_length(found: int, want: Want) -> UpdateRefused:
    return UpdateRefused(
        UpdateCode.CONTENT_MISMATCH,
        f"the server's content {want.sha256[:12]}… has {found} bytes, and {want.length} were signed",
    )
