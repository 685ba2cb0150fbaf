"""What a body allows: which conditions count and how, its modes, its stopping distance, its times.

`from_json` turns the guard's compiled configuration into a profile or says in one sentence why it cannot;
`refusals.check` then says what would make the profile unsafe. A profile may make the catalogue stricter. It may
count a condition less, or ignore it and say why, only where the catalogue lets it (`Traits.optional`).
"""

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from edge_runtime.guard.conditions import (
    BY_BIT,
    FROM_HISTORY,
    TRAITS,
    WIDTH,
    Condition,
    conditions_in,
    mask_of,
)
from edge_runtime.guard.fields import Fields, ProfileError
from edge_runtime.guard.severity import Need, Severity

__all__ = ["Mode", "Profile", "ProfileError", "Rule", "Stopping", "from_json"]

NS_PER_MS = 1_000_000

EVERYTHING = (1 << WIDTH) - 1 & ~FROM_HISTORY
"""All conditions that somebody evaluates."""

NEVER_NS = 1 << 62
"""A time that does not pass, where what is found after it is ignored."""


class Rule(NamedTuple):
    """How one condition counts on this body; the fields are those of `Traits`, times in nanoseconds."""

    condition: Condition
    severity: Severity
    trip_ns: int
    clear_ns: int
    then: Severity | None
    then_ns: int
    aged: bool
    takes: Need | None


class Stopping(NamedTuple):
    """Inputs of the stopping distance.

    Attributes:
        v_max_m_s: the highest speed, m/s; 0 for a body that does not travel.
        a_brake_m_s2: the deceleration that the brake reaches for certain, m/s².
        t_detect_ms: from the hazard to the guard's decision.
        t_gate_ms: from the decision to a closed motion gate; never less than the lease.
        t_act_ms: from the closed motion gate to the first braking.
        margin_m: added, m.
        free_range_m: what is certainly free ahead, m.
    """

    v_max_m_s: float
    a_brake_m_s2: float
    t_detect_ms: float
    t_gate_ms: float
    t_act_ms: float
    margin_m: float
    free_range_m: float

    @property
    def travels(self) -> bool:
        """Whether the body can move along at all."""
        return self.v_max_m_s > 0

    def distance_m(self, *, detect_factor: float = 1.0) -> float:
        """The distance that a stop takes, margin included: v·(t_detect + t_gate + t_act) + v²/2a + margin.

        Args:
            detect_factor: stretches the time of detection, for a guard without a real-time schedule.
        """
        if not self.travels:
            return self.margin_m
        reaction_s = (self.t_detect_ms * detect_factor + self.t_gate_ms + self.t_act_ms) / 1000
        return self.v_max_m_s * reaction_s + self.v_max_m_s**2 / (2 * self.a_brake_m_s2) + self.margin_m


class Mode(NamedTuple):
    """One way of working.

    Attributes:
        name: its name.
        limits: the motion gate's table of limits.
        evaluates: mask of what is evaluated in it.
        needs: what it relies on.
        fallbacks: where to go when something it needs is lost; without an entry the body stops.
        slower: the mode of the state DEGRADED when nothing that this one needs is lost; None: the body stops.
    """

    name: str
    limits: str
    evaluates: int
    needs: tuple[Need, ...]
    fallbacks: tuple[tuple[Need, str], ...]
    slower: str | None


class _Given(NamedTuple):
    """What of a profile is not worked out from the rest of it."""

    name: str
    rules: Mapping[int, Rule]
    ignored: tuple[tuple[Condition, str], ...]
    modes: tuple[Mode, ...]
    stopping: Stopping
    freshness_ns: tuple[tuple[Need, int], ...]
    returns_from_stopped: bool
    healthy_ns: int
    stopped_max_ns: int
    start_ns: int
    settle_ns: int
    late_ns: int
    paused_ns: int
    lease_ns: int
    trips_max: int
    trips_window_ns: int
    latches_max: int
    latches_window_ns: int


