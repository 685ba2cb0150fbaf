"""What may go when the store is too large or is tidied up: a pure decision over what is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

DEFAULT_QUOTA_BYTES: Final = 2 << 30
"""Twenty engines of a small detector, or four of a large one; a Jetson's disk has 64 GB and more."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of a stored engine before a decision.

    Attributes:
        key: its key.
        bytes: of engine and manifest.
        used: its place in the order of use; what was used last has the largest.
    """

    key: str
    bytes: int
    used: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done.

    Attributes:
        remove: keys, the one that was unused for longest first.
        kept: why each other one stays, by its key.
        short_bytes: what is missing when all that may go is gone; 0 where there is room.
    """

    remove: tuple[str, ...]
    kept: Mapping[str, str]
    short_bytes: int = 0


def to_tidy(stored: Sequence[Stored], needed: Mapping[str, str]) -> Plan:
    """Remove all that nobody needs.

    Args:
        stored: what there is.
        needed: why a key must stay, for those that must.
    """
    removable = sorted((one for one in stored if one.key not in needed), key=_age)
    return Plan(
        tuple(one.key for one in removable), {one.key: needed[one.key] for one in stored if one.key in needed}
    )


def to_fit(stored: Sequence[Stored], needed: Mapping[str, str], quota: int, new_bytes: int) -> Plan:
    """Remove as little as makes room for one more engine.

    Args:
        stored: what there is.
        needed: why a key must stay, for those that must.
        quota: bytes of all engines and manifests together.
        new_bytes: of what comes.
    """
    over = sum(one.bytes for one in stored) + new_bytes - quota
    remove = []
    for one in sorted((one for one in stored if one.key not in needed), key=_age):
        if over <= 0:
            break
        remove.append(one.key)
        over -= one.bytes
    kept = {one.key: needed.get(one.key, "there is room for it") for one in stored if one.key not in remove}
    return Plan(tuple(remove), kept, max(0, over))


def _age(one: Stored) -> tuple[int, str]:
    return one.used, one.key
