"""The thermal governor: does less work before the hardware makes the same work slow.

Hardware that is too hot lowers its clocks, and then each frame takes two to three times as long: the deadlines of
events go with it, and on some boards the process (a phone went from 680 to 231 MHz at 78 C after six runs). Work
that is left out on purpose costs frames and keeps the deadlines of all others. So the governor lowers the share of
frames first, then the size of the model, from the temperature and where it will be within `horizon_s`.

It is a pure function, as the guard's state machine is: `step(now_ns, state, reading, settings)`. It goes one level
down at a time and gives each the time to show (`lower_dwell_s`), faster where the limit is near; it goes back up
slowly, and the more slowly the more often that had to be taken back. A temperature that is unknown is not a cool
one: after `unknown_after_s` it holds at least `careful_level`.
"""

import math
from dataclasses import dataclass, replace

from edge_runtime.clock import NS_PER_S


@dataclass(frozen=True, slots=True)
class Level:
    """How much is done.

    Attributes:
        frame_share: of the frames that the camera offers, above 0, at most 1.
        variant: 0 is the configured model at its full input; each further one is the next smaller input size or
            model variant that the configuration names. Where there is none, the last one stays.
    """

    frame_share: float
    variant: int = 0


LADDER = (
    Level(1.0),
    Level(0.75),
    Level(0.5),
    Level(0.35),
    Level(0.35, 1),
    Level(0.25, 1),
    Level(0.25, 2),
    Level(0.1, 2),
)
"""First frames, then size, then both: 0.35 of the frames still sees a person who walks through a door."""


@dataclass(frozen=True, slots=True)
class GovernorSettings:
    """What the governor may do; temperatures in degrees Celsius, times in seconds.

    Attributes:
        limit_c: where the hardware begins to throttle, 40 to 130. A zone's own `throttles_at` is the best source.
        warm_margin_c: predicted to be less than this below the limit, one level is taken off; 2 to 40.
        urgent_margin_c: measured to be less than this below the limit, two are, each second; 1 to warm_margin_c.
        cool_margin_c: at least this far below the limit, and not about to be warm, one level is given back; more
            than warm_margin_c by at least 1, which is the hysteresis.
        horizon_s: how far ahead the slope is followed, 0 to 300.
        slope_s: time constant of the slope's smoothing, 1 to 300; sensors step by 0.5 C.
        lower_dwell_s: shortest time between two levels down, 0.5 to 300.
        restore_dwell_s: shortest time before a level is given back, at least lower_dwell_s, up to 3600.
        longest_restore_dwell_s: what that time grows to where giving back had to be undone, up to 86400.
        unknown_after_s: a temperature older than this is unknown, 0.5 to 600.
        careful_level: least index into the ladder while the temperature is unknown.
        ladder: levels from full work to least; at least two.
    """

    limit_c: float = 95.0
    warm_margin_c: float = 10.0
    urgent_margin_c: float = 4.0
    cool_margin_c: float = 14.0
    horizon_s: float = 20.0
    slope_s: float = 10.0
    lower_dwell_s: float = 6.0
    restore_dwell_s: float = 60.0
    longest_restore_dwell_s: float = 1800.0
    unknown_after_s: float = 5.0
    careful_level: int = 2
    ladder: tuple[Level, ...] = LADDER

    def __post_init__(self) -> None:
        for words in _refusals(self):
            raise ValueError(words)


def _refusals(settings: GovernorSettings) -> list[str]:
    s = settings
    shares = [level.frame_share for level in s.ladder]
    variants = [level.variant for level in s.ladder]
    checks = (
        (40 <= s.limit_c <= 130, "limit_c must be 40 to 130"),
        (2 <= s.warm_margin_c <= 40, "warm_margin_c must be 2 to 40"),
        (1 <= s.urgent_margin_c <= s.warm_margin_c, "urgent_margin_c must be 1 to warm_margin_c"),
        (
            s.warm_margin_c + 1 <= s.cool_margin_c <= 80,
            "cool_margin_c must be above warm_margin_c by 1 or more",
        ),
        (0 <= s.horizon_s <= 300, "horizon_s must be 0 to 300"),
        (1 <= s.slope_s <= 300, "slope_s must be 1 to 300"),
        (0.5 <= s.lower_dwell_s <= 300, "lower_dwell_s must be 0.5 to 300"),
        (s.lower_dwell_s <= s.restore_dwell_s <= 3600, "restore_dwell_s must be lower_dwell_s to 3600"),
        (
            s.restore_dwell_s <= s.longest_restore_dwell_s <= 86_400,
            "longest_restore_dwell_s must be restore_dwell_s to 86400",
        ),
        (0.5 <= s.unknown_after_s <= 600, "unknown_after_s must be 0.5 to 600"),
        (len(s.ladder) >= 2, "the ladder must have two levels or more"),
        (0 <= s.careful_level < len(s.ladder), "careful_level must be a place in the ladder"),
        (all(0 < share <= 1 for share in shares), "a frame_share must be above 0 and at most 1"),
        (shares == sorted(shares, reverse=True), "the ladder's frame shares must not rise"),
        (variants == sorted(variants) and variants[:1] >= [0], "the ladder's variants must not fall"),
    )
    return [words for holds, words in checks if not holds]


