"""Which mode a body works in when something it relies on is lost."""

from collections.abc import Collection

from edge_runtime.guard.profile import Mode, Profile
from edge_runtime.guard.severity import Need


def mode_without(profile: Profile, lost: Collection[Need], *, degraded: bool) -> Mode | None:
    """The mode that is left.

    It follows the fallbacks from the first mode, as long as the mode it came to needs something that is lost. If
    nothing is lost but the state is DEGRADED all the same, it is the first mode's slower one.

    Args:
        profile: what the body allows.
        lost: what cannot be relied upon.
        degraded: whether any condition asks for DEGRADED.

    Returns:
        None if no mode is left: the body has to stop.
    """
    mode: Mode | None = profile.start_mode
    for _ in (
        profile.modes
    ):  # each mode once at most: fallbacks in a circle are refused, and end here all the same
        if mode is None:
            return None
        need = next((need for need in mode.needs if need in lost), None)
        if need is None:
            return profile.mode(mode.slower) if degraded and mode is profile.start_mode else mode
        mode = profile.mode(dict(mode.fallbacks).get(need))
    return None
