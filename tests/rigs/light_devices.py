"""Many devices in one thread: certificates of a real server, MQTT by hand, the uplink's own plan for reconnects.

A light device connects, syncs, and in a later session delivers one event; it is served once the receipt has come.
It uses `edge_runtime.uplink.backoff.Reconnect` as the uplink does; only paho and the outbox are missing.
"""

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.uplink.backoff import Ending, Reconnect, ReconnectSettings
from fleet_server.authority import CertificateAuthority
from fleet_server.authority.authority import private_pem
from fleet_server.paths import ServerPaths
from fleet_server.storage import open_store
from sim.road import Server
from tests.rigs.deliveries import DeviceRig
from tests.rigs.enrolments import Asker, Office

_ANSWER_S = 30.0
_RESEND_S, _RESEND_MOST_S = 5.0, 30.0
_CONNECT, _PUBLISH_QOS1, _SUBSCRIBE = 0x10, 0x32, 0x82
_PUBACK_OUT = b"\x40\x02"


@dataclass
class Records:
    """What happened, by monotonic seconds.

    Attributes:
        attempts: to connect.
        refused: attempts that brought no session.
        unsubscribed: sessions that ended because the broker refused the subscription.
        served: when each device had its event receipted, by name.
    """

    attempts: list[float] = field(default_factory=list)
    refused: int = 0
    unsubscribed: int = 0
    served: dict[str, float] = field(default_factory=dict)

    def densest_second(self) -> int:
        """Most attempts within any second."""
        times, most, start = sorted(self.attempts), 0, 0
        for end, at in enumerate(times):
            while at - times[start] >= 1.0:
                start += 1
            most = max(most, end - start + 1)
        return most


def enrol_many(server: Server, names: Sequence[str], folder: Path) -> dict[str, ssl.SSLContext]:
    """Enrol devices by one token with a list of serial numbers, as a production line does; their TLS contexts."""
    paths, clock = ServerPaths(server.data), SystemClock()
    store = open_store(server.database)
    found = {}
    try:
        authority = CertificateAuthority.load(paths.ca_key, paths.ca_certificate, clock)
        office = Office.at(store, authority, clock)  # type: ignore[arg-type]
        token = office.registry.invite("alice", serials=[f"SN-{name}" for name in names]).token
        for name in names:
            asker = Asker(name=name, serial=f"SN-{name}")
            answer = office.service.enrol(asker.request(token))
            certificate = folder / f"{answer.device}.pem"
            certificate.write_bytes(str(answer.certificate).encode() + private_pem(asker.key))
            context = ssl.create_default_context(cafile=str(paths.ca_certificate))
            context.load_cert_chain(certificate)
            found[str(answer.device)] = context
    finally:
        store.close()
    return found


class _NotSubscribedError(Exception):
    """The broker let us in and refused the subscription."""


