"""What a download may cost, and how long it waits. Pure."""

import random
from dataclasses import dataclass
from typing import Protocol


class Budget(Protocol):
    """Bytes that may travel; `edge_runtime.uplink.budget.ByteBudget` is one."""

    def claim(self, count: int) -> bool:
        """Take bytes; False where they are spent, and then nothing was taken."""
        ...


@dataclass(frozen=True, slots=True)
class DownloadRules:
    """Bounds of a download.

    Attributes:
        rate_bytes_s: more than so many bytes a second are not taken; None is no limit.
        min_bytes_s: with fewer over a whole `min_window_s` the connection is given up.
        min_window_s: seconds over which that is measured.
        slow_tries: so many connections in a row that were too slow end the download.
        answer_s: seconds from the first byte of a request to the end of the answer's head, the handshake included.
        stall_s: seconds without a byte that end a connection.
        deadline_s: seconds for one call of `fetch`, waits included.
        first_wait_s: ceiling of the wait after the first failure; it doubles with each further one.
        longest_wait_s: ceiling of all waits, and of what a server's `Retry-After` may ask for.
        metered_bytes: on a metered link no more than so many bytes are fetched in one call; None is any number.
    """

    rate_bytes_s: int | None = None
    min_bytes_s: int = 1024
    min_window_s: float = 60.0
    slow_tries: int = 3
    answer_s: float = 60.0
    stall_s: float = 30.0
    deadline_s: float = 24 * 3600.0
    first_wait_s: float = 5.0
    longest_wait_s: float = 900.0
    metered_bytes: int | None = 0


def retry_wait_s(rules: DownloadRules, failures: int, asked_s: float | None, rng: random.Random) -> float:
    """Seconds until the next try.

    Args:
        rules: first and longest wait.
        failures: in a row, 1 or more.
        asked_s: what the server's `Retry-After` asks for; None where it asks for nothing.
        rng: for the jitter.

    Returns:
        A wait from half of the ceiling to all of it, so that a fleet does not come back in step, and never less
        than what was asked; a server cannot ask for more than `longest_wait_s`, and a quarter as jitter.
    """
    ceiling = min(rules.longest_wait_s, rules.first_wait_s * 2.0 ** min(max(failures, 1) - 1, 32))
    drawn = ceiling * rng.uniform(0.5, 1.0)
    if asked_s is None:
        return drawn
    return max(drawn, min(asked_s, rules.longest_wait_s) * rng.uniform(1.0, 1.25))
