"""MQTT 3.1.1 by bare bytes over TLS, for what no library would send."""

import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.pki import Credentials

CONNACK, PUBACK, PUBREC, SUBACK, PINGRESP = 0x20, 0x40, 0x50, 0x90, 0xD0


def length(size: int) -> bytes:
    """The remaining length of a packet."""
    found = bytearray()
    while True:
        size, low = size >> 7, size & 0x7F
        found.append(low | (0x80 if size else 0))
        if not size:
            return bytes(found)


def text(value: str | bytes) -> bytes:
    """A string with its length; bytes may be no UTF-8."""
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">H", len(raw)) + raw


def packet(kind: int, body: bytes) -> bytes:
    """One packet: first byte, length, body."""
    return bytes([kind]) + length(len(body)) + body


def connect(
    client_id: str | bytes,
    *,
    will: tuple[str | bytes, bytes] | None = None,
    will_retain: bool = False,
    will_qos: int = 1,
    clean: bool = True,
    keepalive: int = 20,
    level: int = 4,
    name: bytes = b"MQTT",
    user: bytes | None = None,
) -> bytes:
    """A CONNECT packet."""
    flags = (0x02 if clean else 0) | (0x80 if user is not None else 0)
    tail = text(client_id)
    if will is not None:
        flags |= 0x04 | (will_qos << 3) | (0x20 if will_retain else 0)
        tail += text(will[0]) + text(will[1])
    if user is not None:
        tail += text(user)
    return packet(0x10, text(name) + bytes([level, flags]) + struct.pack(">H", keepalive) + tail)


def publish(topic: str | bytes, payload: bytes, *, qos: int = 1, retain: bool = False, mid: int = 1) -> bytes:
    """A PUBLISH packet."""
    body = text(topic) + (struct.pack(">H", mid) if qos else b"") + payload
    return packet(0x30 | (qos << 1) | (1 if retain else 0), body)


def subscribe(topic: str | bytes, *, qos: int = 1, mid: int = 7) -> bytes:
    """A SUBSCRIBE packet."""
    return packet(0x82, struct.pack(">H", mid) + text(topic) + bytes([qos]))


class BareClient:
    """A TLS connection to a broker.

    Args:
        port: of the broker on localhost.
        party: whose certificate it shows; None shows none.
        authority: that it trusts when there is no party.
    """

    def __init__(self, port: int, party: Credentials | None, authority: Path | None = None) -> None:
        context = (
            ssl.create_default_context(cafile=None if authority is None else str(authority))
            if party is None
            else party.client_context()
        )
        plain = socket.create_connection(("localhost", port), 5)
        try:
            self._socket = context.wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise
        self._read = bytearray()

    def send(self, data: bytes) -> None:
        """Send bytes; a connection that is closed already is no error here."""
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def packet(self, within_s: float = 5.0) -> tuple[int, bytes] | None:
        """The next packet: first byte and body. None when the broker closed or said nothing in time."""
        self._socket.settimeout(within_s)
        try:
            while (found := self._whole()) is None:
                data = self._socket.recv(65_536)
                if not data:
                    return None
                self._read += data
        except OSError:
            return None
        return found

    def is_closed(self, within_s: float = 5.0) -> bool:
        """Whether the broker hangs up in time, whatever it says before."""
        self._socket.settimeout(within_s)
        try:
            while self._socket.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def opened(self, client_id: str | None = None, **options: object) -> bool:
        """Send CONNECT; whether the broker took it."""
        self.send(connect(client_id or f"bare-{os.urandom(6).hex()}", **options))  # type: ignore[arg-type]
        # the first byte of the body says whether there was a session
        return self.packet(10) in ((CONNACK, b"\x00\x00"), (CONNACK, b"\x01\x00"))

    def drop(self) -> None:
        """Break the connection without a word, so that its will is published."""
        with contextlib.suppress(OSError):
            # linger 0: a reset
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _whole(self) -> tuple[int, bytes] | None:
        size = shift = 0
        for index, byte in enumerate(self._read[1:5], 2):
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                if len(self._read) < index + size:
                    return None
                found = self._read[0], bytes(self._read[index : index + size])
                del self._read[: index + size]
                return found
        return None


@contextlib.contextmanager
def bare(port: int, party: Credentials | None, authority: Path | None = None) -> Iterator[BareClient]:
    """A connection that is broken at the end."""
    client = BareClient(port, party, authority)
    try:
        yield client
    finally:
        client.drop()
