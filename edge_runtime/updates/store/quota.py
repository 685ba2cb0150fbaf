"""What may go when the store needs room: a pure decision over what is there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """A release that is in the store.

    Attributes:
        sha256: of its bundle.
        blobs: digests of its content.
        used: its place in the order of use; what was used last has the largest.
    """

    sha256: str
    blobs: frozenset[str]
    used: int


@dataclass(frozen=True, slots=True)
class Eviction:
    """What goes.

    Attributes:
        releases: the one that was unused for longest first.
        blobs: content that nothing needs then.
        freed: bytes of that content.
    """

    releases: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    freed: int = 0


def to_evict(
    held: Sequence[Held],
    sizes: Mapping[str, int],
    *,
    needed: Collection[str],
    wanted: Collection[str],
    short: int | None,
) -> Eviction:
    """Remove as little as frees so many bytes: content of no release first, then releases, the oldest first.

    Args:
        held: releases in the store.
        sizes: bytes of each blob in the store.
        needed: releases that run, that a slot may go back to, or that are assigned: they stay.
        wanted: blobs that a release which is not yet put together needs: they stay.
        short: bytes to be freed; None removes all that may go.
    """
    staying = sorted(
        (one for one in held if one.sha256 not in needed), key=lambda one: (one.used, one.sha256)
    )
    kept = {one.sha256: one.blobs for one in held}
    gone: list[str] = []
    while True:
        used = frozenset(wanted).union(*kept.values())
        loose = tuple(sorted(blob for blob in sizes if blob not in used))
        freed = sum(sizes[blob] for blob in loose)
        if not staying or (short is not None and freed >= short):
            return Eviction(tuple(gone), loose, freed)
        oldest = staying.pop(0)
        gone.append(oldest.sha256)
        del kept[oldest.sha256]
