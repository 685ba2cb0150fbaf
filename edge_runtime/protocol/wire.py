"""The bytes on the wire: msgpack maps with a version, compressed where that helps, bounded before they are read.

A payload is one msgpack map, or the same compressed by zlib; the first byte tells them apart (a map begins with
0x80 to 0x8f or 0xde, a zlib stream with 0x78). Each record carries `v: [major, minor]`. A newer minor version
is read, its unknown fields ignored; another major version is refused.
"""

import re
import zlib
from enum import Enum
from typing import Annotated, Any, TypeVar

import msgpack
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import Self

PROTOCOL: tuple[int, int] = (1, 0)
"""Major and minor version that this code writes."""

MAX_PAYLOAD_BYTES = 128 * 1024
"""No payload on the wire is longer, compressed or not: 64 KiB of events, their envelopes and some room."""

COMPRESS_FROM_BYTES = 256
"""Shorter payloads are sent as they are: zlib's header and tables eat the gain."""

_ZLIB = b"\x78"
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,31}")
_MAX_NESTING = 32
# within a record as well: none mixes two of them
_Major = Annotated[int, Field(ge=PROTOCOL[0], le=PROTOCOL[0])]
_Minor = Annotated[int, Field(ge=0, lt=1 << 16)]
Version = Annotated[tuple[_Major, _Minor], Field(description="major and minor version")]


class WireFault(str, Enum):
    """What is wrong with bytes that were not accepted."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNKNOWN_VERSION = "unknown_version"
    INVALID = "invalid"


class WireError(ValueError):
    """Bytes from outside that are not the record they should be. Its text holds no content, only places.

    Attributes:
        fault: what is wrong, from a closed vocabulary.
    """

    def __init__(self, fault: WireFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class WireRecord(BaseModel):
    """Base of every record that crosses the network.

    Attributes:
        v: (major, minor) of the protocol that wrote it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    v: Version = PROTOCOL

    def encode(self, *, compress: bool = True) -> bytes:
        """This record as a payload.

        Raises:
            WireError: it is longer than `MAX_PAYLOAD_BYTES`.
        """
        return pack(self.model_dump(exclude_none=True), compress=compress)

    @classmethod
    def decode(cls, payload: bytes, max_bytes: int = MAX_PAYLOAD_BYTES) -> Self:
        """The record in a payload.

        Raises:
            WireError: too large, not msgpack, of another major version, or not this record.
        """
        return validate(cls, unpack(payload, max_bytes))


RecordT = TypeVar("RecordT", bound=BaseModel)


def pack(value: dict[str, Any], *, compress: bool = True) -> bytes:
    """A map as a payload.

    Raises:
        WireError: it is longer than `MAX_PAYLOAD_BYTES`.
    """
    plain: bytes = msgpack.packb(value)
    if len(plain) > MAX_PAYLOAD_BYTES:
        raise WireError(WireFault.TOO_LARGE, f"{len(plain)} bytes; a payload has at most {MAX_PAYLOAD_BYTES}")
    if compress and len(plain) >= COMPRESS_FROM_BYTES:
        smaller = zlib.compress(plain, 1)
        if len(smaller) < len(plain):
            return smaller
    return plain


def plain(payload: bytes, max_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
    """The uncompressed bytes of a payload.

    Raises:
        WireError: longer than `max_bytes` before or after decompression, or a damaged zlib stream.
    """
    if len(payload) > max_bytes:
        raise WireError(WireFault.TOO_LARGE, f"{len(payload)} bytes; at most {max_bytes} are read")
    return _decompress(payload, max_bytes) if payload[:1] == _ZLIB else payload


def unpack(payload: bytes, max_bytes: int = MAX_PAYLOAD_BYTES) -> dict[str, Any]:
    """The map in a payload; nothing of it is validated but its shape.

    Raises:
        WireError: longer than `max_bytes` before or after decompression, or no msgpack map with text keys.
    """
    data = plain(payload, max_bytes)
    try:
        found = msgpack.unpackb(data, strict_map_key=True, max_ext_len=0)
    # msgpack raises a family of its own beside these for truncated, nested or surplus input
    except (
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        msgpack.exceptions.UnpackException,
    ) as error:
        raise WireError(WireFault.MALFORMED, f"not msgpack: {type(error).__name__}") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise WireError(WireFault.MALFORMED, "not a map with text keys")
    if _deeper_than(found, _MAX_NESTING):
        raise WireError(WireFault.MALFORMED, f"nested deeper than {_MAX_NESTING}")
    return found


def validate(kind: type[RecordT], found: dict[str, Any]) -> RecordT:
    """A decoded map as a record: strict for our own version, tolerant of fields that a newer minor one added.

    Raises:
        WireError: another major version, or not that record.
    """
    major, minor = version_of(found)
    if major != PROTOCOL[0]:
        raise WireError(WireFault.UNKNOWN_VERSION, f"major version {major}; this side speaks {PROTOCOL[0]}")
    try:
        return kind.model_validate(found, extra="ignore" if minor > PROTOCOL[1] else "forbid")
    except ValidationError as error:
        raise WireError(WireFault.INVALID, f"not a {kind.__name__}: {places(error)}") from None


def version_of(found: dict[str, Any]) -> tuple[int, int]:
    """The version that a decoded map declares.

    Raises:
        WireError: it declares none.
    """
    version = found.get("v")
    if isinstance(version, (list, tuple)) and len(version) == 2:
        major, minor = version
        if type(major) is int and type(minor) is int:
            return major, minor
    raise WireError(WireFault.MALFORMED, "declares no version `v: [major, minor]`")


def places(error: ValidationError) -> str:
    """Where a record is wrong and how, without any of its values: they may be what must not be logged."""
    found = [
        f"{_place(detail['loc'])}: {detail['type']}"
        for detail in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _place(steps: tuple[int | str, ...]) -> str:
    # A key that no record of ours has is somebody else's text: it is shown only where it looks like a field.
    known = [str(step) if isinstance(step, int) or _FIELD.fullmatch(step) else "?" for step in steps]
    return ".".join(known)[:80] or "record"


def _decompress(payload: bytes, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(payload, max_bytes)
    except zlib.error:
        raise WireError(WireFault.MALFORMED, "a damaged zlib stream") from None
    if unpacker.unconsumed_tail:
        raise WireError(WireFault.TOO_LARGE, f"more than {max_bytes} bytes when decompressed")
    if not unpacker.eof or unpacker.unused_data:
        raise WireError(WireFault.MALFORMED, "a cut or prolonged zlib stream")
    return data


def _deeper_than(container: Any, levels: int) -> bool:
    """Whether any value in a dict or list lies at `levels` or below; the container itself lies at level 0."""
    if not container:
        return False
    if levels == 1:
        return True
    for inner in container.values() if type(container) is dict else container:
        # msgpack makes these very types; going into nothing else is four times faster than looking at every value
        kind = type(inner)
        if (kind is dict or kind is list) and _deeper_than(inner, levels - 1):
            return True
    return False
