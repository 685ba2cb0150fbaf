"""Errors as RFC 9457 problems: what is wrong in one sentence, and never a stack trace."""

import re
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from edge_runtime.errors import EdgeRuntimeError
from fleet_server.devices import DeviceProblem
from fleet_server.evidence import EvidenceProblem, WrongOffset
from fleet_server.http.invalid import sentence_of
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.rollouts.problems import RolloutProblem

MEDIA_TYPE = "application/problem+json"


class ProblemDocument(BaseModel):
    """The body of every answer that is an error.

    Attributes:
        code: what is wrong, for programs.
        detail: the same, for people.
    """

    type: str = "about:blank"
    title: str
    status: int = Field(ge=400, le=599)
    code: str
    detail: str


class Problem(HTTPException):
    """An answer that is an error.

    Args:
        status: of HTTP, 400 to 599.
        code: a short name for programs.
        detail: one sentence for people: what is wrong and what to do next.
        headers: more headers of the answer.
    """

    def __init__(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)
        self.code = code

    @property
    def document(self) -> ProblemDocument:
        """The body."""
        return ProblemDocument(
            title=HTTPStatus(self.status_code).phrase,
            status=self.status_code,
            code=self.code,
            detail=str(self.detail),
        )


class ProblemResponse(JSONResponse):
    """A problem as a response."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem) -> None:
        headers = dict(problem.headers or {})
        super().__init__(problem.document.model_dump(), status_code=problem.status_code, headers=headers)


def not_found(what: str, name: str) -> Problem:
    """404 for a thing that the request names."""
    return Problem(404, "not_found", f"there is no {what} {name[:128]}")


async def on_problem(_request: Request, error: Exception) -> ProblemResponse:
    """Handler for `Problem` and for the framework's own errors."""
    if isinstance(error, Problem):
        return ProblemResponse(error)
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase
        code = phrase.lower().replace(" ", "_")
        detail = (
            "there is nothing at this path" if error.status_code == HTTPStatus.NOT_FOUND else error.detail
        )
        return ProblemResponse(Problem(error.status_code, code, str(detail), dict(error.headers or {})))
    raise error


async def on_invalid(_request: Request, error: Exception) -> ProblemResponse:
    """422 for a request of the wrong shape: where it is wrong and how, without repeating its values."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    return ProblemResponse(Problem(422, "invalid", sentence_of(found)))


async def on_refused(_request: Request, error: Exception) -> ProblemResponse:
    """409 for what the server refuses on purpose; the sentence is the error's own."""
    return ProblemResponse(Problem(409, "refused", " ".join(str(error).split())[:500]))


async def on_database(_request: Request, _error: Exception) -> ProblemResponse:
    """503 for a database that is locked, full, away or of another version."""
    return ProblemResponse(
        Problem(503, "database_unavailable", "the database did not answer: try again", {"Retry-After": "2"})
    )


async def on_device_problem(_request: Request, error: Exception) -> ProblemResponse:
    """What the rooms of devices refuse has its own status and code."""
    if not isinstance(error, DeviceProblem):  # pragma: no cover - registered for this class alone
        raise error
    headers = {"Retry-After": "3600"} if error.status == HTTPStatus.TOO_MANY_REQUESTS else None
    return ProblemResponse(Problem(error.status, error.code.value, str(error), headers))


async def on_evidence_problem(_request: Request, error: Exception) -> ProblemResponse:
    """Why an upload is not taken; a device goes on from the `Upload-Offset` that it is told."""
    if not isinstance(error, EvidenceProblem):  # pragma: no cover - registered for this class alone
        raise error
    code = re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
    headers = {"Upload-Offset": str(error.offset)} if isinstance(error, WrongOffset) else None
    if error.status == HTTPStatus.INSUFFICIENT_STORAGE:
        headers = {"Retry-After": "300"}
    return ProblemResponse(Problem(error.status, code, str(error), headers))


async def on_release_refused(_request: Request, error: Exception) -> ProblemResponse:
    """Why a proposal or a file of a release is not taken has its own status and code."""
    if not isinstance(error, ReleaseRefused):  # pragma: no cover - registered for this class alone
        raise error
    return ProblemResponse(
        Problem(error.status, error.code.replace("-", "_"), " ".join(str(error).split())[:500])
    )


async def on_rollout_problem(_request: Request, error: Exception) -> ProblemResponse:
    """Why an act on a rollout is refused has its own status and code."""
    if not isinstance(error, RolloutProblem):  # pragma: no cover - registered for this class alone
        raise error
    return ProblemResponse(Problem(error.status, error.code.value, " ".join(str(error).split())[:500]))


async def on_conflict(_request: Request, _error: Exception) -> ProblemResponse:
    """409 for two requests that wanted the same at the same moment."""
    return ProblemResponse(
        Problem(409, "conflict", "another request did the same at this moment: look again")
    )


HANDLERS: dict[Any, Any] = {
    HTTPException: on_problem,
    RequestValidationError: on_invalid,
    DeviceProblem: on_device_problem,
    EvidenceProblem: on_evidence_problem,
    ReleaseRefused: on_release_refused,
    RolloutProblem: on_rollout_problem,
    EdgeRuntimeError: on_refused,
    OperationalError: on_database,
    IntegrityError: on_conflict,
    PoolTimeout: on_database,
}
