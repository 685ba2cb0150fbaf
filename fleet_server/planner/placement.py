"""Where work could be done, by rules that were published: each names itself, and each reason is shown.

Three things are always said together, because whoever looks at one forgets the others: latency, who gets to see the
data, and cost. What may leave is an input here; policy decides it, and no saving changes it.
"""

from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from fleet_server.planner.facts import Limits


class MayLeave(str, Enum):
    """What of the data may leave the organisation."""

    NOTHING = "nothing"
    PART = "part"
    ALL = "all"


class Work(str, Enum):
    """What the work is like."""

    NARROW = "narrow"
    """One kind, which a small model can do."""
    BIMODAL = "bimodal"
    """Mostly routine, and now and then hard."""
    FRONTIER = "frontier"
    """Only the ablest models can do it."""


class Place(str, Enum):
    """Where."""

    EDGE = "edge"
    CLOUD = "cloud"
    HYBRID = "hybrid"
    CALCULATE = "calculate"
    """Nothing here decides: `fleet plan breakeven`, with your own numbers."""
    NOWHERE = "nowhere"


class Answers(NamedTuple):
    """What a person says of the work.

    Attributes:
        may_leave: of the data.
        personal: whether people can be recognised in it.
        offline: whether it has to go on without a network.
        latency: seconds that an answer may take.
        complex_latency: seconds that a hard one may; None for the same.
        work: what it is like.
        parameters: of the smallest model that can do it; None where that is not known.
        context: tokens that it has to keep; None likewise.
        tokens: a second, over a day.
        steady: whether these come evenly.
        burst: how many times the mean the peak is.
        staff: whether somebody is there for the hardware.
        hosted: what it costs at a hosted service, usd a second; None where that is not known.
    """

    may_leave: MayLeave
    personal: bool
    offline: bool
    latency: Fraction
    complex_latency: Fraction | None
    work: Work
    parameters: Fraction | None
    context: int | None
    tokens: Fraction
    steady: bool
    burst: Fraction
    staff: bool
    hosted: Fraction | None


class Finding(NamedTuple):
    """What one rule says.

    Attributes:
        rule: its name.
        place: where it points.
        text: why.
    """

    rule: str
    place: Place
    text: str


class Placement(NamedTuple):
    """What comes of all.

    Attributes:
        place: where.
        rule: the one that decided.
        text: why.
        questions: what latency, data, volume and ability say, each for itself.
        notes: what else is to be known.
    """

    place: Place
    rule: str
    text: str
    questions: tuple[Finding, ...]
    notes: tuple[str, ...]


def place(answers: Answers, limits: Limits) -> Placement:
    """Apply the rules in their order: what may leave, time, ability, volume."""
    decided = _constraint(answers, limits) or _kind(answers, limits) or _volume(answers, limits)
    return Placement(
        decided.place, decided.rule, decided.text, _questions(answers, limits), _notes(answers, limits)
    )


def within_ceiling(answers: Answers, limits: Limits) -> bool:
    """Whether a model at the edge is known to be able: by kind of work, size and context."""
    if answers.work is Work.FRONTIER:
        return False
    big = answers.parameters is not None and answers.parameters > limits.edge_ceiling_parameters
    long = answers.context is not None and answers.context > limits.edge_ceiling_context
    return not big and not long


def _constraint(answers: Answers, limits: Limits) -> Finding | None:
    """What is not a matter of choice."""
    able = within_ceiling(answers, limits)
    if answers.may_leave is MayLeave.NOTHING or answers.offline:
        why = "nothing may leave" if answers.may_leave is MayLeave.NOTHING else "it has to work offline"
        if able:
            return Finding("edge only", Place.EDGE, why)
        return Finding("edge only", Place.NOWHERE, f"{why}, and no model at the edge is able")
    if answers.latency < limits.edge_only_below:
        if able:
            return Finding("edge only", Place.EDGE, "the answer is due before a round trip is over")
        return Finding(
            "edge only", Place.NOWHERE, "the answer is due before a round trip, and no local model is able"
        )
    return None


