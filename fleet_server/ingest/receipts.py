"""From answers to receipts, and how much a device may send: pure."""

from collections.abc import Iterator

from edge_runtime.protocol.delivery import MAX_RANGES, Receipt
from fleet_server.ingest.batch import Answer

_MAX_REJECTED = 256
"""Rejections in one receipt: each takes up to 280 bytes, and 512 of them would be longer than a payload may be."""

_FULL_SHARE = 0.9
"""From this fill on the queue counts as full: what is in flight already must still fit."""


def receipts(answer: Answer, credit: int, server_ms: int) -> Iterator[Receipt]:
    """An answer as receipts of bounded size.

    Args:
        answer: what a device is told.
        credit: bundles that it may have in flight.
        server_ms: the server's wall clock.
    """
    accepted, rejected = answer.accepted, answer.rejected
    while True:
        yield Receipt(
            epoch=answer.epoch,
            high=answer.high,
            accepted=accepted[:MAX_RANGES],
            rejected=rejected[:_MAX_REJECTED],
            credit=credit,
            server_ms=server_ms,
        )
        accepted, rejected = accepted[MAX_RANGES:], rejected[_MAX_REJECTED:]
        if not accepted and not rejected:
            return


def credit(waiting: int, capacity: int, senders: int, most: int) -> int:
    """Bundles that one device may have in flight.

    The free part of the queue is shared by those who send at the moment; each may have one until it is full.

    Args:
        waiting: messages in the queue.
        capacity: messages that fit.
        senders: devices that sent lately.
        most: upper bound for one device.
    """
    free = int(capacity * _FULL_SHARE) - waiting
    if free <= 0:
        return 0
    return max(1, min(most, free // max(1, senders)))
