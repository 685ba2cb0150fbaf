"""Events as the runtime appends them to its file."""

import json
from typing import Any

from hil.device_parts import SeenEvent


def events_in(text: str) -> list[SeenEvent]:
    """The events of an NDJSON file, in order; the last line may be half written."""
    return [found for line in text.splitlines() if (found := _event(line)) is not None]


def _event(line: str) -> SeenEvent | None:
    try:
        one: Any = json.loads(line)
        return SeenEvent(one["rule"], one["state"], float(one["latency_ms"]), late=bool(one["late"]))
    except (ValueError, KeyError, TypeError):
        return None
