"""The application: routes, handlers of errors, the shield before them, and an OpenAPI that says what comes back."""

from typing import Any

from fastapi import FastAPI

from edge_runtime import __version__
from fleet_server.http import (
    audit_routes,
    device_routes,
    enrolment_routes,
    events_routes,
    evidence_routes,
    release_routes,
    review_routes,
    rollout_routes,
    status_routes,
    token_routes,
    update_routes,
)
from fleet_server.http.overview import gauges
from fleet_server.http.problems import HANDLERS, MEDIA_TYPE, ProblemDocument
from fleet_server.http.services import Services
from fleet_server.http.shield import Shield

ROUTERS = (
    status_routes.router,
    enrolment_routes.router,
    events_routes.router,
    evidence_routes.router,
    device_routes.router,
    review_routes.router,
    audit_routes.router,
    token_routes.router,
    release_routes.router,
    update_routes.router,
    rollout_routes.router,
)

DESCRIPTION = """\
The HTTP API of the fleet server. Operators come with a bearer token and its role, devices with their client
certificate. Errors are `application/problem+json`. Times are milliseconds since 1970.
"""


class FleetApp(FastAPI):
    """FastAPI whose OpenAPI declares problems where it would declare its own errors."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = _with_problems(super().openapi())
        return self.openapi_schema


def create_app(services: Services) -> FleetApp:
    """The application over these services; it needs no lifespan, so that it also runs in process."""
    app = FleetApp(
        title="Edge fleet server",
        version=__version__,
        description=DESCRIPTION,
        exception_handlers=HANDLERS,
        docs_url=None,  # its page fetches scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # one thing has one path
    )
    app.state.services = services
    app.state.streams = events_routes.StreamCount()
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(
        Shield,
        limits=services.limits,
        clock=services.clock,
        metrics=services.metrics,
    )
    services.metrics.observe(lambda: gauges(services))
    return app


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = ProblemDocument.model_json_schema()
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    problem = {"description": "An error, RFC 9457.", "content": content}
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["4XX"] = problem
            operation["responses"].setdefault("5XX", problem)
    return document
