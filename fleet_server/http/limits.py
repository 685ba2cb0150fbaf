"""How much one address or token may ask: token buckets, bounded in number, on the monotonic clock. Pure."""

import ipaddress
import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit.

    Attributes:
        per_s: requests a second in the long run.
        burst: requests at once after a pause.
    """

    per_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of the HTTP API.

    Attributes:
        address: every request of one address (IPv6: one /64).
        token: requests with one operator's token.
        failures: requests with a wrong token or certificate, of one address; those beyond get 429, not 401.
        enrolment: enrolments and renewals of one address; a production line is behind one address.
        device: requests of one device for evidence and updates.
        body_bytes: of a request that is neither of the two below.
        batch_bytes: of an invitation with a list of serial numbers, or of a rollout's plan with values for devices.
        proposal_bytes: of signed metadata that is announced or published.
        chunk_bytes: of one PATCH of evidence, or of a file of a release.
        request_s: a request is answered or given up within this.
        body_s: a request's body has arrived within this.
        chunk_s: the same for one PATCH of evidence.
        download_s: a device has a file of a release within this, or comes back for the rest of it.
        streams: live streams of events at one time.
        token_streams: of them, those with one operator's token.
        send_s: a reader that takes nothing for so long is let go.
        stream_s: a live stream ends after this; its reader comes back with `Last-Event-ID`.
    """

    address: Rate = Rate(200.0, 400)
    token: Rate = Rate(50.0, 200)
    failures: Rate = Rate(0.5, 20)
    enrolment: Rate = Rate(5.0, 50)
    device: Rate = Rate(50.0, 200)
    body_bytes: int = 64 * 1024
    batch_bytes: int = 1024 * 1024
    proposal_bytes: int = 24 * 1024 * 1024
    chunk_bytes: int = 8 * 1024 * 1024
    request_s: float = 30.0
    body_s: float = 10.0
    chunk_s: float = 120.0
    download_s: float = 3600.0
    streams: int = 64
    token_streams: int = 16
    send_s: float = 30.0
    stream_s: float = 3600.0


class Buckets:
    """One bucket for each name, the least recently used forgotten first; thread-safe.

    Args:
        rate: of each bucket.
        most: buckets kept at once.
    """

    def __init__(self, rate: Rate, most: int = 10_000) -> None:
        self._rate, self._most = rate, most
        self._levels: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str, now_ns: int) -> int:
        """Take one from a bucket.

        Returns:
            0 when there was one, or the whole seconds after which there will be.
        """
        with self._lock:
            level, then = self._levels.pop(name, (float(self._rate.burst), now_ns))
            level = min(self._rate.burst, level + (now_ns - then) / NS_PER_S * self._rate.per_s)
            wait = 0 if level >= 1 else max(1, math.ceil((1 - level) / self._rate.per_s))
            self._levels[name] = (level if wait else level - 1, now_ns)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)
            return wait

    def __len__(self) -> int:
        return len(self._levels)


def address_name(host: str | None) -> str:
    """The name of an address's bucket: an IPv6 host has a whole /64 to itself."""
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return host or "local"
    if address.version == 6:
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
