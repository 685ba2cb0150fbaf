"""Tokens of the API: made, listed and revoked by admins."""

from typing import Annotated

from fastapi import APIRouter, Path

from fleet_server.http.access import Admin, Given, Viewer
from fleet_server.http.problems import not_found
from fleet_server.http.records import NewTokenAnswer, TokenAnswer, TokenPage
from fleet_server.http.requests import TokenRequest

NameInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9 @._-]{0,63}$")]

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


@router.get("", operation_id="listTokens")
def list_tokens(services: Given, _admin: Admin) -> TokenPage:
    """All tokens, the newest first; never their secrets."""
    with services.store.read() as session:
        found = services.tokens.tokens(session)
    return TokenPage(tokens=[TokenAnswer.model_validate(token) for token in found])


@router.get("/self", operation_id="showOwnToken")
def show_own_token(services: Given, viewer: Viewer) -> TokenAnswer:
    """The token of this request: who am I, and what may I do?"""
    with services.store.read() as session:
        found = next((token for token in services.tokens.tokens(session) if token.id == viewer.id), None)
    if found is None:
        raise not_found("token", viewer.name)
    return TokenAnswer.model_validate(found)


@router.post("", operation_id="createToken", status_code=201)
def create_token(request: TokenRequest, services: Given, by: Admin) -> NewTokenAnswer:
    """A new token. Its text is in this answer and nowhere else."""
    with services.store.write() as session:
        token, text = services.tokens.create(session, request.name, request.role, request.expires_s)
        detail = {"role": token.role.value, "expires_ms": token.expires_ms}
        services.audit.record(session, by.name, "token.create", token.name, detail)
    return NewTokenAnswer(**dict(TokenAnswer.model_validate(token)), token=text)


@router.delete("/{name}", operation_id="revokeToken")
def revoke_token(name: NameInPath, services: Given, by: Admin) -> TokenAnswer:
    """End a token, by its name or id, at once. The last admin token stays."""
    with services.store.write() as session:
        token = services.tokens.revoke(session, name)
        if token is None:
            raise not_found("token", name)
        services.audit.record(session, by.name, "token.revoke", token.name, {})
    return TokenAnswer.model_validate(token)
