"""How long to wait before the next attempt: full jitter, so that a fleet does not knock in step."""

import random

_MAX_EXPONENT = 32  # beyond it the ceiling is the maximum for any sane first wait


class FullJitter:
    """Waits drawn uniformly from 0 to a ceiling that doubles with every failure in a row.

    The scheme is "full jitter" of the AWS Architecture Blog, "Exponential Backoff and Jitter" (2015): of the
    ones compared there it needs the fewest calls to recover a contended server.

    Args:
        first_s: the ceiling after the first failure, seconds.
        max_s: the ceiling never exceeds this, seconds.
        rng: where the randomness comes from; a seeded one makes a run repeatable.
    """

    def __init__(self, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._rng = rng
        self._failures = 0

    @property
    def ceiling_s(self) -> float:
        """The longest that the next wait may be, seconds."""
        return min(self._max_s, self._first_s * 2.0 ** min(self._failures, _MAX_EXPONENT))

    def failed(self, lived_s: float = 0.0, *, refused: bool = False) -> float:
        """Count one failure and return the seconds to wait.

        Args:
            lived_s: how long the session that failed had delivered frames. Only one that outlived the
                ceiling it had to wait for counts as recovered; a camera that delivers one frame and dies,
                again and again, must not be knocked at without pause.
            refused: the camera refused the password: the ceiling is the maximum at once, because cameras lock
                accounts after a few wrong ones.
        """
        if lived_s > self.ceiling_s:
            self._failures = 0
        if refused:
            self._failures = _MAX_EXPONENT
        wait_s = self._rng.uniform(0.0, self.ceiling_s)
        self._failures += 1
        return wait_s
