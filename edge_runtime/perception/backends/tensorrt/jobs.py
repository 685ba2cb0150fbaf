"""What is handed to the device's thread: runs, and calls between two of them."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.base import Tensor

T = TypeVar("T")


class Job:
    """One run that was asked for.

    Attributes:
        feeds: input arrays by name; not read any more once the job has begun.
        outputs: of the run, or None.
        error: why there are none.
    """

    def __init__(self, feeds: Mapping[str, Tensor]) -> None:
        self.feeds = feeds
        self.outputs: list[Tensor] | None = None
        self.error: BackendError | None = None
        self.finished = threading.Event()

    def fail(self, error: BackendError) -> None:
        """End it without outputs."""
        self.error = error
        self.finished.set()

    def succeed(self, outputs: list[Tensor]) -> None:
        """End it with them."""
        self.outputs = outputs
        self.finished.set()


class Call(Generic[T]):
    """Something else to be done on the thread."""

    def __init__(self, action: Callable[[Any], T]) -> None:
        self.action = action
        self.result: T | None = None
        self.error: BaseException | None = None
        self.finished = threading.Event()
