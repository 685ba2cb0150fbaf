"""Signed metadata for many devices behind one mirror: each file is fetched once and verified by every device."""

import contextlib
import threading
from collections.abc import Iterator

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.updates.trust import Fetch, FetchFailed
from edge_runtime.updates.trust.fetch import Get

FRESH_S = 1.0
"""So long a mirror answers for what may change: the timestamp, and that there is no newer root."""

_MOST = 512_000


class Mirror:
    """A `Fetch` over another one, with a memory. Safe to use from several threads.

    Args:
        source: the fleet server, as one of the devices.
        clock: monotonic time.
    """

    def __init__(self, source: Fetch, clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[bytes | FetchFailed, int]] = {}
        self.asked = self.fetched = 0

    @contextlib.contextmanager
    def conversation(self) -> Iterator[Get]:
        """One device asks."""
        yield self._get

    def _get(self, name: str, max_bytes: int) -> bytes:
        with self._lock:
            self.asked += 1
            found = self._remembered(name)
            if found is None:
                found = self._fetch(name, max_bytes)
        if isinstance(found, FetchFailed):
            raise FetchFailed(found.code, str(found), found.status)
        return found

    def _remembered(self, name: str) -> bytes | FetchFailed | None:
        known = self._known.get(name)
        if known is None:
            return None
        answer, at_ns = known
        lasts = isinstance(answer, bytes) and name != "timestamp.json"
        fresh = self._clock.monotonic_ns() - at_ns < FRESH_S * NS_PER_S
        return answer if lasts or fresh else None

    def _fetch(self, name: str, max_bytes: int) -> bytes | FetchFailed:
        self.fetched += 1
        answer: bytes | FetchFailed
        try:
            with self._source.conversation() as get:
                answer = get(name, max(max_bytes, _MOST))
        except FetchFailed as error:
            answer = error
        self._known[name] = (answer, self._clock.monotonic_ns())
        return answer
