"""A device that downloads: the real store and the real downloader, with rules that a test can wait for."""

import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edge_runtime.clock import SystemClock
from edge_runtime.updates.download import (
    Budget,
    Downloader,
    DownloadRules,
    Origin,
    Progress,
    Shortcut,
    Want,
)
from edge_runtime.updates.store import ReleaseStore

QUICK = DownloadRules(
    first_wait_s=0.01,
    longest_wait_s=0.05,
    answer_s=5.0,
    stall_s=5.0,
    deadline_s=60.0,
    min_bytes_s=0,
    metered_bytes=None,
)
"""Waits of hundredths of a second, and nothing else that ends a download of a healthy server."""


class Unbounded:
    """A link that costs nothing by the byte."""

    def claim(self, count: int) -> bool:
        """Always."""
        return True


class Device:
    """One device's folder of updates and its road to a server.

    Args:
        root: `STATE/updates`.
        url: of the server.
        tls: with the device's certificate.
        rules: what a test wants to be otherwise than in `QUICK`, by name.
    """

    def __init__(self, root: Path, url: str, tls: ssl.SSLContext | None, **rules: object) -> None:
        self.store = ReleaseStore(root, reserve_bytes=1 << 20)
        self.url, self.tls = url, tls
        self.rules = replace(QUICK, **rules)  # type: ignore[arg-type]
        self.budget: Budget = Unbounded()
        self.metered = False
        self.shortcuts: Sequence[Shortcut] = ()
        self.cancelled: Callable[[], bool] = lambda: False
        self.progress: list[Progress] = []

    def fetch(self, *wants: Want) -> None:
        """As the product does."""
        self.downloader().fetch(wants, told=self.progress.append, cancelled=self.cancelled)

    def downloader(self) -> Downloader:
        """A new one, as in a new process."""
        return Downloader(
            self.store.places.parts,
            self.store,
            origin=lambda: Origin(self.url, self.tls),
            rules=self.rules,
            budget=self.budget,
            metered=lambda: self.metered,
            clock=SystemClock(),
            rng=random.Random(7),
            shortcuts=self.shortcuts,
        )

    def blob(self, want: Want) -> bytes | None:
        """What the store has under a digest; None where it has nothing."""
        path = self.store.places.blob(want.sha256)
        return path.read_bytes() if path.exists() else None

    def part(self, want: Want) -> int:
        """Bytes that are in the part file; -1 where there is none."""
        path = self.store.places.parts / f"{want.sha256}.part"
        return path.stat().st_size if path.exists() else -1


class Counted:
    """A budget that counts, and ends where a test says.

    Attributes:
        claimed: bytes.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.claimed = 0
        self._limit = limit

    def claim(self, count: int) -> bool:
        if self._limit is not None and self.claimed + count > self._limit:
            return False
        self.claimed += count
        return True


def want_of(sha256: str, data: bytes) -> Want:
    """What a signed bundle says of content."""
    return Want(sha256, len(data))
