"""`FleetClient`: the HTTP API as calls that return plain data, over the network or in process."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from fleet_server.cli.errors import NotReachable, ServerRefused, error_of
from fleet_server.cli.target import LocalTarget, RemoteTarget, choose

if TYPE_CHECKING:  # at run time a module that speaks imports it: help and errors of usage need none of it
    import ssl

    import httpx

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_DOWNLOAD_BYTES = 1024 * 1024 * 1024
DEADLINE_S = 60.0
"""One request and its answer, redials and slow bytes included. A stream has no end."""

DOWNLOAD_DEADLINE_S = 900.0
"""One piece of evidence: the largest that a server takes by default comes in this time at 18 kB/s."""

_CONNECT_S = 5.0
_TIMEOUT_S = 35.0
"""Between two bytes; a live stream says something every ten seconds."""

_PIECE_S = 125.0
"""The server waits so long for a piece of a file."""

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a live stream."""

    id: str
    data: Any


class FleetClient:
    """A connection to one server, opened with the first request: what is wrong with a command is said before.

    Args:
        target: says which server; asked once.
        clock: for deadlines.
    """

    def __init__(self, target: Callable[[], RemoteTarget | LocalTarget], clock: Clock) -> None:
        self._target, self._clock = target, clock
        self._opened: httpx.Client | None = None
        self._where = ""

    @classmethod
    def to(cls, target: RemoteTarget | LocalTarget) -> "FleetClient":
        """A client of a target.

        Raises:
            ConfigError: the authority's file or the data directory cannot be used.
        """
        client = cls(lambda: target, SystemClock())
        client._open()
        return client

    @property
    def where(self) -> str:
        """How the server is called: its URL, or its data directory; empty before the first request."""
        return self._where

    @property
    def _http(self) -> "httpx.Client":
        return self._opened or self._open()

    def _open(self) -> "httpx.Client":
        target = self._target()
        if isinstance(target, LocalTarget):
            # imported here, because an operator's machine needs none of the server's parts
            from fleet_server.cli.in_process import local_client

            self._opened, self._where = local_client(target.directory), str(target.directory)
        else:
            from fleet_server.cli.lean_httpx import httpx

            self._where = target.url
            self._opened = httpx.Client(
                base_url=target.url,
                headers={"Authorization": f"Bearer {target.token}"},
                verify=_tls(target),
                timeout=httpx.Timeout(_TIMEOUT_S, connect=_CONNECT_S, pool=_CONNECT_S),
                trust_env=False,  # a proxy of the environment would be given the token
            )
        return self._opened

    def close(self) -> None:
        """End it."""
        if self._opened is not None:
            self._opened.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """Ask. Parameters that are None are left out; the path may have some of its own.

        Raises:
            EdgeRuntimeError: of `fleet_server.cli.errors`, with its exit code.
        """
        return self._call("GET", path, parameters, None)

    def post(self, path: str, body: Mapping[str, Any] | None = None, **parameters: Any) -> Any:
        """Act, or ask what needs more than an address can hold.

        Raises:
            EdgeRuntimeError: as `get`.
        """
        return self._call("POST", path, parameters, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change.

        Raises:
            EdgeRuntimeError: as `get`.
        """
        return self._call("PATCH", path, {}, body)

    def delete(self, path: str) -> Any:
        """Take away.

        Raises:
            EdgeRuntimeError: as `get`.
        """
        return self._call("DELETE", path, {}, None)

    def send(self, path: str, data: bytes, headers: Mapping[str, str]) -> None:
        """Hand in a piece of a file, to which the answer has no body.

        Raises:
            EdgeRuntimeError: as `get`.
        """
        from fleet_server.cli.lean_httpx import httpx

        waits = httpx.Timeout(_PIECE_S, connect=_CONNECT_S, pool=_CONNECT_S)
        try:
            response = self._http.patch(path, content=data, headers=dict(headers), timeout=waits)
        except httpx.HTTPError as error:
            raise self._not_reachable(error) from None
        if response.is_error:
            raise _error(response)

    def pages(self, path: str, name: str, cursor: str, /, **parameters: Any) -> Iterator[Any]:
        """Every item of a listing, page by page.

        Args:
            path: of the listing.
            name: under which an answer has its items.
            cursor: parameter that takes an answer's `next`.
            parameters: filters; a first value of the cursor may be among them.
        """
        while True:
            answer = self.get(path, **{"limit": _PAGE, **parameters})
            yield from answer[name]
            if answer["next"] is None:
                return
            parameters[cursor] = answer["next"]

    def download(
        self,
        path: str,
        into: BinaryIO,
        most: int = MAX_DOWNLOAD_BYTES,
        within_s: float = DOWNLOAD_DEADLINE_S,
    ) -> int:
        """Fetch bytes; how many.

        Args:
            path: of what is fetched.
            into: where to.
            most: bytes.
            within_s: seconds for all of it, however slowly it drips.

        Raises:
            EdgeRuntimeError: as `get`; also where there are more than `most` bytes, or they come too slowly.
        """
        from fleet_server.cli.lean_httpx import httpx

        deadline_ns = self._clock.monotonic_ns() + round(within_s * NS_PER_S)
        size = 0
        try:
            with self._http.stream("GET", path) as response:
                if response.is_error:
                    response.read()
                    raise _error(response)
                for part in response.iter_bytes():
                    size += len(part)
                    if size > most:
                        raise ServerRefused(f"{self._where}: there are more than {most} bytes")
                    if self._clock.monotonic_ns() > deadline_ns:
                        raise NotReachable(f"{self._where}: not all of it came within {within_s:.0f} s")
                    into.write(part)
        except httpx.HTTPError as error:
            raise self._not_reachable(error) from None
        return size

    @contextmanager
    def stream(
        self, path: str, last_id: str | None, **parameters: Any
    ) -> Iterator[Iterator[ServerSentEvent]]:
        """A live stream of server-sent events, which ends when the server ends it.

        Raises:
            EdgeRuntimeError: as `get`; `NotReachable` also in the middle.
        """
        from fleet_server.cli.lean_httpx import httpx

        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        try:
            with self._http.stream("GET", _address(path, parameters), headers=headers) as response:
                if response.is_error:
                    response.read()
                    raise _error(response)
                yield _events(response)
        except httpx.HTTPError as error:
            raise self._not_reachable(error) from None

    def _call(self, method: str, path: str, parameters: Mapping[str, Any], body: Any) -> Any:
        http = self._http  # what is wrong with the command is said before anything of it is imported
        from fleet_server.cli.lean_httpx import httpx

        deadline_ns = self._clock.monotonic_ns() + round(DEADLINE_S * NS_PER_S)
        try:
            with http.stream(method, _address(path, parameters), json=body) as response:
                parts, size = [], 0
                for part in response.iter_bytes():
                    size += len(part)
                    if size > MAX_ANSWER_BYTES:
                        raise ServerRefused(
                            f"{self._where}: the answer is longer than {MAX_ANSWER_BYTES} bytes"
                        )
                    if self._clock.monotonic_ns() > deadline_ns:
                        raise NotReachable(f"{self._where}: no whole answer within {DEADLINE_S:.0f} s")
                    parts.append(part)
        except httpx.HTTPError as error:
            raise self._not_reachable(error) from None
        content = b"".join(parts)
        if response.is_error:
            raise _problem(response.status_code, content)
        try:
            return json.loads(content)
        except ValueError:
            raise NotReachable(f"{self._where} answers, but not as a fleet server") from None

    def _not_reachable(self, error: "httpx.HTTPError") -> EdgeRuntimeError:
        from fleet_server.cli.lean_httpx import httpx

        if isinstance(error, httpx.TimeoutException):
            return NotReachable(f"{self._where} does not answer in time")
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            hint = "its certificate is not of the authority in --ca, or not for this host name"
            return NotReachable(f"{self._where}: {hint}")
        return NotReachable(f"{self._where} does not answer: {reason}")


@contextmanager
def connected(
    server: str | None, token_file: Path | None, ca: Path | None, data: Path | None
) -> Iterator[FleetClient]:
    """A client of the server that the four options and the environment mean, closed at the end.

    Its first request raises what `fleet_server.cli.target.choose` and `FleetClient.to` raise.
    """
    client = FleetClient(lambda: choose(server, token_file, ca, data), SystemClock())
    try:
        yield client
    finally:
        client.close()


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def _events(response: "httpx.Response") -> Iterator[ServerSentEvent]:
    """Server-sent events of a response (WHATWG HTML, 9.2.6), as far as our own server writes them."""
    number, data = "", ""
    for line in response.iter_lines():
        if line.startswith("id: "):
            number = line[4:]
        elif line.startswith("data: "):
            data += line[6:]
        elif not line and data:
            yield ServerSentEvent(number, json.loads(data))
            data = ""


def _address(path: str, parameters: Mapping[str, Any]) -> "httpx.URL":
    """A path with the parameters that are given: httpx alone puts them in the place of those that the path has."""
    from fleet_server.cli.lean_httpx import httpx

    return httpx.URL(path).copy_merge_params(
        {name: value for name, value in parameters.items() if value is not None}
    )


def _error(response: "httpx.Response") -> EdgeRuntimeError:
    return _problem(response.status_code, response.content)


def _problem(status: int, content: bytes) -> EdgeRuntimeError:
    try:
        detail = str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the server answered with status {status}"
    return error_of(status, detail)


def _tls(target: RemoteTarget) -> "ssl.SSLContext":
    import ssl

    try:
        context = ssl.create_default_context(
            cafile=None if target.authority is None else str(target.authority)
        )
    except (OSError, ssl.SSLError) as error:
        text = getattr(error, "strerror", None) or "no certificate in PEM"
        raise ConfigError(f"--ca {target.authority}: {text}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
