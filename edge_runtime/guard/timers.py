"""When a condition counts: leaky budgets against flapping, and hysteresis.

A budget drains while the condition holds and refills at a quarter of that speed, so that a condition that toggles
faster than its trip time counts all the same (PX4 does this; betaflight #12732 shows what happens without). It
stops to count only after its clear time without a single break.
"""

from edge_runtime.guard.conditions import AGED, conditions_in
from edge_runtime.guard.memory import Timer
from edge_runtime.guard.profile import Profile, Rule

REFILL = 4
"""A budget refills this many times slower than it drains."""


def advance(
    timers: tuple[Timer, ...], raw: int, *, late: bool, now_ns: int, looked_ns: int, profile: Profile
) -> tuple[Timer, ...]:
    """How conditions stand now.

    Args:
        timers: how they stood; all others were at rest.
        raw: mask of the conditions that hold now, or that nobody evaluated.
        late: whether the guard itself woke late. Then nothing is known of the time in between: it clears nothing,
            and nobody is blamed for an age.
        now_ns: the time.
        looked_ns: when the last look was. What holds now counts as if it had held since then: it may toggle as
            fast as the guard looks.
        profile: what the body allows.
    """
    if not raw and not timers:
        return timers
    held = AGED if late else 0
    gap_ns = now_ns - looked_ns
    after: list[Timer] = []
    for timer in timers:
        rule, mask = profile.rules[timer.bit], 1 << timer.bit
        if mask & held or (late and not mask & raw):
            after.append(timer._replace(clear_since_ns=None))
        elif mask & raw:
            after.append(_holding(timer, rule, now_ns, gap_ns))
        elif (left := _clear(timer, rule, now_ns, gap_ns)) is not None:
            after.append(left)
        raw &= ~mask
    for condition in conditions_in(raw & ~held):
        rest = Timer(condition.bit, 0, None, None)
        after.append(_holding(rest, profile.rules[condition.bit], now_ns, gap_ns))
    return tuple(after)


def active_in(timers: tuple[Timer, ...]) -> int:
    """Mask of the conditions that count."""
    mask = 0
    for timer in timers:
        if timer.since_ns is not None:
            mask |= 1 << timer.bit
    return mask


def is_under_way(timers: tuple[Timer, ...], now_ns: int, profile: Profile) -> bool:
    """Whether the next look may find something else although nothing new happens.

    A condition that counts, goes on holding, and does not get worse with time, is none of these.
    """
    return any(
        timer.since_ns is None
        or timer.clear_since_ns is not None
        or (
            profile.rules[timer.bit].then is not None
            and now_ns - timer.since_ns <= profile.rules[timer.bit].then_ns
        )
        for timer in timers
    )


def _holding(timer: Timer, rule: Rule, now_ns: int, gap_ns: int) -> Timer:
    level_ns = min(rule.trip_ns, timer.level_ns + gap_ns)
    since_ns = timer.since_ns
    if since_ns is None and level_ns == rule.trip_ns:
        since_ns = now_ns
    return Timer(timer.bit, level_ns, since_ns, None)


def _clear(timer: Timer, rule: Rule, now_ns: int, gap_ns: int) -> Timer | None:
    """None when it is at rest again."""
    level_ns = max(0, timer.level_ns - gap_ns // REFILL)
    clear_since_ns = now_ns if timer.clear_since_ns is None else timer.clear_since_ns
    since_ns = timer.since_ns if now_ns - clear_since_ns < rule.clear_ns else None
    if since_ns is None and level_ns == 0:
        return None
    return Timer(timer.bit, level_ns, since_ns, clear_since_ns)
