"""Why an update is not taken, or is taken back: one code for machines and one sentence for people."""

from edge_runtime.durable import NO_ROOM
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


def disk_refusal(error: OSError, code: UpdateCode, what: str) -> UpdateRefused:
    """What a failure of the disk means for an update, which may succeed once the disk is well.

    Args:
        error: of the system.
        code: where it is not that the disk is full.
        what: could not be done, for people.
    """
    why = error.strerror or type(error).__name__
    return UpdateRefused(
        UpdateCode.NO_SPACE if error.errno in NO_ROOM else code, f"{what}: {why}", again=True
    )
