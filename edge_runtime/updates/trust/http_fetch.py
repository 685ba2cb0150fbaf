"""Metadata over HTTPS, from a server that may be slow, endless or hostile.

httpx bounds single reads only, and tuf's own fetcher lets exceptions of its HTTP library out. Here each file is
bounded in length and in pace, the whole conversation has one end, and only `FetchFailed` comes out.
"""

import contextlib
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

import httpx

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.identity.deadline import Deadline
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.trust.fetch import FetchFailed, Get

_PATH = "/v1/updates/metadata/"
_REFUSAL_BYTES = 8192
_FAILURES = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, ValueError, RuntimeError)
"""What httpx and what lies below it raise, and a socket that was cut in the middle of whatever it did."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long metadata may take.

    Attributes:
        gap_s: between two pieces, and for making the connection.
        grace_s: in which a file may come slower than at the least rate.
        bytes_per_s: the least rate of a file, over all of the time since it was asked for.
        total_s: for one refresh, however many files it has.
    """

    gap_s: float = 20.0
    grace_s: float = 30.0
    bytes_per_s: float = 200.0
    total_s: float = 300.0


class HttpFetch:
    """The fleet server's metadata.

    Args:
        url: of the server, `https://…`.
        tls: makes the context for one conversation: the device's certificate changes when it is renewed.
        clock: measures.
        proxy: `http://host:port` of a proxy, or None.
        limits: of a conversation.
    """

    def __init__(
        self,
        url: str,
        tls: Callable[[], ssl.SSLContext],
        *,
        clock: Clock,
        proxy: str | None = None,
        limits: FetchLimits | None = None,
    ) -> None:
        self._url, self._tls, self._clock, self._proxy = url.rstrip("/"), tls, clock, proxy
        self._limits = limits or FetchLimits()

    @contextlib.contextmanager
    def conversation(self) -> Iterator[Get]:
        """One connection, and one end for all that is asked over it.

        Raises:
            FetchFailed: there is no identity, or the proxy's address cannot be used.
        """
        deadline = Deadline(self._limits.total_s, self._clock)
        try:
            client = httpx.Client(
                verify=self._tls(),
                proxy=self._proxy,
                trust_env=False,
                timeout=httpx.Timeout(self._limits.gap_s),
                limits=httpx.Limits(max_connections=1),
                headers={"accept-encoding": "identity"},
            )
        except EdgeRuntimeError as error:
            raise FetchFailed(UpdateCode.METADATA_UNAVAILABLE, str(error)) from None
        except ValueError:
            raise FetchFailed(
                UpdateCode.METADATA_UNAVAILABLE,
                "the proxy's address cannot be used: see delivery.uplink.proxy",
            ) from None
        with client, deadline:
            yield lambda name, max_bytes: self._get(client, deadline, name, max_bytes)

    def _get(self, client: httpx.Client, deadline: Deadline, name: str, max_bytes: int) -> bytes:
        if deadline.is_over:
            raise self._too_long(name)
        since_ns = self._clock.monotonic_ns()
        try:
            with client.stream(
                "GET", f"{self._url}{_PATH}{quote(name, safe='')}", extensions={"trace": deadline.trace}
            ) as answer:
                if answer.status_code != 200:
                    # read, so that the connection stays: each refresh ends with a root that is not there
                    with contextlib.suppress(FetchFailed):
                        self._read(answer, name, _REFUSAL_BYTES, since_ns)
                    raise _refused(name, answer.status_code)
                return self._read(answer, name, max_bytes, since_ns)
        except _FAILURES as error:
            if deadline.is_over:
                raise self._too_long(name) from None
            raise _failed(name, error) from None

    def _read(self, answer: httpx.Response, name: str, max_bytes: int, since_ns: int) -> bytes:
        data = bytearray()
        # as it comes: what is packed would be unpacked before its length is looked at
        for piece in answer.iter_raw():
            data += piece
            if len(data) > max_bytes:
                raise FetchFailed(
                    UpdateCode.METADATA_INVALID, f"{name} is longer than {max_bytes} bytes, and goes on"
                )
            took_s = (self._clock.monotonic_ns() - since_ns) / NS_PER_S
            if took_s > self._limits.grace_s and len(data) < took_s * self._limits.bytes_per_s:
                raise FetchFailed(
                    UpdateCode.DOWNLOAD_TOO_SLOW, f"{name} came at {len(data) / took_s:.0f} bytes a second"
                )
        return bytes(data)

    def _too_long(self, name: str) -> FetchFailed:
        return FetchFailed(
            UpdateCode.DOWNLOAD_DEADLINE, f"{name} had not come whole after {self._limits.total_s:g} s"
        )


def _refused(name: str, status: int) -> FetchFailed:
    said = {
        401: "does not know this device",
        403: "does not let this device have it",
        404: "has no such file",
    }.get(status, "cannot answer now" if status >= 500 or status == 429 else "answered with something else")
    return FetchFailed(
        UpdateCode.METADATA_UNAVAILABLE, f"{name}: the fleet server {said} ({status})", status=status
    )


def _failed(name: str, error: BaseException) -> FetchFailed:
    if isinstance(error, httpx.TimeoutException):
        return FetchFailed(UpdateCode.METADATA_UNAVAILABLE, f"{name}: the fleet server does not answer")
    found: BaseException | None = error
    while found is not None:
        said = getattr(found, "verify_message", "") if isinstance(found, ssl.SSLError) else ""
        if "not yet valid" in said or "expired" in said:
            return FetchFailed(
                UpdateCode.CLOCK,
                f"the fleet server's certificate is not valid by this device's clock ({said}): set the clock",
            )
        if said:
            return FetchFailed(
                UpdateCode.METADATA_UNAVAILABLE, f"who answered is not the fleet server: {said}"
            )
        if isinstance(found, OSError) and found.strerror and not isinstance(found, ssl.SSLError):
            return FetchFailed(
                UpdateCode.METADATA_UNAVAILABLE,
                f"{name}: the fleet server cannot be reached: {found.strerror}",
            )
        found = found.__cause__ or found.__context__
    return FetchFailed(
        UpdateCode.METADATA_UNAVAILABLE, f"{name}: the connection was lost ({type(error).__name__})"
    )
