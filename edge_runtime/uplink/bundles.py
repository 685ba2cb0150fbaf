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
    BundleItem,
    EventBundle,
    Receipt,
)
from edge_runtime.protocol.topics import Channel, events_channel
from edge_runtime.protocol.wire import MAX_PAYLOAD_BYTES, WireError

CRITICAL = 3


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


def by_urgency(entry: Leased) -> tuple[int, int]:
    """Sorts severest first, then oldest."""
    return (-entry.item.severity, entry.item.seq)


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
    entries: list[Leased], device: str, epoch: str, now_ns: int, max_payload: int = MAX_PAYLOAD_BYTES
) -> Parcel | None:
    """The bundle of these events, or of as many of them as fit into `max_payload`.

    Returns:
        None where not even the first fits.
    """
    while entries:
        bundle = EventBundle(
            device=device,
            epoch=epoch,
            items=tuple(
                BundleItem(
                    key=entry.item.key,
                    seq=entry.item.seq,
                    left_ms=entry.left_ms(now_ns),
                    deadline_ms=entry.item.deadline_ms,
                    body=entry.item.body,
                )
                for entry in entries
            ),
        )
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


def _encoded(bundle: EventBundle) -> bytes | None:
    try:
        return bundle.encode()
    except WireError:
        return None


def settled_by(receipt: Receipt, known: set[int]) -> set[int]:
    """Which of these sequence numbers a receipt answers, refusals included."""
    ranges = sorted(receipt.accepted)
    firsts = [first for first, _ in ranges]
    lasts = list(accumulate((last for _, last in ranges), max))  # ranges may overlap

    def accepted(seq: int) -> bool:
        place = bisect_right(firsts, seq) - 1
        return place >= 0 and seq <= lasts[place]

    settled = {seq for seq in known if seq <= receipt.high or accepted(seq)}
    return settled | ({rejection.seq for rejection in receipt.rejected} & known)
