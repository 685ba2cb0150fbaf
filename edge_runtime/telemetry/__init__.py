"""Logs, metrics and what must never be shown in either. The lowest room: it knows only clock and errors.

Structlog and prometheus-client are imported when logs or metrics are first used: commands that only read a
configuration need neither, and prometheus-client belongs to the device extra. Metrics live in
`edge_runtime.telemetry.metrics`.
"""

from typing import TYPE_CHECKING, Any

from edge_runtime.telemetry.rate_limit import RateLimit
from edge_runtime.telemetry.redaction import (
    MASK,
    assigned_secrets,
    redact,
    redact_patterns,
    register_secret,
    split_user_information,
)

if TYPE_CHECKING:
    from edge_runtime.telemetry.logging import configure_logging, get_logger

__all__ = [
    "MASK",
    "RateLimit",
    "assigned_secrets",
    "configure_logging",
    "get_logger",
    "redact",
    "redact_patterns",
    "register_secret",
    "split_user_information",
]


def __getattr__(name: str) -> Any:
    if name in ("configure_logging", "get_logger"):
        from edge_runtime.telemetry import logging  # noqa: PLC0415 - structlog takes as long as all of typer

        return getattr(logging, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
