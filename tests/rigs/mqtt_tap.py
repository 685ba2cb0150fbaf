"""Somebody between a device and its broker who holds both keys: what the device sends is read packet by packet.

The broker's certificate is shown to the device and the device's to the broker. Acknowledgements can be held back,
so that publications pile up in flight as they do behind a slow broker.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from edge_runtime.identity import Identity
from fleet_server.paths import ServerPaths

_PUBLISH, _PUBACK = 0x30, 0x40

Take = Callable[[bytes, bytes, set[bytes]], None]


@dataclass(slots=True)
class Seen:
    """What passed, over all connections.

    Attributes:
        connections: that came to TLS on both sides.
        publications: with quality of service 1.
        bundles: those of them that carry events.
        most_in_flight: publications without an acknowledgement, at most.
        largest: packet of the device, bytes.
        refused: acknowledgements with a reason of 0x80 or more.
    """

    connections: int = 0
    publications: int = 0
    bundles: int = 0
    most_in_flight: int = 0
    largest: int = 0
    refused: int = 0


class MqttTap:
    """Listens on loopback and forwards to a broker, in a thread of its own.

    Args:
        broker: its address.
        server: data directory of the fleet server, for the broker's certificate.
        identity: of the device, for its own.
        hold_s: each acknowledgement of a publication is held back so long.

    Attributes:
        port: where to connect instead of the broker.
        seen: see there; numbers only grow.
    """

    def __init__(
        self, broker: tuple[str, int], server: Path, identity: Identity, hold_s: float = 0.0
    ) -> None:
        self._broker, self._hold_s = broker, hold_s
        paths = ServerPaths(server)
        self._near = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._near.load_cert_chain(paths.server_certificate, paths.server_key)
        self._far = ssl.create_default_context(cafile=str(paths.ca_certificate))
        self._far.load_cert_chain(identity.certificate_path, identity.key_path)
        self.seen, self.port = Seen(), 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqtt-tap", daemon=True)

    def __enter__(self) -> "MqttTap":
        self._thread.start()
        assert self._listens.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(10)

    # ---- in the tap's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._begin, "127.0.0.1", 0, ssl=self._near)
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        await self._closing.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_writer: asyncio.StreamWriter | None = None
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._broker, ssl=self._far)
            self.seen.connections += 1
            flying: set[bytes] = set()
            pumps = [
                asyncio.create_task(_pump(reader, far_writer, self._take_up, flying, 0.0)),
                asyncio.create_task(_pump(far_reader, writer, self._take_down, flying, self._hold_s)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        finally:
            writer.transport.abort()
            if far_writer is not None:
                far_writer.transport.abort()

    def _take_up(self, head: bytes, body: bytes, flying: set[bytes]) -> None:
        self.seen.largest = max(self.seen.largest, len(head) + len(body))
        if head[0] & 0xF0 == _PUBLISH and head[0] & 0x06:
            after = 2 + int.from_bytes(body[:2], "big")
            flying.add(body[after : after + 2])
            self.seen.publications += 1
            self.seen.bundles += b"/up/ev/" in body[2:after]
            self.seen.most_in_flight = max(self.seen.most_in_flight, len(flying))

    def _take_down(self, head: bytes, body: bytes, flying: set[bytes]) -> None:
        if head[0] & 0xF0 == _PUBACK:
            flying.discard(body[:2])
            self.seen.refused += len(body) > 2 and body[2] >= 0x80


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, take: Take, flying: set[bytes], hold_s: float
) -> None:
    with contextlib.suppress(OSError, EOFError):
        while True:
            head, body = await _packet(reader)
            if head[0] & 0xF0 == _PUBACK:
                await asyncio.sleep(hold_s)
            take(head, body, flying)  # before whoever gets it can answer
            writer.write(head + body)
            await writer.drain()


async def _packet(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One packet of a stream: its fixed header, and the rest."""
    head = await reader.readexactly(1)
    length = shift = 0
    while True:
        digit = await reader.readexactly(1)
        head += digit
        length |= (digit[0] & 0x7F) << shift
        shift += 7
        if not digit[0] & 0x80:
            return head, await reader.readexactly(length)
