"""Whether the server lives, whether it works, and how the fleet is: for machines, monitors and people."""

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse, PlainTextResponse

from fleet_server.http.access import Given, Viewer
from fleet_server.http.metrics import CONTENT_TYPE
from fleet_server.http.overview import health_answer, ready_answer
from fleet_server.http.records import HealthAnswer, ReadyAnswer

router = APIRouter(tags=["status"])


@router.get("/healthz", operation_id="isAlive", response_class=PlainTextResponse)
async def is_alive() -> str:
    """200 while this process answers at all; it asks nothing else, so that a busy database restarts nobody."""
    return "ok\n"


@router.get(
    "/readyz",
    operation_id="isReady",
    response_model=ReadyAnswer,
    responses={503: {"model": ReadyAnswer, "description": "A part does not work; the answer says which."}},
)
def is_ready(services: Given) -> Response:
    """200 while the database can be written, the broker is up and ingest takes events; otherwise 503."""
    answer = services.ready.get(services.clock.monotonic_ns(), lambda: ready_answer(services))
    return JSONResponse(answer.model_dump(), status_code=200 if answer.ready else 503)


@router.get("/metrics", operation_id="metrics", response_class=PlainTextResponse)
def metrics(services: Given, _viewer: Viewer) -> Response:
    """Numbers in the text format of Prometheus."""
    return Response(services.metrics.text() + services.other_metrics(), media_type=CONTENT_TYPE)


@router.get("/v1/health", operation_id="showHealth")
def show_health(services: Given, _viewer: Viewer) -> HealthAnswer:
    """The server, its devices and the balance of the ledgers on both sides."""
    return health_answer(services)
