"""What trust needs of a network: named files of metadata, each bounded, or a failure that says why."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from edge_runtime.protocol.update import UpdateCode

Get = Callable[[str, int], bytes]
"""`get(name, max_bytes)`: the whole file `name`, such as `3.models.json`.

Raises:
    FetchFailed: it did not come, or is longer than `max_bytes`.
"""


class Fetch(Protocol):
    """Where metadata comes from: `HttpFetch` on a device."""

    def conversation(self) -> AbstractContextManager[Get]:
        """One conversation for one refresh; its end gives everything back."""
        ...


class FetchFailed(Exception):
    """A file of metadata did not come whole. No other exception leaves a `Get`.

    Attributes:
        code: for the report.
        status: HTTP status where the server answered with one, else None.
    """

    def __init__(self, code: UpdateCode, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.code, self.status = code, status
