"""What the API is asked with: one record for each body of a request. What is not known here is refused."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.protocol.topics import DeviceId
from fleet_server.operators import Role

Label = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9 _./:@+-]*$")]
LabelKey = Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]*$")]
Labels = Annotated[dict[LabelKey, Label], Field(max_length=32)]
Note = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InvitationRequest(_Request):
    """What an invitation is for: one device, or a list of serial numbers of a production line."""

    device: DeviceId | None = None
    labels: Labels = {}
    serials: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\x21-\x7e]+$")]],
            Field(min_length=1, max_length=10_000),
        ]
        | None
    ) = None
    needs_approval: bool = False
    expires_s: Annotated[int, Field(ge=60, le=30 * 86_400)] = 86_400


class LabelsRequest(_Request):
    """Labels to set; a label with the value null is taken away."""

    labels: Annotated[dict[LabelKey, Label | None], Field(min_length=1, max_length=32)]


class ApprovalRequest(_Request):
    """What is accepted: the key that the operator has seen, or the beginning of its digest."""

    key_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")] | None = None


class ReasonRequest(_Request):
    """Why, for the audit."""

    reason: Note | None = None


class ReviewRequest(_Request):
    """Why a person releases or drops a held item."""

    reason: Note


class ReleaseRequest(ReviewRequest):
    """Why a person releases a held item, and what goes with it.

    Attributes:
        evidence: how much of its crop; the device's policy has the last word.
    """

    evidence: Literal["none", "redacted"] = "none"


class TokenRequest(_Request):
    """A token to make."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 @._-]{0,63}$")]
    role: Role
    expires_s: Annotated[int, Field(ge=60, le=10 * 365 * 86_400)] | None = None
