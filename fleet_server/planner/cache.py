"""What attention keeps of the tokens before: it grows with every one of them, unless the architecture bounds it."""

from fractions import Fraction
from typing import NamedTuple

from edge_runtime.errors import ConfigError


class KeptCache(NamedTuple):
    """Keys and values that a model keeps.

    Attributes:
        layers: with attention.
        kv_heads: heads of keys and values; fewer than of queries where these are grouped.
        head_dim: numbers of a head.
        bits: of a number; less than 16 where the cache is quantised.
        tokens: that are kept for a sequence.
        sequences: at the same time.
        window: tokens that a sliding window keeps at most; None without one.
    """

    layers: int
    kv_heads: int
    head_dim: int
    bits: int
    tokens: int
    sequences: int = 1
    window: int | None = None


def cache_bytes(kept: KeptCache) -> Fraction:
    """2 (keys and values) x layers x heads x numbers of a head x bytes of a number x tokens x sequences.

    Raises:
        ConfigError: a number is not above 0.
    """
    numbers = (kept.layers, kept.kv_heads, kept.head_dim, kept.bits, kept.tokens, kept.sequences)
    if min(numbers) < 1 or (kept.window is not None and kept.window < 1):
        raise ConfigError("layers, heads, numbers, bits, tokens, sequences and the window have to be above 0")
    tokens = kept.tokens if kept.window is None else min(kept.tokens, kept.window)
    return Fraction(2 * kept.layers * kept.kv_heads * kept.head_dim * kept.bits, 8) * tokens * kept.sequences