class Profile(_Given):
    """What a body allows. Times are in nanoseconds.

    Attributes:
        name: its name.
        rules: by bit; without what is ignored, and what the state machine finds itself.
        ignored: what is ignored, and the reason given.
        modes: the first is the one in which the body starts and works when all is well.
        stopping: inputs of the stopping distance.
        freshness_ns: the greatest age of a reading that may be relied upon.
        returns_from_stopped: whether the body may move again by itself; if not, what stops it latches.
        healthy_ns: how long all has to be well before it does.
        stopped_max_ns: after being stopped for longer than this it latches; `NEVER_NS` where that is ignored.
        start_ns: the time for becoming healthy after a start or an acknowledgement; `NEVER_NS` likewise.
        settle_ns: how long all has to be well before a start or a recovery is over.
        late_ns: a guard that wakes later than this renews nothing in that moment, and blames nobody.
        paused_ns: a guard that wakes later than this was paused.
        lease_ns: the life of the lease.
        trips_max, trips_window_ns: so many turns for the worse within the window latch; no window where that is
            ignored, so that there is never more than one in it.
        latches_max, latches_window_ns: so many latches within the window lock out; no window likewise.
    """

    @cached_property
    def counted(self) -> int:
        """Mask of the conditions that count and that somebody evaluates."""
        return mask_of(rule.condition for rule in self.rules.values())

    @cached_property
    def stopping_conditions(self) -> int:
        """Mask of the conditions that stop the body as soon as they count."""
        return mask_of(rule.condition for rule in self.rules.values() if rule.severity >= Severity.STOPPED)

    @cached_property
    def latching_conditions(self) -> int:
        """Mask of the conditions that latch as soon as they count."""
        return mask_of(rule.condition for rule in self.rules.values() if rule.severity >= Severity.SAFE)

    @cached_property
    def remembers(self) -> bool:
        """Whether a latch is kept across a restart; a body that cannot latch does not touch what is kept."""
        return Condition.LATCH_UNKNOWN not in dict(self.ignored)

    @cached_property
    def limits(self) -> tuple[str, ...]:
        """Names of the motion gate's tables, in the order in which the lease counts them."""
        return tuple(sorted({mode.limits for mode in self.modes}))

    @property
    def start_mode(self) -> Mode:
        """The mode in which the body starts and works when all is well."""
        return self.modes[0]

    def mode(self, name: str | None) -> Mode | None:
        """A mode by its name."""
        return next((mode for mode in self.modes if mode.name == name), None)

    def rule(self, condition: Condition) -> Rule | None:
        """How a condition counts; None if it is ignored or found by the state machine."""
        return self.rules.get(condition.bit)

    def rules_taking(self, need: Need) -> list[Rule]:
        """How those conditions count that take something away."""
        return [rule for rule in self.rules.values() if rule.takes is need]


def from_json(document: object) -> Profile:
    """A profile from the guard's compiled configuration.

    Args:
        document: what a JSON parser returned; times in it are milliseconds. docs/safety.md has an example.

    Raises:
        ProfileError: a field is missing, unknown, of the wrong kind or out of its range. It says which.
    """
    fields = Fields(document, "profile")
    name = fields.text("name")
    rules, ignored = _rules(fields.group("conditions", optional=True))
    modes = tuple(_mode(name, mode) for name, mode in fields.groups("modes"))
    off = dict(ignored)
    stopped = fields.group("stopped", optional=True)
    repeats = fields.group("repeats", optional=True)
    stopped_max_ns = stopped.duration_ns("longest_ms", default=60_000)
    start_ns = fields.duration_ns("start_ms", default=60_000)
    trips_window_ns = repeats.duration_ns("trips_window_ms", default=60_000)
    latches_window_ns = repeats.duration_ns("latches_window_ms", default=600_000)
    profile = Profile(
        name=name,
        rules=rules,
        ignored=ignored,
        modes=modes,
        stopping=_stopping(fields.group("stopping")),
        freshness_ns=_freshness(fields.group("freshness_ms", optional=True)),
        returns_from_stopped=stopped.flag("returns", default=True),
        healthy_ns=stopped.duration_ns("healthy_ms", default=5_000),
        stopped_max_ns=NEVER_NS if Condition.STOPPED_TOO_LONG in off else stopped_max_ns,
        start_ns=NEVER_NS if Condition.START_TIMEOUT in off else start_ns,
        settle_ns=fields.duration_ns("settle_ms", default=1_000),
        late_ns=fields.duration_ns("late_ms", default=5),
        paused_ns=fields.duration_ns("paused_ms", default=100),
        lease_ns=fields.duration_ns("lease_ms", default=40),
        trips_max=repeats.count("trips", default=3, least=2, most=16),
        trips_window_ns=0 if Condition.REPEATED_TRIPS in off else trips_window_ns,
        latches_max=repeats.count("latches", default=3, least=2, most=16),
        latches_window_ns=0 if Condition.REPEATED_LATCHES in off else latches_window_ns,
    )
    for part in (fields, stopped, repeats):
        part.end()
    return profile


