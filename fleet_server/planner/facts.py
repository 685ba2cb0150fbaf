"""The data file of the planner: claims with their sources, and the limits that its rules go by."""

import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from fleet_server.planner.quantity import PER_TIME, TIME, TOKEN_RATE, count, quantity

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same parser under its older name
    import tomli as tomllib


class Claim(NamedTuple):
    """What somebody published.

    Attributes:
        key: of it.
        text: the claim.
        source: where it stands.
    """

    key: str
    text: str
    source: str


class Scheme(NamedTuple):
    """A way to quantise.

    Attributes:
        name: of it.
        shrinks: how many times smaller than 16 bits, about.
        loss: of quality, as it was published.
        source: where.
    """

    name: str
    shrinks: int
    loss: str
    source: str


class Limits(NamedTuple):
    """What rules go by; seconds, tokens a second, usd a second, and plain numbers."""

    people_notice: Fraction
    cloud_doubtful: Fraction
    edge_almost_surely: Fraction
    few_tokens: Fraction
    many_tokens: Fraction
    hybrid_common_path: Fraction
    hybrid_complex: Fraction
    edge_only_below: Fraction
    not_worth_below: Fraction
    burst_factor: Fraction
    passive_share: Fraction
    tokens_per_word: Fraction
    edge_ceiling_parameters: Fraction
    edge_ceiling_context: int
    small_model_parameters: Fraction


class Facts(NamedTuple):
    """All of the file."""

    schemes: tuple[Scheme, ...]
    claims: Mapping[str, Claim]
    limits: Limits


@lru_cache(maxsize=1)
def facts() -> Facts:
    """The file as it comes with this program."""
    text = resources.files("fleet_server.planner").joinpath("facts.toml").read_text(encoding="utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    return Facts(
        schemes=tuple(Scheme(**row) for row in data["quantisation"]),
        claims={row["key"]: Claim(**row) for row in data["claim"]},
        limits=_limits(data["limits"]),
    )


def _limits(data: Mapping[str, Any]) -> Limits:
    return Limits(
        people_notice=quantity(data["people_notice"], TIME),
        cloud_doubtful=quantity(data["cloud_doubtful"], TIME),
        edge_almost_surely=quantity(data["edge_almost_surely"], TIME),
        few_tokens=quantity(data["few_tokens_a_day"], TOKEN_RATE),
        many_tokens=quantity(data["many_tokens_a_day"], TOKEN_RATE),
        hybrid_common_path=quantity(data["hybrid_common_path"], TIME),
        hybrid_complex=quantity(data["hybrid_complex"], TIME),
        edge_only_below=quantity(data["edge_only_below"], TIME),
        not_worth_below=quantity(data["not_worth_below"], PER_TIME),
        burst_factor=Fraction(data["burst_factor"]),
        passive_share=Fraction(data["passive_share"]),
        tokens_per_word=Fraction(data["tokens_per_word"]),
        edge_ceiling_parameters=count(data["edge_ceiling_parameters"], "parameters"),
        edge_ceiling_context=data["edge_ceiling_context"],
        small_model_parameters=count(data["small_model_parameters"], "parameters"),
    )
