"""Renewal: a new key, signed for by the old one. It works also when the old certificate has run out meanwhile."""

from edge_runtime.clock import Clock, SystemClock
from edge_runtime.identity import keys
from edge_runtime.identity.client import ServerClient
from edge_runtime.identity.deadline import Deadline
from edge_runtime.identity.enrol import DEADLINE_S, take
from edge_runtime.identity.files import AUTHORITY, CERTIFICATE, KEY, locked, read_text
from edge_runtime.identity.identity import Identity
from edge_runtime.identity.problems import IdentityError
from edge_runtime.protocol.enrolment import EnrolmentResponse, RenewalChallenge, RenewalRequest


def renew(
    identity: Identity,
    *,
    clock: Clock | None = None,
    deadline_s: float = DEADLINE_S,
    proxy: str | None = None,
) -> Identity:
    """Get the next certificate. Until it is whole on the disk the old one stays, and the server accepts both.

    Args:
        identity: the present one; read anew, because another process may have renewed it.
        clock: measures and dates.
        deadline_s: for the whole conversation.
        proxy: `http://host:port`, or None.

    Returns:
        The new identity.

    Raises:
        ServerUnreachable: no whole answer in time.
        WrongServer: the server is not of the fleet's authority.
        Refused: revoked, superseded, or too long out of date: only a new token helps.
        IdentityError: the answer or the state directory cannot be used.
    """
    state, clock = identity.state, clock or SystemClock()
    with locked(state), Deadline(deadline_s, clock) as deadline:
        present = Identity.load(state)
        if present is None:
            raise IdentityError("this device is not enrolled: enrol it with a token")
        old_key = keys.read_key(read_text(state, KEY).encode())
        new_key = keys.new_key()
        csr = keys.signing_request(new_key, present.device)
        client = ServerClient(present.server_url, keys.trusting(read_text(state, AUTHORITY)), deadline, proxy)
        try:
            nonce = client.post("/v1/renewal/challenge", None, RenewalChallenge).nonce
            answer = client.post(
                "/v1/renewal",
                RenewalRequest(
                    certificate=read_text(state, CERTIFICATE),
                    csr=csr,
                    nonce=nonce,
                    signature=keys.signature(old_key, nonce, csr),
                ),
                EnrolmentResponse,
            )
        finally:
            client.close()
        if answer.device != present.device:
            raise IdentityError("the server answered for another device")
        record = take(
            state,
            answer,
            new_key,
            url=present.server_url,
            clock=clock,
            token_id=present.token_id,
            client_id=present.client_id,
        )
        return Identity.of(state, record)
