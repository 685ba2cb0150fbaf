"""Whether a model fits: each term of what it needs, and the one cap of what a machine gives.

Experts that are idle need memory all the same: memory goes by all parameters, computing by the active ones. What is
put off to the host's memory is not needed on the accelerator, and crosses the link for each token that needs it.
"""

from fractions import Fraction
from typing import NamedTuple

from edge_runtime.errors import ConfigError


class Term(NamedTuple):
    """One part of a sum.

    Attributes:
        name: what needs it.
        bytes: exact.
        how: the multiplication, in words.
    """

    name: str
    bytes: Fraction
    how: str


class Weights(NamedTuple):
    """Parameters of a model.

    Attributes:
        parameters: all of them, those of idle experts too.
        active: that one token is computed with; `parameters` where the model has no experts.
        bits: of a weight.
        scale_bits: of what a group of quantised weights shares (scales, zero points); 0 where there are no groups.
        group: weights of a group.
    """

    parameters: Fraction
    active: Fraction
    bits: Fraction
    scale_bits: int = 0
    group: int = 1


class Beside(NamedTuple):
    """What a model needs besides weights and cache, in bytes; each is the planner's own number."""

    recurrent_state: Fraction = Fraction(0)
    activations: Fraction = Fraction(0)
    workspace: Fraction = Fraction(0)
    system: Fraction = Fraction(0)


class Machine(NamedTuple):
    """What a machine has.

    Attributes:
        total: bytes of its memory; of the accelerator's own where that is discrete.
        assignable: of these, the most that the accelerator may have; None where nothing less is known.
        unified: one memory for processor and accelerator. What the accelerator may have is a part of it, and is
            never added to it.
        measured: False where the figures are announced only.
    """

    total: Fraction
    assignable: Fraction | None = None
    unified: bool = False
    measured: bool = True


class MemoryPlan(NamedTuple):
    """What comes of it.

    Attributes:
        terms: on the accelerator; they add up to `needed`.
        needed: bytes.
        host: bytes that were put off to the host.
        cap: bytes that there are; None where no machine was named.
        fits: whether it does; None without a machine.
        link_s: seconds of the link for a token; None where nothing was put off, or no rate is known.
        compute_parameters: that a token is computed with.
        assumptions: what this goes by, in sentences.
    """

    terms: tuple[Term, ...]
    needed: Fraction
    host: Fraction
    cap: Fraction | None
    fits: bool | None
    link_s: Fraction | None
    compute_parameters: Fraction
    assumptions: tuple[str, ...]


def cap_of(machine: Machine) -> Fraction:
    """The bytes that a model may have on a machine.

    Raises:
        ConfigError: more than there is is said to be assignable.
    """
    if machine.assignable is None:
        return machine.total
    if machine.assignable > machine.total:
        raise ConfigError("more memory is said to be assignable to the accelerator than there is in all")
    return machine.assignable


def plan_memory(
    weights: Weights,
    cache: Fraction,
    beside: Beside,
    machine: Machine | None = None,
    *,
    offloaded: Fraction = Fraction(0),
    link: Fraction | None = None,
) -> MemoryPlan:
    """Add up what a model needs, and hold it against what a machine has.

    Args:
        weights: of the model.
        cache: bytes, as `cache_bytes` gives them.
        beside: what else.
        machine: None for the sum alone.
        offloaded: share of the weights in [0, 1] that lies in the host's memory.
        link: bytes a second between the two.

    Raises:
        ConfigError: an input is out of its range, or contradicts another one.
    """
    _check(weights, offloaded)
    if machine is not None and machine.unified and offloaded:
        raise ConfigError("with unified memory nothing can be put off to the host: it is the same memory")
    raw = weights.parameters * weights.bits / 8
    groups = weights.parameters / weights.group * weights.scale_bits / 8
    host = (raw + groups) * offloaded
    terms = tuple(
        term
        for term in (
            Term("weights", raw * (1 - offloaded), "all parameters x bits / 8"),
            Term("quantisation metadata", groups * (1 - offloaded), "parameters / group x bits / 8"),
            Term("key-value cache", cache, "2 x layers x heads x numbers x bytes x tokens x sequences"),
            Term("recurrent state", beside.recurrent_state, "as given"),
            Term("activations", beside.activations, "as given"),
            Term("workspace", beside.workspace, "as given"),
            Term("operating system", beside.system, "as given"),
        )
        if term.bytes
    )
    needed = sum((term.bytes for term in terms), Fraction(0))
    cap = None if machine is None else cap_of(machine)
    # of a token, the active share of what was put off has to come
    share = weights.active / weights.parameters
    return MemoryPlan(
        terms=terms,
        needed=needed,
        host=host,
        cap=cap,
        fits=None if cap is None else needed <= cap,
        link_s=host * share / link if host and link else None,
        compute_parameters=weights.active,
        assumptions=_assumptions(machine, beside, cache, offloaded, link),
    )


def _check(weights: Weights, offloaded: Fraction) -> None:
    if weights.parameters <= 0 or weights.bits <= 0 or weights.group < 1 or weights.scale_bits < 0:
        raise ConfigError("parameters, bits and the size of a group have to be above 0")
    if not 0 < weights.active <= weights.parameters:
        raise ConfigError("active parameters are some of all parameters: not more than these, and above 0")
    if not 0 <= offloaded <= 1:
        raise ConfigError("the share that is put off to the host is from 0 to 1")


def _assumptions(
    machine: Machine | None, beside: Beside, cache: Fraction, offloaded: Fraction, link: Fraction | None
) -> tuple[str, ...]:
    said = ["no speed follows from this: tokens a second need a measurement on the machine itself"]
    if not cache:
        said.append("no key-value cache is counted: no context was given")
    if not any(beside):
        said.append(
            "no activations, workspace or operating system are counted: more is needed than this says"
        )
    if offloaded and link is None:
        said.append("how long what was put off takes is not said: no rate of the link was given")
    if machine is not None and not machine.measured:
        said.append("the machine's figures are announced, not measured")
    if machine is not None and machine.unified:
        said.append("the memory is one for processor and accelerator; what is assignable is a part of it")
    return tuple(said)
