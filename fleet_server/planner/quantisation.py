"""What quantisation makes of a model's size, and where it is known to cost quality."""

from fractions import Fraction
from typing import NamedTuple

from edge_runtime.errors import ConfigError
from fleet_server.planner.facts import Facts, Scheme

_CAREFUL = ("Q8_0", "Q5_K_M")
"""What keeps a small model's quality."""

_FOUR_BITS = ("Q4_K_M", "AWQ INT4")
FULL_BITS = 16


class Row(NamedTuple):
    """One scheme for a model of a stated size.

    Attributes:
        scheme: which.
        bytes: of the weights, about: the published factor is a round number.
        warnings: what is known to go wrong, in sentences.
    """

    scheme: Scheme
    bytes: Fraction
    warnings: tuple[str, ...]


def schemes_for(parameters: Fraction, known: Facts, *, trained: bool) -> tuple[Row, ...]:
    """Every scheme of the data file for a model.

    Args:
        parameters: of the model.
        known: the data file.
        trained: whether it is trained while it is quantised.

    Raises:
        ConfigError: there are none.
    """
    if parameters <= 0:
        raise ConfigError("parameters have to be above 0")
    full = parameters * FULL_BITS / 8
    return tuple(
        Row(scheme, full / scheme.shrinks, _warnings(scheme, parameters, known, trained=trained))
        for scheme in known.schemes
    )


def _warnings(scheme: Scheme, parameters: Fraction, known: Facts, *, trained: bool) -> tuple[str, ...]:
    said = []
    if parameters <= known.limits.small_model_parameters and scheme.name not in _CAREFUL:
        said.append("small models suffer more: stay at Q5 or Q8 up to 3 billion parameters")
    if scheme.name in _FOUR_BITS and not trained:
        said.append(f"without training: {known.claims['training while quantising'].text}")
    return tuple(said)


def shrinking(from_bits: Fraction, to_bits: Fraction) -> Fraction:
    """The share of the weights' bytes that is gone.

    Raises:
        ConfigError: a number of bits is not above 0.
    """
    if min(from_bits, to_bits) <= 0:
        raise ConfigError("bits have to be above 0")
    return 1 - to_bits / from_bits
