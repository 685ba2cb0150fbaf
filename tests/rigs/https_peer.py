"""A TLS server that answers what a test says, byte by byte if need be: what no real web server would do."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

from tests.rigs.pki import Credentials

Answer = Callable[[ssl.SSLSocket, bytes], None]


@contextlib.contextmanager
def https_peer(party: Credentials, answer: Answer, address: str = "127.0.0.1") -> Iterator[str]:
    """Serve on loopback; `answer` gets each connection and the head of its request. The address is yielded."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(party.certificate, party.key)
    listener = socket.create_server((address, 0))
    threads: list[threading.Thread] = []
    ended = threading.Event()

    def serve(plain: socket.socket) -> None:
        with contextlib.suppress(OSError), plain:
            plain.settimeout(10)
            with context.wrap_socket(plain, server_side=True) as connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    chunk = connection.recv(4096)
                    if not chunk:
                        return
                    head += chunk
                answer(connection, head)

    def accept() -> None:
        while not ended.is_set():
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(plain,), daemon=True)
            thread.start()
            threads.append(thread)

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        host = "localhost" if address == "127.0.0.1" else address
        yield f"https://{host}:{listener.getsockname()[1]}"
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(5)
        for thread in threads:
            thread.join(10)


def response(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """A whole HTTP/1.1 response that ends the connection."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
