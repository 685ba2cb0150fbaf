"""A small model proposes, a large one checks: how many tokens a check gives."""

from fractions import Fraction
from typing import NamedTuple

from edge_runtime.errors import ConfigError


class Speculation(NamedTuple):
    """What speculative decoding gives.

    Attributes:
        tokens: expected for each check of the large model; None where it is not possible.
        speed_up: against one token for each check, where the proposals cost `cost` of a check each; None likewise.
        why: the sentence where it is not possible.
    """

    tokens: Fraction | None
    speed_up: Fraction | None
    why: str


def speculate(
    acceptance: Fraction, proposed: int, cost: Fraction, *, draft_tokenizer: str, target_tokenizer: str
) -> Speculation:
    """(1 - a^(g+1)) / (1 - a) tokens for each check.

    Args:
        acceptance: a, the share of proposed tokens that are accepted, in [0, 1].
        proposed: g, tokens that are proposed before each check.
        cost: of one proposal, as a share of one check.
        draft_tokenizer: SHA-256 of the small model's vocabulary and tokenizer.
        target_tokenizer: of the large one's.

    Raises:
        ConfigError: a number is out of its range.
    """
    if not 0 <= acceptance <= 1 or proposed < 1 or cost < 0:
        raise ConfigError(
            "acceptance is from 0 to 1, proposed tokens are at least 1, and a cost is not below 0"
        )
    if draft_tokenizer != target_tokenizer:
        return Speculation(None, None, "not possible: the two models have different tokenizers")
    tokens = (
        Fraction(proposed + 1) if acceptance == 1 else (1 - acceptance ** (proposed + 1)) / (1 - acceptance)
    )
    return Speculation(tokens, tokens / (1 + proposed * cost), "")
