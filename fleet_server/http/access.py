"""Who asks: an operator by a bearer token, or a device by its certificate. Each has its own rate."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import select

from fleet_server.http.limits import address_name
from fleet_server.http.peer import peer_serial
from fleet_server.http.problems import Problem
from fleet_server.http.services import Services
from fleet_server.http.shield import too_many
from fleet_server.operators import Operator, Role
from fleet_server.storage.device_tables import CertificateRow, DeviceRow

_bearer = HTTPBearer(auto_error=False, description="A token of `fleet token create`.")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="fleet"'}


def services_of(request: Request) -> Services:
    """The services of the application that handles a request."""
    found: Services = request.app.state.services
    return found


Given = Annotated[Services, Depends(services_of)]


def _operator(
    request: Request,
    services: Given,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Operator:
    operator = None
    if credentials is not None:
        with services.store.read() as session:
            operator = services.tokens.authenticate(session, credentials.credentials)
    now_ns = services.clock.monotonic_ns()
    if operator is None:
        _count_failure(request, services)
        text = (
            "a bearer token is needed: see fleet token create"
            if credentials is None
            else "the token is unknown, expired or revoked"
        )
        raise Problem(401, "unauthenticated", text, _CHALLENGE)
    wait = services.buckets.tokens.take(operator.id, now_ns)
    if wait:
        raise too_many(f"the token {operator.name} asks too often", wait)
    return operator


def _count_failure(request: Request, services: Services) -> None:
    """Guessing costs the guesser its rate; whoever behind the same address has a valid token is not affected."""
    wait = services.buckets.failures.take(_address(request), services.clock.monotonic_ns())
    if wait:
        raise too_many("this address failed to identify itself too often", wait)


def _require(role: Role) -> Callable[[Operator], Operator]:
    def check(operator: Annotated[Operator, Depends(_operator)]) -> Operator:
        if not operator.role.includes(role):
            raise Problem(
                403,
                "not_permitted",
                f"this needs the role {role.value}; the token {operator.name} has {operator.role.value}",
            )
        return operator

    return check


Viewer = Annotated[Operator, Depends(_require(Role.VIEWER))]
AsOperator = Annotated[Operator, Depends(_require(Role.OPERATOR))]
Approver = Annotated[Operator, Depends(_require(Role.APPROVER))]
Admin = Annotated[Operator, Depends(_require(Role.ADMIN))]


def device_of(request: Request, services: Given) -> str:
    """The device whose certificate came with the connection.

    Raises:
        Problem: there was none, it is not the device's active one, or the device asks too often.
    """
    peer = peer_serial(request.scope)
    if peer is None:
        raise Problem(401, "no_certificate", "this needs a connection with the device's certificate")
    name, serial = peer
    with services.store.read() as session:
        known = session.scalar(
            select(CertificateRow.device)
            .join(DeviceRow, DeviceRow.id == CertificateRow.device)
            .where(
                CertificateRow.serial == serial,
                CertificateRow.device == name,
                CertificateRow.state == "active",
                DeviceRow.state == "active",
            )
        )
    if known is None:
        _count_failure(request, services)
        raise Problem(
            403, "certificate_not_active", "this certificate is not a device's active one: renew or enrol"
        )
    wait = services.buckets.devices.take(name, services.clock.monotonic_ns())
    if wait:
        raise too_many("this device asks too often", wait)
    return str(known)


AsDevice = Annotated[str, Depends(device_of)]


def limit_enrolment(request: Request, services: Given) -> None:
    """The rate of enrolments and renewals, for each address."""
    wait = services.buckets.enrolment.take(_address(request), services.clock.monotonic_ns())
    if wait:
        raise too_many("too many enrolments come from this address", wait)


def _address(request: Request) -> str:
    return address_name(request.client.host if request.client is not None else None)


__all__ = [
    "Admin",
    "Approver",
    "AsDevice",
    "AsOperator",
    "Given",
    "Viewer",
    "limit_enrolment",
    "services_of",
]
