"""What can go wrong between the command line and the server, each with its exit code."""

from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.cli.commands import EXIT_NOT_FOUND, EXIT_NOT_PERMITTED, EXIT_NOT_REACHABLE


class ServerRefused(EdgeRuntimeError):
    """The server answered that it will not."""


class NotFound(EdgeRuntimeError):
    """There is no such thing."""

    exit_code = EXIT_NOT_FOUND


class NotReachable(EdgeRuntimeError):
    """The server does not answer, or is not the one that was meant."""

    exit_code = EXIT_NOT_REACHABLE


class NotPermitted(EdgeRuntimeError):
    """The token is no good for this."""

    exit_code = EXIT_NOT_PERMITTED


_BY_STATUS: dict[int, type[EdgeRuntimeError]] = {
    400: ConfigError,
    401: NotPermitted,
    403: NotPermitted,
    404: NotFound,
    422: ConfigError,
    502: NotReachable,
    503: NotReachable,
    504: NotReachable,
}


def error_of(status: int, detail: str) -> EdgeRuntimeError:
    """The error that an answer of HTTP means."""
    return _BY_STATUS.get(status, ServerRefused)(detail)
