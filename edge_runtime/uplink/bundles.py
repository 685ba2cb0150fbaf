"""Bundles: which leased events go together, and the bytes they become. Pure."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from edge_runtime.clock import NS_PER_MS
from edge_runtime.outbox import QueuedItem
from edge_runtime.protocol.delivery import (
    MAX_BUNDLE_BYTES,
    MAX_BUNDLE_ITEMS,
    EventBundle,
    Receipt,
)
from edge_runtime.protocol.topics import Channel, events_channel
from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES, WireError

CRITICAL = 3

_CLOCKS_AGREE_MS = 2000
"""A receipt is that old at most, or our clock is another than the server's."""


@dataclass(slots=True)
class Leased:
    """An event that the outbox lent us.

    Attributes:
        leased_ns: monotonic time of the lease; what is left of its life is counted from there.
        due_ns: not to be sent before.
        unreceipted: tries of this process that no receipt answered.
    """

    item: QueuedItem
    leased_ns: int
    due_ns: int
    unreceipted: int = 0

    @property
    def tries(self) -> int:
        """Tries altogether that did not settle it."""
        return self.item.tries + self.unreceipted

    def left_ms(self, now_ns: int) -> int:
        """What is left of its life."""
        return max(0, self.item.left_ms - (now_ns - self.leased_ns) // NS_PER_MS)


@dataclass(frozen=True, slots=True)
class Parcel:
    """One bundle, ready to be published.

    Attributes:
        entries: what is in it, severest first.
        channel: where it goes.
        payload: the encoded `EventBundle`.
        left_ms: after which no event in it is worth delivering.
    """

    entries: tuple[Leased, ...]
    channel: Channel
    payload: bytes
    left_ms: int

    @property
    def critical(self) -> bool:
        """Whether an event of the top severity is in it."""
        return self.entries[0].item.severity >= CRITICAL


def by_urgency(entry: Leased) -> tuple[int, int, int]:
    """Sorts severest first, then the nearest deadline, then oldest: as the outbox hands out."""
    item = entry.item
    return (-item.severity, entry.leased_ns // NS_PER_MS + item.left_ms, item.seq)


def choose(entries: Iterable[Leased], alone_after: int, max_bytes: int = MAX_BUNDLE_BYTES) -> list[Leased]:
    """The events of the next bundle.

    Args:
        entries: candidates, in any order.
        alone_after: those that were tried so often go alone.
        max_bytes: of all bodies together; one body alone may have more.
    """
    chosen: list[Leased] = []
    size = 0
    for entry in sorted(entries, key=by_urgency):
        body = len(entry.item.body)
        if entry.tries >= alone_after:
            if not chosen:
                return [entry]
            continue
        if len(chosen) == MAX_BUNDLE_ITEMS or (chosen and size + body > max_bytes):
            break
        chosen.append(entry)
        size += body
    return chosen


def pack(
    entries: list[Leased],
    device: str,
    epoch: str,
    now_ns: int,
    *,
    max_payload: int = MAX_PAYLOAD_BYTES,
    server_ms: int | None = None,
) -> Parcel | None:
    """The bundle of these events, or of as many of them as fit into `max_payload`.

    Args:
        entries: candidates, severest first.
        device: whose they are.
        epoch: of its outbox.
        now_ns: monotonic time.
        max_payload: bytes.
        server_ms: the server's wall clock now, as its receipts tell it; None where it is not known yet.

    Returns:
        None where not even the first fits.
    """
    while entries:
        items = [
            {
                "key": entry.item.key,
                "seq": entry.item.seq,
                "left_ms": entry.left_ms(now_ns),
                "deadline_ms": _deadline_ms(entry, now_ns, server_ms),
                "body": entry.item.body,
            }
            for entry in entries
        ]
        # in one call: a record of its own for every item takes twice as long
        bundle = EventBundle.model_validate({"device": device, "epoch": epoch, "items": items})
        payload = _encoded(bundle)
        if payload is not None and len(payload) <= max_payload:
            return Parcel(
                tuple(entries),
                events_channel(entries[0].item.severity),
                payload,
                max(item.left_ms for item in bundle.items),
            )
        entries = entries[: len(entries) // 2]
    return None


def _deadline_ms(entry: Leased, now_ns: int, server_ms: int | None) -> int | None:
    """The wall label of its end, as the server's clock would say it where ours contradicts it.

    The server takes nothing after the label: a synchronised clock of ours that stepped back by an hour would have
    it refuse every event that lives for less.
    """
    ours = entry.item.deadline_ms
    if ours is None or server_ms is None:
        return ours
    theirs = server_ms + entry.left_ms(now_ns)
    return ours if abs(ours - theirs) <= _CLOCKS_AGREE_MS else theirs


def _encoded(bundle: EventBundle) -> bytes | None:
    try:
        return bundle.encode()
    except WireError:
        return None


class Answered:
    """Which sequence numbers a receipt answers, refusals included.

    Args:
        receipt: the server's word.
    """

    def __init__(self, receipt: Receipt) -> None:
        self._high = receipt.high
        ranges = sorted(receipt.accepted)
        self._firsts = [first for first, _ in ranges]
        self._lasts = list(accumulate((last for _, last in ranges), max))  # ranges may overlap
        self._rejected = frozenset(rejection.seq for rejection in receipt.rejected)

    def __contains__(self, seq: int) -> bool:
        return seq <= self._high or self._reach(seq) >= seq or seq in self._rejected

    def _reach(self, seq: int) -> int:
        """The highest end of the accepted ranges that begin at or before `seq`; 0 without one."""
        place = bisect_right(self._firsts, seq)
        return self._lasts[place - 1] if place else 0

    def among(self, seqs: set[int]) -> set[int]:
        """Those of `seqs`, which are not empty, that it answers."""
        lowest, highest = min(seqs), max(seqs)
        if highest <= self._high or self._reach(lowest) >= highest:
            return seqs
        if lowest > self._high and self._reach(highest) < lowest and not self._rejected:
            return set()
        return {seq for seq in seqs if seq in self}
