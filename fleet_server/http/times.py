"""Instants in queries: ISO 8601 with a zone, or milliseconds since 1970."""

from datetime import datetime

from fleet_server.http.problems import Problem

_MOST_MS = 253_402_300_799_999  # the end of the year 9999


def instant_ms(text: str | None, name: str) -> int | None:
    """Milliseconds since 1970, or None for no text.

    Raises:
        Problem: 422, neither form.
    """
    if text is None:
        return None
    if text.isdecimal() and text.isascii():
        value = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise Problem(422, "invalid", f"{name}: ISO 8601 with a zone, or milliseconds since 1970")
        value = round(moment.timestamp() * 1000)
    if not 0 <= value <= _MOST_MS:
        raise Problem(422, "invalid", f"{name}: between 1970 and the end of the year 9999")
    return value
