"""The certificate with which a client came: from the TLS connection into the request, and out of it again.

uvicorn verifies a client certificate but does not hand it on; the protocol subclass puts it where the TLS
extension of ASGI says. A connection that sends no whole request in time is closed: uvicorn itself waits for ever.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

FIRST_REQUEST_S = 15.0
"""A new connection, or one that began another request, has sent its head by then."""


class PeerProtocol(H11Protocol):
    """HTTP/1.1 over TLS whose requests carry the client's certificate in `scope["extensions"]["tls"]`."""

    _head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn does, and remember who connected."""
        super().connection_made(transport)
        connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        der = connection.getpeercert(binary_form=True) if connection is not None else None
        chain = () if der is None else (ssl.DER_cert_to_PEM_cert(der),)
        app, extension = self.app, {"client_cert_chain": chain}

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                scope = {**scope, "extensions": {**scope.get("extensions", {}), "tls": extension}}
            await app(scope, receive, send)

        self.app = with_peer
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """As uvicorn does, but the head of a request has a deadline from its first byte on."""
        before: RequestResponseCycle | None = self.cycle
        if self._head_deadline is None and (before is None or before.response_complete):
            self._await_head()
        super().data_received(data)
        if self.cycle is not before:
            self._head_arrived()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn does."""
        self._head_arrived()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_deadline = self.loop.call_later(FIRST_REQUEST_S, self._give_up)

    def _head_arrived(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _give_up(self) -> None:
        self._head_deadline = None
        if not self.transport.is_closing():
            self.transport.abort()


def peer_serial(scope: Mapping[str, Any]) -> tuple[str, str] | None:
    """Common name and serial number (hexadecimal) of the certificate with which a request came.

    TLS has verified it against the server's authority; whether it is still valid is the database's to say.

    Returns:
        None when the client showed none.
    """
    chain = scope.get("extensions", {}).get("tls", {}).get("client_cert_chain") or ()
    if not chain:
        return None
    certificate = x509.load_pem_x509_certificate(chain[0].encode())
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1:
        return None
    return str(names[0].value), f"{certificate.serial_number:x}"
