"""Asking a broker whether it serves, by a whole MQTT connection: NATS listens before its store is recovered."""

import contextlib
import os
import socket
import ssl
from pathlib import Path

from fleet_server.authority import CertificateFiles

_TIMEOUT_S = 2.0
_CONNACK, _DISCONNECT = 0x20, b"\xe0\x00"


def client_context(authority: Path, files: CertificateFiles) -> ssl.SSLContext:
    """TLS towards the broker: it must show a certificate of our authority, and is shown ours.

    The name is not compared: the server asks its own child on loopback, whatever its public names are.

    Raises:
        OSError: a file cannot be read (`ssl.SSLError` is one).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cafile=str(authority))
    context.load_cert_chain(files.certificate, files.key)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def answers(host: str, port: int, context: ssl.SSLContext) -> bool:
    """Whether an MQTT 3.1.1 connection is accepted within 2 s; it is closed again at once."""
    try:
        with (
            socket.create_connection((host, port), _TIMEOUT_S) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.sendall(_connect(f"fleet-ready-{os.urandom(6).hex()}"))
            answer = connection.recv(4)
            with contextlib.suppress(OSError):
                connection.sendall(_DISCONNECT)
    except OSError:
        return False
    return len(answer) == 4 and answer[0] == _CONNACK and answer[3] == 0


def _connect(client_id: str) -> bytes:
    name = client_id.encode()
    # protocol MQTT, level 4, clean session, no keep-alive
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + len(name).to_bytes(2, "big") + name
    return b"\x10" + bytes([len(body)]) + body
