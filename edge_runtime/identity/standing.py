"""Whether the server still takes a device that is enrolled, asked with its own key and the token it came with."""

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.identity import keys
from edge_runtime.identity.client import ServerClient
from edge_runtime.identity.deadline import Deadline
from edge_runtime.identity.enrol import DEADLINE_S, KEY_REFUSED
from edge_runtime.identity.files import AUTHORITY, KEY, read_text
from edge_runtime.identity.identity import Identity
from edge_runtime.identity.problems import IdentityError, Refused
from edge_runtime.protocol.enrolment import (
    EnrolmentRequest,
    EnrolmentResponse,
    EnrolmentState,
    EnrolmentToken,
)


def standing(
    identity: Identity,
    token: EnrolmentToken,
    *,
    serial: str | None = None,
    clock: Clock | None = None,
    deadline_s: float = DEADLINE_S,
    proxy: str | None = None,
) -> EnrolmentState | None:
    """How an enrolled device stands at its server. Nothing changes, here or there.

    Args:
        identity: the device's.
        token: that it was enrolled with; a key that is known is answered for, and uses nothing of it up.
        serial: hardware serial number, as at the enrolment.
        clock: measures.
        deadline_s: for the whole conversation.
        proxy: `http://host:port`, or None.

    Returns:
        As the server says; None where it can say nothing, because it forgot the token.

    Raises:
        ServerUnreachable: no whole answer in time.
        WrongServer: the server is not of the fleet's authority.
        Refused: the device was revoked, removed or enrolled elsewhere.
        IdentityError: the identity or the answer cannot be used.
    """
    with Deadline(deadline_s, clock or SystemClock()) as deadline:
        key = keys.read_key(read_text(identity.state, KEY).encode())
        trust = keys.trusting(read_text(identity.state, AUTHORITY))
        client = ServerClient(identity.server_url, trust, deadline, proxy)
        request = EnrolmentRequest(
            token_id=token.id,
            secret=token.secret,
            csr=keys.signing_request(key, identity.device),
            serial=serial,
            device=identity.device,
        )
        try:
            answer = client.post("/v1/enrolment", request, EnrolmentResponse)
        except Refused as error:
            if error.code != KEY_REFUSED:
                return None
            raise Refused(
                f"the server takes this device's key no more: {identity.device} was revoked, removed or enrolled "
                f"elsewhere; fleet device invite --device {identity.device} makes a token for --again",
                error.code,
            ) from None
        finally:
            client.close()
        if answer.device != identity.device:
            raise IdentityError("the server answered for another device")
        return answer.state
