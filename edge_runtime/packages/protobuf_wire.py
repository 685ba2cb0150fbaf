"""Walks the protobuf wire format, without copying: a device has no `onnx` package, nor the protobuf that it brings.

See https://protobuf.dev/programming-guides/encoding for the layout.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from edge_runtime.errors import PackageError

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5


class Malformed(PackageError):
    """The bytes do not follow the wire format."""


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: of the field, from 1.
        raw: all of its bytes, key included.
        body: its content where it is length-delimited, else None.
        value: of a varint, else None.
    """

    number: int
    raw: memoryview
    body: memoryview | None = None
    value: int | None = None


def fields(message: memoryview) -> Iterator[Field]:
    """The fields of a message, in order.

    Raises:
        Malformed: the bytes do not follow the format, or end in the middle of a field.
    """
    position, end = 0, len(message)
    while position < end:
        start = position
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        body: memoryview | None = None
        value: int | None = None
        if kind == VARINT:
            value, position = _varint(message, position)
        elif kind == FIXED64:
            position += 8
        elif kind == FIXED32:
            position += 4
        elif kind == BYTES:
            length, position = _varint(message, position)
            body = message[position : position + length]
            position += length
        else:
            raise Malformed("the weights are not an ONNX file: their bytes do not follow protobuf")
        if position > end or number == 0:
            raise _cut()
        yield Field(number, message[start:position], body, value)


def parts(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the length-delimited fields alone; raises as `fields` does."""
    for field in fields(message):
        if field.body is not None:
            yield field.number, field.body


def text(body: memoryview) -> str:
    """A string's content; what is no UTF-8 is replaced."""
    return bytes(body).decode("utf-8", "replace")


def encoded_varint(value: int) -> bytes:
    """A number of at least 0 as a varint."""
    pieces = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if not value:
            pieces.append(low)
            return bytes(pieces)
        pieces.append(low | 0x80)


def encoded_field(number: int, body: bytes) -> bytes:
    """A length-delimited field."""
    return encoded_varint(number << 3 | BYTES) + encoded_varint(len(body)) + body


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise _cut()
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _cut() -> Malformed:
    return Malformed("the weights end in the middle of a field: the file is truncated or damaged")
