"""One call's conversation with the server: blob after blob, try after try, watched from outside."""

import random
import ssl
from collections.abc import Callable, Iterator
from urllib.parse import quote

import httpx

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.download.answer import BadRange, Body, Setback, judge
from edge_runtime.updates.download.pace import MinimumRate, RateLimit
from edge_runtime.updates.download.part import Part
from edge_runtime.updates.download.rules import Budget, DownloadRules, retry_wait_s
from edge_runtime.updates.download.watch import DownloadCancelled, Watch
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.wants import Want

CHUNK_BYTES = 64 * 1024
"""The most that one read brings (httpcore's), and so the most that is fetched and not kept at a cut."""

_OVERHEAD_BYTES = 512
_BLOBS, _TARGETS = "/v1/updates/blobs", "/v1/updates/targets"


class Transfer:
    """Tries until a part is complete, as long as the rules allow.

    Args:
        client: of HTTP; used for nothing else.
        rules: bounds.
        budget: pays for every byte before it is read.
        permit: called before every request; raises where the link may not be used.
        keep: called with each piece; writes it.
        cancelled: whether to stop; asked from two threads, never at the same time.
        clock: monotonic time.
        rng: for jitter.
    """

    def __init__(
        self,
        client: httpx.Client,
        *,
        rules: DownloadRules,
        budget: Budget,
        permit: Callable[[], None],
        keep: Callable[[Part, bytes], None],
        cancelled: Callable[[], bool],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client, self._rules, self._budget, self._permit = client, rules, budget, permit
        self._keep, self._cancelled, self._clock, self._rng = keep, cancelled, clock, rng
        self._limit = RateLimit(rules.rate_bytes_s)
        self._minimum = MinimumRate(rules.min_bytes_s, rules.min_window_s, rules.rate_bytes_s)
        self._ends_ns = clock.monotonic_ns() + round(rules.deadline_s * NS_PER_S)
        self._answer_ns: int | None = None
        self._in_body = False
        self._received = self._claimed = 0
        self._last = ""
        self.watch = Watch(self._look)

    def complete(self, part: Part, want: Want) -> None:
        """Bring a part to its length; its digest is for the caller to check.

        Raises:
            UpdateRefused: it will not come, or not now.
            DownloadCancelled: it is not wanted any more.
        """
        ranged, failures, slow = True, 0, 0
        while part.size < want.length:
            before = self._received
            self.watch.again()
            try:
                self._try(part, want, ranged=ranged and part.size > 0)
            except BadRange:
                ranged = False
            except Setback as setback:
                self._last = setback.text
                slow = slow + 1 if setback.code is UpdateCode.DOWNLOAD_TOO_SLOW else 0
                if slow >= self._rules.slow_tries:
                    raise UpdateRefused(setback.code, setback.text, again=True) from None
                # a try that brought a good piece was no failure, whatever ended it
                failures = 1 if self._received - before >= CHUNK_BYTES else failures + 1
                self.watch.again()
                self.watch.rest(retry_wait_s(self._rules, failures, setback.asked_s, self._rng))

    def _try(self, part: Part, want: Want, *, ranged: bool) -> None:
        self._permit()
        self.watch.go_on()
        self._claim(_OVERHEAD_BYTES)
        etag = part.etag if ranged else None
        headers = {"Range": f"bytes={part.size}-"} if ranged else {}
        if etag is not None:
            headers["If-Range"] = etag
        self._answer_ns = self._clock.monotonic_ns() + round(self._rules.answer_s * NS_PER_S)
        try:
            with self._client.stream(
                "GET",
                _path(want),
                headers=headers,
                extensions={"trace": self.watch.trace},
            ) as answer:
                self._answer_ns = None
                body = judge(
                    answer.status_code, answer.headers, want, offset=part.size, ranged=ranged, etag=etag
                )
                if body.skip == part.size:  # of a whole body: what it is called holds for all of it
                    part.remember(body.etag)
                self._read(answer.iter_raw(), body, part, want)
        except (httpx.HTTPError, httpx.StreamError, OSError, ValueError) as error:
            self.watch.go_on()  # if it was we who cut the connection, this says why
            raise Setback(UpdateCode.DOWNLOAD_FAILED, _sentence(error)) from None
        finally:
            self._answer_ns = None
            self._in_body = False

    def _read(self, pieces: Iterator[bytes], body: Body, part: Part, want: Want) -> None:
        left, skip = body.length, body.skip
        self._minimum.begin(self._received, self._clock.monotonic_ns())
        self._in_body = True
        while True:
            self.watch.go_on()
            self._claim(min(CHUNK_BYTES, left) - (self._claimed - self._received))
            piece = next(pieces, None)
            if piece is None:
                break
            self._received += len(piece)
            self._claimed = max(self._claimed, self._received)
            if len(piece) > left:
                raise UpdateRefused(
                    UpdateCode.CONTENT_MISMATCH,
                    f"the server sends more than the {want.length} bytes that were signed "
                    f"for {want.sha256[:12]}…",
                )
            left -= len(piece)
            passed = min(skip, len(piece))
            skip -= passed
            if passed < len(piece):
                self._keep(part, piece[passed:])
            self.watch.rest(self._limit.rest_s(len(piece), self._clock.monotonic_ns()))
        if left:
            raise Setback(UpdateCode.DOWNLOAD_FAILED, "the server ended its answer early")

    def _claim(self, count: int) -> None:
        if count > 0:
            if not self._budget.claim(count):
                raise UpdateRefused(
                    UpdateCode.BYTE_BUDGET, "the bytes that a day may cost are spent", again=True
                )
            self._claimed += count

    def _look(self) -> Exception | None:
        now = self._clock.monotonic_ns()
        if self._cancelled():
            return DownloadCancelled("the download was called off")
        if now >= self._ends_ns:
            why = f": {self._last}" if self._last else ""
            return UpdateRefused(
                UpdateCode.DOWNLOAD_DEADLINE,
                f"not everything came within {self._rules.deadline_s:.0f} s{why}",
                again=True,
            )
        if self._answer_ns is not None and now >= self._answer_ns:
            return Setback(
                UpdateCode.DOWNLOAD_FAILED, f"the server gave no answer within {self._rules.answer_s:.0f} s"
            )
        if self._in_body and self._minimum.is_too_slow(self._received, now):
            return Setback(
                UpdateCode.DOWNLOAD_TOO_SLOW,
                f"less than {self._rules.min_bytes_s} bytes a second came "
                f"for {self._rules.min_window_s:.0f} s",
            )
        return None


def _path(want: Want) -> str:
    """Where content is asked for; a target has its digest before its name, as in any TUF repository."""
    if want.target is None:
        return f"{_BLOBS}/{want.sha256}"
    folder, _, name = want.target.rpartition("/")
    return f"{_TARGETS}/{quote(folder)}/{want.sha256}.{quote(name)}"


def _sentence(error: BaseException) -> str:
    """Why a connection failed, in the system's own words where it has some."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"the server is not the one that was expected: {found.verify_message}"
        if isinstance(found, OSError) and found.strerror:
            return f"the connection failed: {found.strerror}"
        found = found.__cause__ or found.__context__
    if isinstance(error, httpx.TimeoutException):
        return "the connection was silent for too long"
    return "the connection was cut"
