"""Every operation of the OpenAPI, asked by a machine that knows its schema and has no manners."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fleet_server.http.app import ROUTERS
from fleet_server.http.limits import Limits, Rate
from fleet_server.operators import Role
from tests.rigs.deliveries import DeviceRig
from tests.rigs.fleet_api import FleetApi, fleet_api


@schemathesis.serializer("application/offset+octet-stream")
def as_bytes(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ENDLESS = "streamEvents"
OPERATIONS = sorted(
    route.operation_id
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and route.operation_id and route.operation_id != ENDLESS
)
NO_LIMIT = Rate(1e9, 1_000_000)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetApi]:
    folder = tmp_path_factory.mktemp("schema")
    limits = Limits(address=NO_LIMIT, token=NO_LIMIT, failures=NO_LIMIT, enrolment=NO_LIMIT, device=NO_LIMIT)
    for made in fleet_api(folder, f"sqlite:///{folder / 'fleet.db'}", limits):
        made.add_device("dock-1")
        made.deliver(DeviceRig("dock-1"), {}, {})
        made.hold("dock-1", 3)
        yield made


@pytest.fixture(scope="module")
def token(api: FleetApi) -> str:
    return str(api.client(Role.ADMIN).headers["authorization"])


@pytest.fixture(scope="module")
def operations(api: FleetApi) -> dict[str, Any]:
    """Operations of the OpenAPI by id."""
    loaded = schemathesis.openapi.from_dict(api.application.app.openapi())
    loaded.app = api.application.app
    found: list[Any] = [result.ok() for result in loaded.get_all_operations()]  # type: ignore[union-attr]
    return {operation.definition.raw["operationId"]: operation for operation in found}


def test_no_operation_is_forgotten(operations: dict[str, Any]) -> None:
    assert set(operations) == {*OPERATIONS, ENDLESS}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_few_requests_of_each_kind(operation: str, operations: dict[str, Any], token: str) -> None:
    ask(operations[operation], token, 8)


@pytest.mark.trial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_many_requests_of_each_kind(operation: str, operations: dict[str, Any], token: str) -> None:
    ask(operations[operation], token, 300)


def ask(operation: Any, token: str, count: int) -> None:
    """So many requests of one operation, with an admin's token, each answered as the OpenAPI says."""

    @hypothesis.settings(
        max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @hypothesis.given(case=operation.as_strategy())
    def one(case: Any) -> None:
        case.headers = {**(case.headers or {}), "Authorization": token}
        case.call_and_validate(checks=CHECKS)

    one()


def test_nothing_was_harmed(api: FleetApi, token: str, tmp_path: Path) -> None:
    client = api.client(token=token.removeprefix("Bearer "))
    assert client.post("/v1/audit/verify").json()["whole"]
    assert client.get("/healthz").status_code == 200