class Fleet:
    """Light devices of one server.

    Args:
        broker: host and port.
        contexts: of each device.
        settings: of their reconnects.
    """

    def __init__(
        self, broker: tuple[str, int], contexts: dict[str, ssl.SSLContext], settings: ReconnectSettings
    ) -> None:
        self._broker, self._contexts, self._settings = broker, contexts, settings
        self.records = Records()
        self.online: set[str] = set()
        self._delivers = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, within_s: float) -> None:
        """Have all of them connect, spread over a time."""
        for name, context in self._contexts.items():
            first_s = random.uniform(0, within_s)
            self._tasks.append(asyncio.create_task(self._live(DeviceRig(name), context, first_s)))
        while len(self.online) < len(self._contexts):
            await asyncio.sleep(0.05)

    def begin_to_deliver(self) -> None:
        """From the next session on each device delivers an event; records begin anew."""
        self.records, self._delivers = Records(), True

    async def wait_served(self, within_s: float) -> bool:
        """Whether every device was served in time."""
        deadline = time.monotonic() + within_s
        while len(self.records.served) < len(self._contexts) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        return len(self.records.served) == len(self._contexts)

    async def stop(self) -> None:
        """End all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _live(self, rig: DeviceRig, context: ssl.SSLContext, first_s: float) -> None:
        plan = Reconnect(self._settings, random.Random())
        await asyncio.sleep(first_s)
        while True:
            self.records.attempts.append(time.monotonic())
            since, is_ours = None, False
            writer: asyncio.StreamWriter | None = None
            try:
                opened = asyncio.open_connection(*self._broker, ssl=context)
                reader, out = await asyncio.wait_for(opened, _ANSWER_S)
                writer = out
                await self._begin(rig, reader, out)
                since = time.monotonic()
                await self._session(rig, reader, out)
            except _NotSubscribedError:
                self.records.unsubscribed += 1
                is_ours = True
            except (OSError, EOFError, asyncio.TimeoutError):
                pass
            finally:
                self.online.discard(rig.name)
                if writer is not None:
                    writer.transport.abort()
            if since is None:
                self.records.refused += 1
            lived_s = 0.0 if since is None else time.monotonic() - since
            ending = Ending.OWN if is_ours else Ending.UNREACHABLE if since is None else Ending.LOST
            await asyncio.sleep(plan.wait_s(ending, lived_s, int(time.monotonic() * NS_PER_S)))

    async def _begin(
        self, rig: DeviceRig, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # its session is kept, as the uplink's is: a broker that has to make it anew each time has more to do
        writer.write(_packet(_CONNECT, _text("MQTT") + b"\x04\x00\x00\x00" + _text(rig.name)))
        kind, body = await asyncio.wait_for(_read(reader), _ANSWER_S)
        if kind & 0xF0 != 0x20 or body[1:2] != b"\x00":
            raise ConnectionError("refused")
        down = str(Topic(rig.name, Channel.RECEIPT))
        writer.write(_packet(_SUBSCRIBE, b"\x00\x01" + _text(down) + b"\x01"))

    async def _session(
        self, rig: DeviceRig, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        waits = [rig.sync(1)]
        resend = asyncio.create_task(_send_until_answered(writer, waits))
        delivered = 0
        try:
            while True:
                kind, body = await _read(reader)
                if kind & 0xF0 == 0x90 and body[2] & 0x80:
                    raise _NotSubscribedError  # NATS, when its store is too slow; the uplink goes as well
                if kind & 0xF0 != 0x30:
                    continue
                start = 2 + int.from_bytes(body[:2], "big")
                if kind & 0x06:  # quality of service 1: it wants an answer
                    writer.write(_PUBACK_OUT + body[start : start + 2])
                    start += 2
                receipt = Receipt.decode(body[start:])
                if receipt.epoch != rig.epoch:
                    continue
                self.online.add(rig.name)
                if delivered and receipt.high >= delivered:
                    self.records.served.setdefault(rig.name, time.monotonic())
                    waits.clear()
                elif self._delivers and not delivered:
                    delivered = rig.next
                    waits[:] = [rig.bundle(rig.item())]
                    _publish(writer, *waits[0])
                elif not self._delivers:
                    waits.clear()
        finally:
            resend.cancel()


async def _send_until_answered(writer: asyncio.StreamWriter, waits: list[tuple[str, bytes]]) -> None:
    """What is not answered is sent again, as the uplink does: the broker has it, and perhaps nobody listened."""
    pause_s = _RESEND_S
    while waits:
        _publish(writer, *waits[0])
        await asyncio.sleep(random.uniform(1.0, 1.25) * pause_s)
        pause_s = min(2 * pause_s, _RESEND_MOST_S)


def _publish(writer: asyncio.StreamWriter, topic: str, payload: bytes) -> None:
    with contextlib.suppress(OSError):
        writer.write(_packet(_PUBLISH_QOS1, _text(topic) + b"\x00\x02" + payload))


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(kind: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while True:
        left, digit = divmod(left, 128)
        length.append(digit | (0x80 if left else 0))
        if not left:
            return bytes((kind,)) + bytes(length) + body


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    kind = (await reader.readexactly(1))[0]
    length, shift = 0, 0
    while True:
        digit = (await reader.readexactly(1))[0]
        length |= (digit & 0x7F) << shift
        shift += 7
        if not digit & 0x80:
            return kind, await reader.readexactly(length)