def _kind(answers: Answers, limits: Limits) -> Finding | None:
    """What the kind of work says."""
    able = within_ceiling(answers, limits)
    if answers.work is Work.BIMODAL:
        complex_s = answers.latency if answers.complex_latency is None else answers.complex_latency
        if answers.latency < limits.hybrid_common_path and complex_s > limits.hybrid_complex:
            return Finding(
                "hybrid", Place.HYBRID, "the common path is fast, and what is hard may take longer"
            )
        return Finding("hybrid", Place.HYBRID, "mostly routine, now and then hard")
    if answers.may_leave is MayLeave.PART:
        return Finding("hybrid", Place.HYBRID, "a part of the data may leave, and a part may not")
    if not able:
        return _frontier(answers, limits)
    if answers.burst >= limits.burst_factor and not answers.staff:
        return Finding("cloud only", Place.CLOUD, "great bursts, and nobody is there for hardware")
    return None


def _frontier(answers: Answers, limits: Limits) -> Finding:
    """Only the ablest models can do it, and all of the data may leave."""
    if answers.hosted is not None and answers.hosted < limits.not_worth_below:
        why = "not worth it: only the ablest models can do it, for less than 10,000 usd a month"
        return Finding("operations double", Place.CLOUD, why)
    return Finding("cloud only", Place.CLOUD, "only the ablest models can do it, and the data may leave")


def _volume(answers: Answers, limits: Limits) -> Finding:
    if answers.tokens < limits.few_tokens:
        return Finding("volume", Place.CLOUD, "fewer than 200,000 tokens a day")
    if answers.tokens > limits.many_tokens and answers.steady:
        return Finding("volume", Place.EDGE, "more than 10 million tokens a day, and steady")
    return Finding("volume", Place.CALCULATE, "between the two: it depends on your own numbers")


def _questions(answers: Answers, limits: Limits) -> tuple[Finding, ...]:
    return (
        _latency_question(answers, limits),
        _data_question(answers),
        _volume(answers, limits),
        Finding("ability", Place.EDGE, "a model at the edge is able")
        if within_ceiling(answers, limits)
        else Finding("ability", Place.CLOUD, "beyond what models at the edge are known to do"),
    )


def _latency_question(answers: Answers, limits: Limits) -> Finding:
    if answers.latency < limits.edge_almost_surely:
        return Finding("latency", Place.EDGE, "below 150 ms: almost surely at the edge")
    if answers.latency < limits.cloud_doubtful:
        return Finding("latency", Place.HYBRID, "below 300 ms: a cloud is doubtful")
    if answers.latency <= limits.people_notice:
        return Finding("latency", Place.HYBRID, "up to 500 ms: measure both")
    return Finding("latency", Place.CLOUD, "over 500 ms: people notice, and a cloud fits")


def _data_question(answers: Answers) -> Finding:
    if answers.may_leave is MayLeave.NOTHING:
        return Finding("data", Place.EDGE, "nothing may leave")
    if answers.personal or answers.may_leave is MayLeave.PART:
        who = "people can be recognised" if answers.personal else "a part may not leave"
        return Finding("data", Place.HYBRID, f"{who}: only what policy approves leaves")
    return Finding("data", Place.CLOUD, "it may leave")


def _notes(answers: Answers, limits: Limits) -> tuple[str, ...]:
    said = []
    if answers.burst >= limits.burst_factor:
        allowed = {
            MayLeave.NOTHING: "nothing may leave, so that a burst waits or is refused",
            MayLeave.PART: "a burst may spill to a cloud for those classes alone that may leave",
            MayLeave.ALL: "a burst may spill to a cloud",
        }
        said.append(allowed[answers.may_leave])
    if answers.hosted is None:
        said.append("cost: not said, because nobody gave what a hosted service would cost")
    return tuple(said)
