"""Logs of the server: one line each, key=value, on stderr, at most so many of one kind a minute."""

import logging
import sys
import threading
import time

from edge_runtime.clock import NS_PER_S, Clock

_MOST_A_MINUTE = 60
_KINDS = 500
_QUIET = ("uvicorn.access", "uvicorn.error", "asyncio", "httpx", "httpcore", "alembic")


class LineFormatter(logging.Formatter):
    """`time level logger message`; a traceback follows on lines of its own, in the log and nowhere else."""

    def __init__(self) -> None:
        super().__init__(
            "%(asctime)s.%(msecs)03dZ level=%(levelname)s logger=%(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"
        )
        self.converter = time.gmtime


class RateFilter(logging.Filter):
    """Lets so many lines of one kind through each minute and counts the others.

    Args:
        clock: measures the minutes.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._minute = -1

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        minute = self._clock.monotonic_ns() // (60 * NS_PER_S)
        with self._lock:
            if minute != self._minute or len(self._counts) > _KINDS:
                self._counts.clear()
                self._minute = minute
            key = (record.name, str(record.msg))
            count = self._counts[key] = self._counts.get(key, 0) + 1
        if count == _MOST_A_MINUTE:
            record.msg = f"{record.msg} (and more of the same, not written for the rest of the minute)"
        return count <= _MOST_A_MINUTE


def configure_logging(clock: Clock) -> None:
    """Write to stderr from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    handler.addFilter(RateFilter(clock))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
