"""What a command on the server's machine can learn of the running server: it asks it."""

import ssl
from collections.abc import Callable
from typing import Any

import httpx

from edge_runtime.clock import NS_PER_S, Clock
from fleet_server.http.services import Cached, Readiness
from fleet_server.paths import ServerPaths
from fleet_server.serve.running import running_server

_TIMEOUT_S = 5.0
_NOT_RUNNING = Readiness(ready=False, detail="no server runs on this directory (fleet serve)")


class RemoteReadiness:
    """Asks `/readyz` of the server that runs on a data directory.

    Args:
        paths: of the directory.
        clock: an answer is used for a second.
    """

    def __init__(self, paths: ServerPaths, clock: Clock) -> None:
        self._paths, self._clock = paths, clock
        self._parts: Cached[dict[str, Readiness]] = Cached(NS_PER_S)

    def probes(self) -> dict[str, Callable[[], Readiness]]:
        """Parts that only the running server knows."""
        return {name: self._probe(name) for name in ("server", "broker", "ingest")}

    def _probe(self, name: str) -> Callable[[], Readiness]:
        def probe() -> Readiness:
            parts = self._parts.get(self._clock.monotonic_ns(), self._ask)
            unknown = Readiness(ready=None, detail="unknown while no server answers")
            return parts.get(name, unknown)

        return probe

    def _ask(self) -> dict[str, Readiness]:
        running = running_server(self._paths)
        if running is None:
            return {"server": _NOT_RUNNING}
        try:
            with httpx.Client(verify=_trusting(self._paths), timeout=_TIMEOUT_S, trust_env=False) as client:
                answer: Any = client.get(f"https://localhost:{running.port}/readyz").json()
            parts = {
                str(part["name"]): Readiness(ready=part["ready"], detail=str(part["detail"]))
                for part in answer["parts"]
            }
        except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError):
            text = f"process {running.pid} runs and does not answer"
            return {"server": Readiness(ready=False, detail=text)}
        text = f"process {running.pid} on port {running.port}, broker {running.broker}"
        return parts | {"server": Readiness(ready=True, detail=text)}


def _trusting(paths: ServerPaths) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(paths.ca_certificate))
