"""Why a proposal, a key or an upload is not taken: one code for programs and one sentence for people."""

from edge_runtime.errors import EdgeRuntimeError


class ReleaseRefused(EdgeRuntimeError):
    """Something about releases that is refused on purpose.

    Attributes:
        code: for programs, a few words joined by `_`.
        status: of HTTP.
    """

    def __init__(self, code: str, text: str, status: int = 409) -> None:
        super().__init__(text)
        self.code, self.status = code, status
