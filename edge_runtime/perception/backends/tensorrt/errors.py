"""Errors of engines; those of the device are in `_cuda`."""

from collections.abc import Sequence

from edge_runtime.errors import BackendError


class EngineRefused(BackendError):
    """TensorRT does not take the engine, or this runtime cannot run it.

    Attributes:
        lines: what TensorRT's logger said, oldest first.
    """

    def __init__(self, text: str, lines: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.lines = tuple(lines)
