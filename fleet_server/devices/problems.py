"""Why an enrolment, a renewal or an operator's act is refused: closed codes, one sentence each, never a secret."""

from enum import Enum

from edge_runtime.errors import EdgeRuntimeError


class ProblemCode(str, Enum):
    """For programs; the HTTP API puts it into the problem's `code`."""

    TOKEN_REFUSED = "token_refused"  # noqa: S105 - a name, not a secret
    TOKEN_EXPIRED = "token_expired"  # noqa: S105
    TOKEN_USED = "token_used"  # noqa: S105
    TOKEN_VOID = "token_void"  # noqa: S105
    SERIAL_REQUIRED = "serial_required"
    SERIAL_NOT_LISTED = "serial_not_listed"
    SERIAL_TAKEN = "serial_taken"
    NAME_RESERVED = "name_reserved"
    REQUEST_INVALID = "request_invalid"
    KEY_REFUSED = "key_refused"
    TOO_MANY_PENDING = "too_many_pending"
    NONCE_REFUSED = "nonce_refused"
    CERTIFICATE_REFUSED = "certificate_refused"
    CERTIFICATE_REVOKED = "certificate_revoked"
    CERTIFICATE_SUPERSEDED = "certificate_superseded"
    SIGNATURE_REFUSED = "signature_refused"
    RENEWAL_TOO_LATE = "renewal_too_late"
    RENEWAL_TOO_OFTEN = "renewal_too_often"
    DEVICE_UNKNOWN = "device_unknown"
    NOTHING_PENDING = "nothing_pending"
    KEY_AMBIGUOUS = "key_ambiguous"
    INVALID = "invalid"


_STATUS = {
    ProblemCode.REQUEST_INVALID: 400,
    ProblemCode.SERIAL_REQUIRED: 400,
    ProblemCode.INVALID: 422,
    ProblemCode.DEVICE_UNKNOWN: 404,
    ProblemCode.NOTHING_PENDING: 404,
    ProblemCode.SERIAL_TAKEN: 409,
    ProblemCode.NAME_RESERVED: 409,
    ProblemCode.TOO_MANY_PENDING: 409,
    ProblemCode.KEY_AMBIGUOUS: 409,
    ProblemCode.RENEWAL_TOO_OFTEN: 429,
}


class DeviceProblem(EdgeRuntimeError):
    """A refusal.

    Attributes:
        code: which.
        status: of HTTP that fits; 403 for all that has no better one.
    """

    def __init__(self, code: ProblemCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.status = _STATUS.get(code, 403)
