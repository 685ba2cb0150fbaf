"""MQTT 3.1.1 over TLS by hand, as little of it as a device needs: a thousand sessions in one thread."""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass

_ANSWER_S = 30.0
_KEEPALIVE_S = 120
_PING_S = 50.0
_CONNECT, _CONNACK, _PUBLISH, _PUBACK, _SUBSCRIBE, _SUBACK, _PINGREQ = (
    *(0x10, 0x20, 0x30, 0x40),
    *(0x82, 0x90, 0xC0),
)
_WILL_RETAINED_QOS1 = 0x04 | 0x08 | 0x20
_MOST_IDS = 1 << 16


class Refused(ConnectionError):
    """The broker did not let the device in, or did not let it subscribe."""


@dataclass(frozen=True, slots=True)
class Message:
    """What came down."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker's PUBACK."""

    mid: int


class LightSession:
    """One connection; `open` makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._mid = 1
        self._pings = asyncio.create_task(self._ping())

    @classmethod
    async def open(
        cls,
        address: tuple[str, int],
        context: ssl.SSLContext,
        client_id: str,
        will: tuple[str, bytes],
        subscription: str,
    ) -> "LightSession":
        """Connect, with a retained will, and subscribe.

        Raises:
            OSError: no connection; `Refused` is one.
            EOFError: the broker hung up.
            asyncio.TimeoutError: it did not answer.
        """
        opened = asyncio.open_connection(*address, ssl=context, server_hostname="localhost")
        reader, writer = await asyncio.wait_for(opened, _ANSWER_S)
        session = cls(reader, writer)
        try:
            flags = bytes([4, _WILL_RETAINED_QOS1]) + _KEEPALIVE_S.to_bytes(2, "big")
            session._send(
                _CONNECT, _text("MQTT") + flags + _text(client_id) + _text(will[0]) + _data(will[1])
            )
            kind, body = await asyncio.wait_for(session._packet(), _ANSWER_S)
            if kind != _CONNACK or body[1:2] != b"\x00":
                raise Refused("the broker refused")
            session._send(_SUBSCRIBE, b"\x00\x01" + _text(subscription) + b"\x01")
        except BaseException:
            session.abort()
            raise
        return session

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        expiry_s: int | None = None,  # noqa: ARG002 - MQTT 3.1.1 has none; an event's end is in its payload
    ) -> int:
        """Publish at QoS 1; the number that the broker's PUBACK will have."""
        self._mid = self._mid % (_MOST_IDS - 1) + 1
        body = _text(topic) + self._mid.to_bytes(2, "big") + payload
        self._send(_PUBLISH | 0x02 | retain, body)
        return self._mid

    async def next(self) -> Message | Acknowledged:
        """Wait for what the broker sends.

        Raises:
            OSError, EOFError: the session is over.
        """
        while True:
            kind, body = await self._packet()
            if kind == _SUBACK and body[2] & 0x80:
                raise Refused("the broker refused the subscription")
            if kind == _PUBACK:
                return Acknowledged(int.from_bytes(body[:2], "big"))
            if kind & 0xF0 == _PUBLISH:
                start = 2 + int.from_bytes(body[:2], "big")
                topic = body[2:start].decode()
                if kind & 0x06:
                    self._send(_PUBACK, body[start : start + 2])
                    start += 2
                return Message(topic, body[start:])

    def abort(self) -> None:
        """End without a word: the broker publishes the will."""
        self._pings.cancel()
        self._writer.transport.abort()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_S)
            self._send(_PINGREQ, b"")

    def _send(self, kind: int, body: bytes) -> None:
        length, left = bytearray(), len(body)
        while True:
            left, digit = divmod(left, 128)
            length.append(digit | (0x80 if left else 0))
            if not left:
                break
        with contextlib.suppress(OSError):
            self._writer.write(bytes((kind,)) + bytes(length) + body)

    async def _packet(self) -> tuple[int, bytes]:
        kind = (await self._reader.readexactly(1))[0]
        length, shift = 0, 0
        while True:
            digit = (await self._reader.readexactly(1))[0]
            length |= (digit & 0x7F) << shift
            shift += 7
            if not digit & 0x80:
                return kind, await self._reader.readexactly(length)


def _text(text: str) -> bytes:
    return _data(text.encode())


def _data(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data
