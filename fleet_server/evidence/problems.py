"""Why an upload is not taken. Each has the status of HTTP that tells the device what to do next."""

from edge_runtime.errors import EdgeRuntimeError


class EvidenceProblem(EdgeRuntimeError):
    """Base of them.

    Attributes:
        status: of HTTP.
    """

    status = 400


class NotExpected(EvidenceProblem):
    """No committed decision of this device names this digest; also said of a digest that is none."""

    status = 403


class WrongOffset(EvidenceProblem):
    """The piece does not begin where the upload stands.

    Attributes:
        offset: where it stands, bytes.
    """

    status = 409

    def __init__(self, offset: int) -> None:
        super().__init__(f"the upload stands at {offset}")
        self.offset = offset


class WrongDigest(EvidenceProblem):
    """All bytes came, and they are not the ones that were promised: the upload begins anew."""

    status = 409


class EvidenceTooLong(EvidenceProblem):
    """The piece goes beyond the length that the decision states."""

    status = 413


class EvidenceBusy(EvidenceProblem):
    """Another request writes this very evidence now."""

    status = 423


class QuotaFull(EvidenceProblem):
    """All evidence together has reached the server's quota."""

    status = 507


class StorageFull(EvidenceProblem):
    """The disk has too little free space, or refuses to write."""

    status = 507
