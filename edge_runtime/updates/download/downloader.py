"""Brings wanted content over HTTPS into the store, however often the road is cut.

What has come stays in a part file named by the content's digest; the next try, of this process or of the next, asks
for the rest. No file of the store is touched before the digest of the whole is right.
"""

import contextlib
import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx

from edge_runtime.clock import Clock
from edge_runtime.errors import ConfigError
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.download.part import Part, parts_in
from edge_runtime.updates.download.progress import Progress, Teller
from edge_runtime.updates.download.rules import Budget, DownloadRules
from edge_runtime.updates.download.shortcut import Shortcut
from edge_runtime.updates.download.transfer import Transfer
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.wants import Want

_CONNECT_S = 15.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where content is fetched from.

    Attributes:
        url: of the server, `https://…`; blobs lie below `/v1/updates/blobs/`.
        tls: with the device's certificate; None trusts the system's authorities.
        proxy: `http://host:port`, or None.
    """

    url: str
    tls: ssl.SSLContext | None = None
    proxy: str | None = None


class Shelf(Protocol):
    """The store, as the downloader uses it."""

    def require_space(self, more_bytes: int) -> None:
        """Return where so much may still be written.

        Raises:
            UpdateRefused: the disk has no room for it beside what is reserved.
        """
        ...

    def take(self, part: Path, want: Want) -> bool:
        """Flush a file to the disk and give it its name; False where its content is another, and it stays."""
        ...


class Downloader:
    """Fetches blobs, one call at a time.

    Args:
        parts: folder of part files, on the store's file system.
        shelf: takes what is whole.
        origin: where from; asked for each call, because certificates are renewed.
        rules: what it may cost.
        budget: the day's bytes.
        metered: whether the present link is.
        clock: monotonic time.
        rng: for jitter.
        shortcuts: tried before the network, in this order.
    """

    def __init__(
        self,
        parts: Path,
        shelf: Shelf,
        *,
        origin: Callable[[], Origin],
        rules: DownloadRules,
        budget: Budget,
        metered: Callable[[], bool],
        clock: Clock,
        rng: random.Random,
        shortcuts: Sequence[Shortcut] = (),
    ) -> None:
        self._parts, self._shelf, self._origin, self._rules = parts, shelf, origin, rules
        self._budget, self._metered, self._clock, self._rng = budget, metered, clock, rng
        self._shortcuts = tuple(shortcuts)

    def fetch(
        self,
        wants: Sequence[Want],
        *,
        told: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Bring everything that is wanted into the store; what was wanted first comes first.

        Args:
            wants: blobs that the store lacks.
            told: is given the progress, once a second at most and at the end.
            cancelled: whether to stop; asked several times a second, also from another thread.

        Raises:
            UpdateRefused: not everything came; what did stays. `again` says whether a later call may do better.
            DownloadCancelled: `cancelled` said so.
        """
        distinct = list({want.sha256: want for want in wants}.values())
        missing = [want for want in distinct if not self._take_shortcut(want)]
        call = _Call(self._shelf, missing, told, self._clock)
        call.here(parts_in(self._parts))
        self._shelf.require_space(call.left)
        with self._client() as client:
            transfer = Transfer(
                client,
                rules=self._rules,
                budget=self._budget,
                permit=lambda: self._forbid_metered(call.left),
                keep=call.keep,
                cancelled=cancelled,
                clock=self._clock,
                rng=self._rng,
            )
            with transfer.watch:
                for want in missing:
                    self._bring(transfer, call, want)

    def _bring(self, transfer: Transfer, call: "_Call", want: Want) -> None:
        with Part(self._parts, want) as part:
            whole_at_once = part.size == 0
            while True:
                call.at(want, part.size)
                transfer.complete(part, want)
                if self._shelf.take(part.path, want):
                    part.forget()
                    call.finish(want)
                    return
                part.restart()
                if whole_at_once:
                    break
                whole_at_once = True  # the beginning may have been damaged here: one more try, from nothing
            part.drop()
        raise UpdateRefused(
            UpdateCode.CONTENT_MISMATCH,
            f"what the server sends for {want.sha256[:12]}… has another digest",
        )

    def _take_shortcut(self, want: Want) -> bool:
        """Whether a shortcut brought it; each is tried once, and no failure of it matters."""
        target = self._parts / f"{want.sha256}.local"
        for shortcut in self._shortcuts:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)
                self._parts.mkdir(mode=0o700, parents=True, exist_ok=True)
                if shortcut.bring(want, target) and self._shelf.take(target, want):
                    return True
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
        return False

    def _forbid_metered(self, left: int) -> None:
        most = self._rules.metered_bytes
        if most is not None and left > most and self._metered():
            raise UpdateRefused(
                UpdateCode.METERED,
                f"{left} bytes are too many for a link that is paid by the byte ({most} are allowed)",
                again=True,
            )

    def _client(self) -> httpx.Client:
        origin = self._origin()
        try:
            return httpx.Client(
                base_url=origin.url.rstrip("/"),
                verify=True if origin.tls is None else origin.tls,
                proxy=origin.proxy,
                trust_env=False,
                follow_redirects=False,
                headers={"Accept-Encoding": "identity"},
                timeout=httpx.Timeout(self._rules.stall_s, connect=min(_CONNECT_S, self._rules.answer_s)),
                limits=httpx.Limits(max_connections=1),
            )
        except (ValueError, httpx.InvalidURL):
            raise ConfigError(
                "the fleet server's address, or the proxy's, cannot be used for downloads"
            ) from None


class _Call:
    """The books of one call of `fetch`.

    Args:
        shelf: asked now and then whether the disk still has room.
        wants: all that is to come.
        told: hears the progress.
        clock: monotonic time.
    """

    def __init__(
        self, shelf: Shelf, wants: Sequence[Want], told: Callable[[Progress], None], clock: Clock
    ) -> None:
        self._shelf, self._clock = shelf, clock
        self._sizes = {want.sha256: 0 for want in wants}
        self._total = sum(want.length for want in wants)
        self._teller = Teller(told, self._total)
        self._present = ""

    @property
    def left(self) -> int:
        """Bytes that are still to come."""
        return self._total - sum(self._sizes.values())

    def here(self, parts: dict[str, int]) -> None:
        """Parts of earlier calls."""
        for sha256 in self._sizes:
            self._sizes[sha256] = parts.get(sha256, 0)

    def at(self, want: Want, size: int) -> None:
        """A blob's turn, with so much of it here."""
        self._present = want.sha256
        self._sizes[want.sha256] = size

    def keep(self, part: Part, piece: bytes) -> None:
        """Write a piece and say so."""
        flushed = part.append(piece)
        self._sizes[self._present] = part.size
        if flushed:
            self._shelf.require_space(self.left)
        self._tell()

    def finish(self, want: Want) -> None:
        """A blob is in the store."""
        self._sizes[want.sha256] = want.length
        self._tell()

    def _tell(self) -> None:
        self._teller.tell(sum(self._sizes.values()), self._clock.monotonic_ns())
