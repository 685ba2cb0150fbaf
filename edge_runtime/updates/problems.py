"""Why an update is not taken, or is taken back: one code for machines and one sentence for people."""

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.update import UpdateCode


class UpdateRefused(EdgeRuntimeError):
    """An assignment that this device does not carry out, or no longer.

    Attributes:
        code: why, from the closed vocabulary of reports.
        again: whether the same assignment may succeed later without anything new from the server.
    """

    def __init__(self, code: UpdateCode, text: str, *, again: bool = False) -> None:
        super().__init__(text)
        self.code, self.again = code, again