def _rules(fields: Fields) -> tuple[dict[int, Rule], tuple[tuple[Condition, str], ...]]:
    """Every condition as the catalogue has it, changed where the profile says so."""
    rules: dict[int, Rule] = {}
    ignored: list[tuple[Condition, str]] = []
    for condition in BY_BIT:
        given = fields.group(condition.value, optional=True)
        if given.has("ignored"):
            ignored.append((condition, given.text("ignored")))
        elif condition.mask & EVERYTHING:
            rules[condition.bit] = _rule(condition, given)
        given.end()
    fields.end()
    return rules, tuple(ignored)


def _rule(condition: Condition, given: Fields) -> Rule:
    traits = TRAITS[condition]
    severity = Severity[given.choice("severity", _SEVERITIES, default=traits.severity.name)]
    worsens = given.flag("worsens", default=True)
    then = traits.then if worsens and traits.then is not None and traits.then > severity else None
    return Rule(
        condition=condition,
        severity=severity,
        trip_ns=given.duration_ns("trip_ms", default=traits.trip_ms, least=0),
        clear_ns=given.duration_ns("clear_ms", default=traits.clear_ms, least=0),
        then=then,
        then_ns=given.duration_ns("then_ms", default=traits.then_ms) if then is not None else 0,
        aged=traits.aged,
        takes=traits.takes,
    )


_SEVERITIES: Mapping[str, str] = {
    severity.name.lower(): severity.name for severity in Severity if severity is not Severity.HEALTHY
}


def _mode(name: str, fields: Fields) -> Mode:
    evaluates = EVERYTHING & ~mask_of(
        Condition(word)
        for word in fields.words("not_evaluated", [c.value for c in conditions_in(EVERYTHING)])
    )
    needs = tuple(Need(word) for word in fields.words("needs", [need.value for need in Need]))
    lost = fields.group("fallbacks", optional=True)
    fallbacks = tuple((need, lost.text(need.value)) for need in Need if lost.has(need.value))
    lost.end()
    mode = Mode(
        name=name,
        limits=fields.text("limits"),
        evaluates=evaluates,
        needs=needs,
        fallbacks=fallbacks,
        slower=fields.text("slower") if fields.has("slower") else None,
    )
    fields.end()
    return mode


def _stopping(fields: Fields) -> Stopping:
    stopping = Stopping(
        v_max_m_s=fields.number("v_max_m_s", least=0.0, most=100.0),
        a_brake_m_s2=fields.number("a_brake_m_s2", least=0.01, most=100.0),
        t_detect_ms=fields.number("t_detect_ms", least=0.0, most=60_000.0),
        t_gate_ms=fields.number("t_gate_ms", least=0.0, most=60_000.0),
        t_act_ms=fields.number("t_act_ms", least=0.0, most=60_000.0),
        margin_m=fields.number("margin_m", least=0.0, most=1_000.0),
        free_range_m=fields.number("free_range_m", least=0.0, most=10_000.0),
    )
    fields.end()
    return stopping


def _freshness(fields: Fields) -> tuple[tuple[Need, int], ...]:
    bounds = tuple((need, fields.duration_ns(need.value, least=0)) for need in Need if fields.has(need.value))
    fields.end()
    return bounds
