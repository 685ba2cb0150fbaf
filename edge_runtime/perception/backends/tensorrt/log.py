"""What TensorRT says, kept, so that an error can carry the reason that TensorRT gives nowhere else.

A failed call returns None or False and writes lines to the logger. TensorRT keeps the first logger of a process for
good and ignores later ones, so that there is one here, and whoever calls takes the lines that came since it began.
"""

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

_KEPT: Final = 200
_QUOTED: Final = 6
_LONGEST: Final = 500

_MEMORY: Final = ("out of memory", "outofmemory", "memory allocation", "insufficient memory")

_lock = threading.Lock()
_logs: dict[int, tuple[Any, "EngineLog"]] = {}


class EngineLog:
    """Lines of TensorRT's logger at warning level and above, the newest 200.

    Attributes:
        logger: the `tensorrt.ILogger` to hand to TensorRT.
    """

    def __init__(self, trt: Any) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=_KEPT)
        self._count = 0
        self._lock = threading.Lock()
        keep, ignored = self._keep, (trt.ILogger.Severity.VERBOSE, trt.ILogger.Severity.INFO)

        class _Logger(trt.ILogger):  # type: ignore[misc]
            """Called by TensorRT from any of its threads."""

            def __init__(self) -> None:
                trt.ILogger.__init__(self)

            def log(self, severity: Any, msg: str) -> None:
                """Keep one line."""
                if severity not in ignored:
                    keep(str(msg))

        self.logger = _Logger()

    def _keep(self, line: str) -> None:
        with self._lock:
            self._count += 1
            self._lines.append((self._count, one_line(line)))

    def mark(self) -> int:
        """The place in the log where something begins."""
        with self._lock:
            return self._count

    def since(self, mark: int, most: int = _QUOTED) -> tuple[str, ...]:
        """The last lines that came after `mark`, oldest first.

        Args:
            mark: from `mark`.
            most: so many at most.
        """
        with self._lock:
            return tuple(line for number, line in self._lines if number > mark)[-most:]


def log_of(trt: Any) -> EngineLog:
    """The one log of the module `tensorrt` in this process."""
    with _lock:
        if id(trt) not in _logs:
            _logs[id(trt)] = trt, EngineLog(trt)
        return _logs[id(trt)][1]


def one_line(text: str) -> str:
    """TensorRT's words, in which names from the model stand: nothing in them may drive a terminal."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())[:_LONGEST]


def quoted(lines: tuple[str, ...]) -> str:
    """Lines as the end of a sentence: what TensorRT said, or that it said nothing."""
    return f"TensorRT says: {' | '.join(lines)}" if lines else "TensorRT gave no reason"


def says_memory(lines: Iterable[str]) -> bool:
    """Whether TensorRT's own words are about memory that is missing."""
    return any(word in line.lower() for line in lines for word in _MEMORY)
