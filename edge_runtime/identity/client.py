"""HTTPS towards the fleet server: bounded in time and size, no redirects, and errors without what was sent."""

import json
import ssl
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from edge_runtime.errors import ConfigError
from edge_runtime.identity.deadline import Deadline
from edge_runtime.identity.problems import IdentityError, Refused, ServerUnreachable, WrongServer
from edge_runtime.protocol.metadata_limits import MAX_ROOT_BYTES

MAX_ANSWER_BYTES = 2 * MAX_ROOT_BYTES + 131_072
"""The largest answer carries a root within its JSON, where each quote and line of it takes two bytes."""

_SHOWN = 300

AnswerT = TypeVar("AnswerT", bound=BaseModel)


def checked_url(url: str) -> str:
    """A server's address as it is kept: `https://host[:port][/path]`, without a slash at the end.

    Raises:
        ConfigError: it is none; the text does not repeat it, because it may hold a password.
    """
    try:
        parts = urlsplit(url.strip())
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError("--server is an address such as https://fleet.example:8443") from None
    if parts.scheme != "https" or not parts.hostname or not has_port or len(url) > 512:
        raise ConfigError("--server is an address such as https://fleet.example:8443")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError("--server holds no user, query or fragment: the token says who you are")
    return f"https://{parts.netloc}{parts.path}".rstrip("/")


class ServerClient:
    """One conversation with the server.

    Args:
        url: from `checked_url`.
        tls: whom to trust.
        deadline: ends the conversation, entered by the caller.
        proxy: `http://host:port` of a proxy, or None.

    Raises:
        ConfigError: the proxy's address cannot be used.
    """

    def __init__(self, url: str, tls: ssl.SSLContext, deadline: Deadline, proxy: str | None = None) -> None:
        self._url, self._deadline = url, deadline
        try:
            self._client = httpx.Client(verify=tls, proxy=proxy, trust_env=False)
        except ValueError:
            raise ConfigError("--proxy is an address such as http://proxy.example:3128") from None

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def get_text(self, path: str) -> str:
        """The text at a path.

        Raises:
            IdentityError: as `post`.
        """
        return self._ask("GET", path, None).decode("ascii", errors="replace")

    def post(self, path: str, request: BaseModel | None, kind: type[AnswerT]) -> AnswerT:
        """Send a record and read the answer.

        Raises:
            ServerUnreachable: no whole answer within the deadline.
            WrongServer: its certificate is not of the authority, or not for this host.
            Refused: the server said no.
            IdentityError: the answer is not what it should be.
        """
        body = b"" if request is None else request.model_dump_json(exclude_none=True).encode()
        try:
            return kind.model_validate_json(self._ask("POST", path, body))
        except ValidationError:
            raise IdentityError("the server's answer cannot be read: is it another release?") from None

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            with self._client.stream(
                method,
                self._url + path,
                content=body,
                headers=headers,
                timeout=self._deadline.left_s,
                extensions={"trace": self._deadline.trace},
            ) as answer:
                return self._read(answer)
        except httpx.HTTPError as error:
            raise self._translated(error) from None

    def _read(self, answer: httpx.Response) -> bytes:
        data = b""
        for piece in answer.iter_bytes():
            data += piece
            if len(data) > MAX_ANSWER_BYTES:
                raise IdentityError("the server's answer is far too long: is this the fleet server?")
        if answer.status_code != 200:
            raise _refusal(answer.status_code, answer.headers.get("content-type", ""), data)
        return data

    def _translated(self, error: httpx.HTTPError) -> IdentityError:
        host = urlsplit(self._url).netloc
        if self._deadline.is_over or isinstance(error, httpx.TimeoutException):
            return ServerUnreachable(f"{host} gave no whole answer in time: try again later")
        cause = _tls_error(error)
        if cause is not None:
            return WrongServer(_tls_sentence(host, cause))
        if isinstance(error, httpx.ProxyError):
            return ServerUnreachable(f"the proxy did not let us through to {host}")
        if isinstance(error, (httpx.ConnectError, httpx.ReadError, httpx.WriteError)):
            return ServerUnreachable(f"{host} cannot be reached: {_reason(error)}")
        return ServerUnreachable(f"{host} did not answer as a web server does")


def _refusal(status: int, content_type: str, data: bytes) -> IdentityError:
    """The error in an answer that is not 200."""
    code, detail = "", ""
    if content_type.startswith("application/problem+json"):
        try:
            found = json.loads(data)
            code, detail = str(found.get("code", ""))[:64], str(found.get("detail", ""))
        except (ValueError, AttributeError, RecursionError):
            pass
    # somebody else's text: one line, printable, and not long
    text = "".join(sign for sign in " ".join(detail.split()) if sign.isprintable())[:_SHOWN]
    if status >= 500 or status == 429:
        return ServerUnreachable(f"the server cannot answer now ({status}): {text or 'try again later'}")
    if not text:
        return IdentityError(f"the server answered with {status}: is this the fleet server's address?")
    return Refused(f"the server refused: {text}", code)


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """The TLS error behind one of httpx."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLError):
            return found
        found = found.__cause__ or found.__context__
    return None


def _tls_sentence(host: str, error: ssl.SSLError) -> str:
    said = getattr(error, "verify_message", "") or ""
    if "not yet valid" in said or "expired" in said:
        return (
            f"the certificate of {host} is not valid by this device's clock ({said}): "
            "set the clock, or look at the server's certificate"
        )
    if "mismatch" in said or "not valid for" in said:
        return f"the certificate of {host} is for another name: use one that fleet init --host was given"
    if said:
        return f"{host} is not the server that was expected: {said}"
    return f"{host} cannot be spoken to by TLS: {(error.reason or 'it failed').lower().replace('_', ' ')}"


def _reason(error: BaseException) -> str:
    """The system's own word for a failed connection."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        found = found.__cause__ or found.__context__
    return "the connection was closed"
