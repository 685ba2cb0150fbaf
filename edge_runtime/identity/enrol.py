"""Enrolment: fetch the authority, compare it with the token's pin, and only then say who we are.

The key is made and written before anything is sent, and asking again uses the same one, so that a crash, a lost
answer or an operator who takes a day cost nothing but time.
"""

import hmac
import random
import secrets
from collections.abc import Callable

from edge_runtime.clock import NS_PER_MS, Clock, SystemClock
from edge_runtime.identity import keys
from edge_runtime.identity.client import ServerClient, checked_url
from edge_runtime.identity.deadline import Deadline
from edge_runtime.identity.files import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    IdentityRecord,
    PendingRequest,
    drop_request,
    load_request,
    locked,
    save,
    save_request,
)
from edge_runtime.identity.problems import IdentityError, Refused, WrongServer
from edge_runtime.protocol.enrolment import (
    EnrolmentRequest,
    EnrolmentResponse,
    EnrolmentState,
    EnrolmentToken,
)
from edge_runtime.state import StateDirectory

DEADLINE_S = 30.0
KEY_REFUSED = "key_refused"
"""The server's word for a key that it has put out."""

_EARLIEST = 0.9
"""A device renews between this share of its time and all of it, so that a batch does not come back at once."""


def enrol(
    server_url: str,
    token: EnrolmentToken,
    state: StateDirectory,
    *,
    serial: str | None = None,
    device: str | None = None,
    clock: Clock | None = None,
    deadline_s: float = DEADLINE_S,
    proxy: str | None = None,
    take_root: Callable[[str], object] = lambda _root: None,
) -> EnrolmentResponse:
    """Get a certificate, or learn that an operator must accept this device first.

    The old identity, where there is one, is used until the new one is whole. Pending: call it again, later.

    Args:
        server_url: `https://host:port` of the fleet server.
        token: from `fleet device invite`.
        state: where key and certificate go.
        serial: hardware serial number; needed for a token of a batch.
        device: the wished id; the server decides.
        clock: measures and dates.
        deadline_s: for the whole conversation, however slowly the server drips.
        proxy: `http://host:port`, or None.
        take_root: given the fleet's `root.json` where it has one, before the identity takes its place: a device
            that is enrolled has it. What it raises is passed on, and asking again asks for the same.

    Raises:
        ServerUnreachable: no whole answer in time.
        WrongServer: the server is not the one that the token pins. It was told nothing.
        Refused: it said no.
        IdentityError: its answer or the state directory cannot be used.
    """
    url, clock = checked_url(server_url), clock or SystemClock()
    with locked(state), Deadline(deadline_s, clock) as deadline:
        authority = _pinned_authority(url, token, deadline, proxy)
        client = ServerClient(url, keys.trusting(authority), deadline, proxy)
        try:
            for is_fresh in (False, True):
                request, key = _request(state, url, token, device)
                try:
                    answer = client.post(
                        "/v1/enrolment",
                        EnrolmentRequest(
                            token_id=token.id,
                            secret=token.secret,
                            csr=request.csr,
                            serial=serial,
                            device=device,
                        ),
                        EnrolmentResponse,
                    )
                except Refused as error:
                    # the server has put this key out, for good: what is left to try is a new one
                    if error.code != KEY_REFUSED or is_fresh:
                        raise
                    drop_request(state)
                    continue
                break
        finally:
            client.close()
        if answer.state is EnrolmentState.ACTIVE:
            if answer.release_root is not None:
                take_root(answer.release_root)
            take(state, answer, key, url=url, clock=clock, token_id=token.id, pinned=token.authority)
            drop_request(state)
        return answer


def take(
    state: StateDirectory,
    answer: EnrolmentResponse,
    key: keys.PrivateKey,
    *,
    url: str,
    clock: Clock,
    token_id: str,
    pinned: str | None = None,
    client_id: str | None = None,
) -> IdentityRecord:
    """Make an answer the device's identity, once it is known to fit.

    Args:
        state: where to.
        answer: with a certificate.
        key: which it must be of.
        url: of the server.
        clock: dates the renewal.
        token_id: which invitation it came from.
        pinned: fingerprint that its authority must have, or None.
        client_id: the device's older one, or None to make one.

    Raises:
        IdentityError: it does not fit, or cannot be written. The old identity stays.
    """
    if answer.certificate is None:
        raise IdentityError("the server's answer has no certificate in it: is it another release?")
    if pinned is not None and not hmac.compare_digest(keys.fingerprint(answer.authority), pinned):
        raise WrongServer("the server answered with another authority than the token names")
    issued = keys.check_issued(answer.certificate, answer.authority, key)
    if issued.device != answer.device:
        raise IdentityError("the server sent a certificate for another device")
    record = IdentityRecord(
        device=answer.device,
        client_id=client_id or f"{answer.device}-{secrets.token_hex(8)}",
        server_url=url,
        broker=answer.broker,
        not_before_ms=issued.not_before_ms,
        not_after_ms=issued.not_after_ms,
        renew_at_ms=_renew_at_ms(issued, answer.renew_after_s, clock),
        token_id=token_id,
    )
    files = {
        KEY: keys.key_pem(key),
        CERTIFICATE: answer.certificate.encode(),
        AUTHORITY: answer.authority.encode(),
    }
    save(state, files, record)
    return record


def _pinned_authority(url: str, token: EnrolmentToken, deadline: Deadline, proxy: str | None) -> str:
    """The server's authority, fetched without trust and compared with the token's pin."""
    client = ServerClient(url, keys.trusting_nobody(), deadline, proxy)
    try:
        authority = client.get_text("/v1/authority")
    finally:
        client.close()
    if not hmac.compare_digest(keys.fingerprint(authority), token.authority):
        raise WrongServer(
            "this is not the server that the token is for, or somebody sits between: nothing was sent to it"
        )
    return authority


def _request(
    state: StateDirectory, url: str, token: EnrolmentToken, device: str | None
) -> tuple[PendingRequest, keys.PrivateKey]:
    """The request that is under way at this server, or a new one."""
    found = load_request(state)
    if found is not None and (found[0].server_url, found[0].authority) == (url, token.authority):
        try:
            return found[0], keys.read_key(found[1])
        except IdentityError:
            pass  # torn: nobody has a certificate for it
    key = keys.new_key()
    request = PendingRequest(server_url=url, authority=token.authority, csr=keys.signing_request(key, device))
    save_request(state, request, keys.key_pem(key))
    return request, key


def _renew_at_ms(issued: keys.Issued, renew_after_s: int, clock: Clock) -> int:
    """When to renew: as the server says, by our clock where that can be right, else at two thirds."""
    share = random.uniform(_EARLIEST, 1)  # noqa: S311 - spreads load, no secret
    now_ms = clock.wall().unix_ns // NS_PER_MS
    if issued.not_before_ms <= now_ms < issued.not_after_ms:
        return min(now_ms + round(renew_after_s * 1000 * share), issued.not_after_ms)
    return issued.not_before_ms + round((issued.not_after_ms - issued.not_before_ms) * 2 / 3 * share)
