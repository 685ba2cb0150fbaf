"""Structured logs on stderr: `key=value` for people, JSON for collectors; rate-limited, without credentials.

Rooms call `get_logger().warning("reconnecting", camera=name, attempt=3)`: a short constant event and keys.
The composition root calls `configure_logging` once. Records of the standard `logging` (PyAV, asyncio and
other libraries use it) take the same road.
"""

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.telemetry.rate_limit import RateLimit
from edge_runtime.telemetry.redaction import redact

Level = Literal["debug", "info", "warning", "error", "critical"]
LogFormat = Literal["console", "json"]

_KEYS = ("camera", "source", "model", "rule", "library")
"""Fields that tell apart lines of one event for the rate limit."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


def get_logger(**fields: object) -> structlog.typing.FilteringBoundLogger:
    """A logger with `fields` on every line; may be made before `configure_logging` runs.

    Without any set-up structlog would write to stdout, which carries a command's result: the set-up is then that of
    `configure_logging("warning")`.
    """
    if not structlog.is_configured():
        configure_logging("warning")
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(**fields)
    return logger


def configure_logging(
    level: Level = "info",
    log_format: LogFormat = "console",
    *,
    stream: TextIO | None = None,
    clock: Clock | None = None,
    limit: RateLimit | None = None,
) -> None:
    """Set up this process's logs; a later call replaces the earlier set-up.

    Args:
        level: lines below it are not written.
        log_format: `console` is one line of `key=value`, `json` one object a line.
        stream: where to; stderr when None.
        clock: labels lines with wall time and measures the rate limit's windows.
        limit: the rate limit; 5 lines per event and key in 10 s when None.
    """
    clock = clock or SystemClock()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _Limiter(limit or RateLimit(), clock),
            _Stamp(clock),
            _flatten_exception,
            _redact_values,
            _Renderer(log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=_LineWriters(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge())
    root.setLevel(max(_LEVELS[level], logging.INFO))


class _LineWriter:
    """Writes one rendered line; a stream that is gone or full never stops the runtime."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        try:
            stream = self._stream or sys.stderr  # looked up late: a test or a live view may replace it
            stream.write(line + "\n")
            stream.flush()
        except (OSError, ValueError):
            return

    debug = info = warning = warn = error = critical = exception = fatal = failure = log = msg


class _LineWriters:
    def __init__(self, stream: TextIO | None) -> None:
        self._writer = _LineWriter(stream)

    def __call__(self, *_: object) -> _LineWriter:
        return self._writer


class _Bridge(logging.Handler):
    """Hands records of the standard `logging` to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        level = record.levelname.lower()
        method = level if level in _LEVELS else ("error" if record.levelno >= logging.ERROR else "info")
        # The unformatted message is the rate limit's key: formatted ones differ in addresses and numbers.
        write = getattr(get_logger(library=record.name), method)
        write(text.strip(), exc_info=record.exc_info or None, _limit_key=str(record.msg))


class _Limiter:
    def __init__(self, limit: RateLimit, clock: Clock) -> None:
        self._limit, self._clock = limit, clock

    def __call__(self, _: WrappedLogger, __: str, line: EventDict) -> EventDict:
        what = line.pop("_limit_key", None) or line.get("event")
        key = (str(what), *(str(line.get(name, "")) for name in _KEYS))
        held_back = self._limit.admit(key, self._clock.monotonic_ns())
        if held_back is None:
            raise structlog.DropEvent
        if held_back:
            line["suppressed"] = held_back
        return line


class _Stamp:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, _: WrappedLogger, __: str, line: EventDict) -> EventDict:
        wall = self._clock.wall()
        line["at"] = wall.isoformat()
        if not wall.synced:
            line["synced"] = False
        return line


def _flatten_exception(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """An exception as one field: its type, text and innermost frames, on one line."""
    found = line.pop("exc_info", None)
    if found is True:
        found = sys.exc_info()
    error = found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
        line["error"] = f"{type(error).__name__}: {error}" + (f" [{where}]" if where else "")
    return line


def _redact_values(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    # Before rendering, because JSON escapes characters of a secret; after it too, for `str()` of objects.
    return {key: _redacted(value) for key, value in line.items()}


def _redacted(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {str(key): _redacted(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redact(str(value))


class _Renderer:
    def __init__(self, log_format: LogFormat) -> None:
        self._json = log_format == "json"

    def __call__(self, _: WrappedLogger, __: str, line: EventDict) -> str:
        return redact(json.dumps(line, ensure_ascii=False, default=str) if self._json else _console(line))


def _console(line: EventDict) -> str:
    head = f"{line.pop('at')} {line.pop('level', 'info')!s:<7} {_plain(str(line.pop('event', '')))}"
    return " ".join([head, *(f"{_plain(key)}={_console_value(value)}" for key, value in line.items())])


def _console_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, str) and (not text or any(char in text for char in ' "=') or not text.isprintable()):
        return json.dumps(text, ensure_ascii=False)
    return _plain(text)


def _plain(text: str) -> str:
    """Control characters made visible: a message cannot break the line or drive the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
