"""The HTTP server inside `fleet serve`: TLS 1.2 and later, client certificates welcome, on a socket bound first."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn

from edge_runtime.errors import ConfigError
from fleet_server.http.app import FleetApp
from fleet_server.http.peer import PeerProtocol
from fleet_server.serve.door import Door
from fleet_server.settings import ServerSettings

_GRACE_S = 3
_HANDSHAKE_S = 10.0


def bind(host: str, port: int) -> Door:
    """A listening address, bound before anything else starts.

    Raises:
        ConfigError: the address is taken, or none of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = Door(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"{host}: {error.strerror}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return bound


def tls_context(settings: ServerSettings) -> ssl.SSLContext:
    """TLS as devices and operators meet it: the server's certificate, and the authority for client certificates.

    Raises:
        ConfigError: a certificate or key is missing or damaged.
    """
    paths = settings.paths
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    try:
        context.load_cert_chain(paths.server_certificate, paths.server_key)
        context.load_verify_locations(paths.ca_certificate)
    except (OSError, ssl.SSLError) as error:
        text = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(f"{paths.tls} or {paths.authority}: {text}") from None
    return context


class WebServer:
    """uvicorn, without its signal handlers.

    Args:
        app: what it serves.
        context: TLS.
        bound: where it listens.
    """

    def __init__(self, app: FleetApp, context: ssl.SSLContext, bound: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http=PeerProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nobody may choose the address that the limits look at
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=16 * 1024,
        )
        config.load()
        config.ssl = context
        self._server = _Server(config)
        self._bound = bound

    async def run(self) -> None:
        """Serve until `stop`."""
        await self._server.serve(sockets=[self._bound])

    async def started(self) -> None:
        """Wait until requests are answered."""
        while not self._server.started:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Take no more connections; answer the requests at hand."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `fleet serve`, which has children to end as well."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does, but a client has seconds and not a minute for its part of the handshake."""
        await self.lifespan.startup()
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return PeerProtocol(
                config=config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )

        self.servers = [
            await loop.create_server(
                protocol,
                sock=bound,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=_HANDSHAKE_S,
            )
            for bound in sockets or ()
        ]
        self.started = True
