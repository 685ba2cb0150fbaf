"""Why an operator's act on a rollout is refused: closed codes, one sentence each."""

from enum import Enum

from edge_runtime.errors import EdgeRuntimeError


class RolloutProblemCode(str, Enum):
    """For programs; the HTTP API puts it into the problem's `code`."""

    UNKNOWN = "rollout_unknown"
    DEVICE_UNKNOWN = "device_unknown"
    RELEASE_UNKNOWN = "release_unknown"
    RELEASE_REVOKED = "release_revoked"
    PLAN_REFUSED = "plan_refused"
    NOBODY_ELIGIBLE = "nobody_eligible"
    WRONG_STATE = "wrong_state"
    NEEDS_ANOTHER_PERSON = "needs_another_person"
    NEEDS_APPROVAL = "needs_approval"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    CANNOT_ROLL_BACK = "cannot_roll_back"


_STATUS = {
    RolloutProblemCode.UNKNOWN: 404,
    RolloutProblemCode.DEVICE_UNKNOWN: 404,
    RolloutProblemCode.RELEASE_UNKNOWN: 404,
    RolloutProblemCode.PLAN_REFUSED: 422,
    RolloutProblemCode.NOBODY_ELIGIBLE: 422,
    RolloutProblemCode.NEEDS_ANOTHER_PERSON: 403,
}


class RolloutProblem(EdgeRuntimeError):
    """A refusal; nothing was changed.

    Attributes:
        code: which.
        status: of HTTP that fits; 409 for all that has no better one.
    """

    def __init__(self, code: RolloutProblemCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.status = _STATUS.get(code, 409)
