"""What is wrong with what people wrote: where it is, and one plain sentence."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

Location = tuple[str | int, ...]
"""Keys and list indexes from the top of the file to a value."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def visible(text: str) -> str:
    """`text` with control and other unprintable characters escaped, so that it stays on its line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def format_location(location: Sequence[str | int]) -> str:
    """`cameras.dock.rules[2].polygon`; a key that is not a plain word stands as `["front door"]`."""
    parts: list[str] = []
    for step in location:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{visible(json.dumps(step, ensure_ascii=False))}]")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding.

    Attributes:
        text: one sentence without a full stop; never holds a secret.
        location: where in the document; empty for the file as a whole.
        line: 1-based line in the file, where known.
        file: where it stands, if that is not the file that is spoken of: the overlay of a release.
    """

    text: str
    location: Location = ()
    line: int | None = None
    file: str | None = None

    @property
    def path(self) -> str:
        """The location as text."""
        return format_location(self.location)

    def show(self, file: str) -> str:
        """`site.yaml:12: cameras.dock.rules[2].polygon: needs at least 3 points`."""
        where = self.file or file
        place = where if self.line is None else f"{where}:{self.line}"
        return ": ".join(part for part in (place, self.path, self.text) if part)
