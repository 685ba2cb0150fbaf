"""What a camera says of itself: that it is not being watched, why, and that it is again."""

from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.origin import Unobserved
from edge_runtime.events.timeline import Moment

_PER_FRAME = {Unobserved.DARK, Unobserved.FROZEN, Unobserved.INFERENCE_FAILED, Unobserved.MODEL_FAULT}
"""Reported for each frame that could not be used, so their reports say how many; the others come with time."""


class Outages:
    """Reasons for which the camera is not being watched now; several may hold at once."""

    def __init__(self) -> None:
        self._since: dict[Unobserved, Moment] = {}
        self._reports: dict[Unobserved, int] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def report(self, reason: Unobserved, moment: Moment, detail: str | None) -> list[Happening]:
        """The camera is not being watched; the first report of a reason opens it, later ones are counted."""
        self._reports[reason] = self._reports.get(reason, 0) + 1
        if reason in self._since:
            return []
        self._since[reason] = moment
        return [Happening(Phase.OPENED, reason.value, moment, key=reason.value, reason=detail)]

    def over(self, moment: Moment) -> list[Happening]:
        """A frame was evaluated: what began before it was captured is over.

        A frame that was still on its way when the camera fell silent does not say that it is back.
        """
        ended = [
            (reason, since) for reason, since in self._since.items() if since.capture_ns <= moment.capture_ns
        ]
        return [self._close(reason, since, moment) for reason, since in ended]

    def _close(self, reason: Unobserved, since: Moment, moment: Moment) -> Happening:
        del self._since[reason]
        reports = self._reports.pop(reason)
        return Happening(
            Phase.CLOSED,
            reason.value,
            since,
            key=reason.value,
            count=reports if reason in _PER_FRAME else None,
            duration_ns=moment.capture_ns - since.capture_ns,
        )