@dataclass(frozen=True, slots=True)
class ThermalReading:
    """What the sensors said.

    Attributes:
        celsius: of the hottest sensor that counts, or None.
        taken_ns: monotonic time at which it was read.
        throttled: whether the hardware slows itself down already; None where it does not say.
    """

    celsius: float | None
    taken_ns: int
    throttled: bool | None = None


@dataclass(frozen=True, slots=True)
class GovernorState:
    """What the governor remembers; begin with `start`.

    Attributes:
        index: into the ladder. since_ns: when it changed last.
        celsius, taken_ns: last known temperature; None before the first.
        slope: degrees a second, smoothed.
        dwell_s: how long a level must hold before one is given back.
        restored_ns: when one was given back last, or None.
        why: the reason of the last change, in a few words.
    """

    index: int
    since_ns: int
    celsius: float | None = None
    taken_ns: int = 0
    slope: float = 0.0
    dwell_s: float = 0.0
    restored_ns: int | None = None
    why: str = "start"


def start(now_ns: int, settings: GovernorSettings) -> GovernorState:
    """Full work, until something is known: the first reading comes within `unknown_after_s`."""
    return GovernorState(0, now_ns, taken_ns=now_ns, dwell_s=settings.restore_dwell_s)


def step(
    now_ns: int, state: GovernorState, reading: ThermalReading, settings: GovernorSettings
) -> tuple[GovernorState, Level]:
    """Take one reading into account.

    Args:
        now_ns: monotonic; a time before the last change counts as that.
        state: from `start` or the last step.
        reading: may be the same as before: it only gets older.
        settings: the same for all steps of one state.

    Returns:
        The next state and the level that holds now.
    """
    now_ns = max(now_ns, state.since_ns)
    state = _observe(now_ns, state, reading, settings)
    target, why = _target(now_ns, state, settings, throttled=reading.throttled is True)
    target = min(target, len(settings.ladder) - 1)
    if target > state.index:
        state = _lower(now_ns, state, target, why, settings)
    elif target < state.index:
        state = replace(state, index=target, since_ns=now_ns, restored_ns=now_ns, why=why)
    elif state.index == 0 and (now_ns - state.since_ns) / NS_PER_S > settings.longest_restore_dwell_s:
        state = replace(state, dwell_s=settings.restore_dwell_s)  # a long cool time forgives
    return state, settings.ladder[state.index]


def _observe(
    now_ns: int, state: GovernorState, reading: ThermalReading, settings: GovernorSettings
) -> GovernorState:
    celsius = reading.celsius
    if celsius is None or not math.isfinite(celsius) or reading.taken_ns > now_ns:
        return state
    if state.celsius is None:
        return replace(state, celsius=celsius, taken_ns=reading.taken_ns)
    passed_s = (reading.taken_ns - state.taken_ns) / NS_PER_S
    if passed_s <= 0:  # the same reading, or an older one
        return state
    if passed_s > settings.unknown_after_s + settings.slope_s:  # a gap says nothing about the slope
        slope = 0.0
    else:
        weight = 1 - math.exp(-passed_s / settings.slope_s)
        slope = state.slope + weight * ((celsius - state.celsius) / passed_s - state.slope)
    return replace(state, celsius=celsius, taken_ns=reading.taken_ns, slope=slope)


def _target(
    now_ns: int, state: GovernorState, settings: GovernorSettings, *, throttled: bool
) -> tuple[int, str]:
    """The index to be at, and why; the present one where nothing is to change yet."""
    hold, held_s = (state.index, state.why), (now_ns - state.since_ns) / NS_PER_S
    # full work has no dwell: it may have been going on for days when the heat comes
    urgent = state.index == 0 or held_s >= min(1.0, settings.lower_dwell_s)
    due = state.index == 0 or held_s >= settings.lower_dwell_s
    celsius, age_s = state.celsius, (now_ns - state.taken_ns) / NS_PER_S
    if throttled:
        return (state.index + 2, "the hardware throttles") if urgent else hold
    if age_s > settings.unknown_after_s:
        return max(state.index, settings.careful_level), f"no temperature for {age_s:.0f} s"
    if celsius is None:
        return hold
    close = settings.limit_c - settings.urgent_margin_c
    predicted = celsius + max(state.slope, 0.0) * settings.horizon_s
    if celsius >= close:
        target = (state.index + 2, f"{celsius:.1f} C is close to {settings.limit_c:g} C") if urgent else hold
    elif predicted >= settings.limit_c - settings.warm_margin_c:
        cooling = state.index > 0 and state.slope < 0  # what was taken off is at work
        warm = (state.index + 1, f"{predicted:.1f} C within {settings.horizon_s:g} s")
        target = warm if due and not cooling else hold
    elif state.index > 0 and celsius <= settings.limit_c - settings.cool_margin_c and held_s >= state.dwell_s:
        target = state.index - 1, f"{celsius:.1f} C is cool again"
    else:
        target = hold
    return target


def _lower(
    now_ns: int, state: GovernorState, target: int, why: str, settings: GovernorSettings
) -> GovernorState:
    """Less work; and where a level had been given back too early, the next one waits twice as long."""
    dwell_s = state.dwell_s
    if state.restored_ns is not None and (now_ns - state.restored_ns) / NS_PER_S < 2 * state.dwell_s:
        dwell_s = min(2 * dwell_s, settings.longest_restore_dwell_s)
    return replace(state, index=target, since_ns=now_ns, dwell_s=dwell_s, restored_ns=None, why=why)
