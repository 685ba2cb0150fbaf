"""What can go wrong with an identity, each in one sentence that says what to do. None repeats a secret."""

from edge_runtime.errors import EdgeRuntimeError


class IdentityError(EdgeRuntimeError):
    """The device's identity cannot be used, kept or had."""


class ServerUnreachable(IdentityError):
    """No whole answer came in time. Trying again later may help."""


class WrongServer(IdentityError):
    """Who answered is not the server that the token or the identity names. Nothing was sent to it."""


class Refused(IdentityError):
    """The server said no.

    Attributes:
        code: the server's word for it, for programs; empty where it gave none.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code
