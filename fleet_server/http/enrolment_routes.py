"""How devices get in: the authority's certificate, enrolment with a token, and renewal signed by the old key."""

from fastapi import APIRouter, Depends
from starlette.responses import PlainTextResponse

from edge_runtime.protocol.enrolment import (
    EnrolmentRequest,
    EnrolmentResponse,
    RenewalChallenge,
    RenewalRequest,
)
from fleet_server.http.access import Given, limit_enrolment

router = APIRouter(prefix="/v1", tags=["enrolment"])
_LIMITED = [Depends(limit_enrolment)]


@router.get("/authority", operation_id="showAuthority", response_class=PlainTextResponse)
def show_authority(services: Given) -> str:
    """The authority's certificate in PEM. It is public; a token pins it."""
    return services.enrolment.authority.pem


@router.post("/enrolment", operation_id="enrol", dependencies=_LIMITED)
def enrol(request: EnrolmentRequest, services: Given) -> EnrolmentResponse:
    """Exchange a token and a signing request for a certificate, or wait for an operator.

    Asking again with the same key is answered from what was decided and uses nothing up.
    """
    return services.enrolment.enrol(request)


@router.post("/renewal/challenge", operation_id="challenge", dependencies=_LIMITED)
def challenge(services: Given) -> RenewalChallenge:
    """A nonce for a renewal, good for two minutes and one use."""
    return services.enrolment.challenge()


@router.post("/renewal", operation_id="renew", dependencies=_LIMITED)
def renew(request: RenewalRequest, services: Given) -> EnrolmentResponse:
    """The next certificate of a device, signed for with the key of the one that it has, even if that ran out."""
    return services.enrolment.renew(request)
