"""Frames over a real socket: in pieces, together, too long, and from somebody who stops in the middle."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import msgpack
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.outbox.frames import MAX_FRAME_BYTES, Disconnected, FrameError, FrameStream, encode_frame


@pytest.fixture
def pair() -> Iterator[tuple[FrameStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    with contextlib.closing(theirs):
        stream = FrameStream(ours, SystemClock())
        yield stream, theirs
        stream.close()


@pytest.mark.parametrize("size", [0, 1, 60_000, 65_532, 65_536, 200_000, 3_000_000])
def test_a_frame_of_any_size_arrives(pair: tuple[FrameStream, socket.socket], size: int) -> None:
    stream, theirs = pair
    sender = threading.Thread(target=theirs.sendall, args=(encode_frame(bytes(size)) + encode_frame("next"),))
    sender.start()
    assert stream.read(10, first_s=10) == bytes(size)
    assert stream.read(10, first_s=10) == "next"
    sender.join()


def test_a_frame_that_comes_byte_by_byte(pair: tuple[FrameStream, socket.socket]) -> None:
    stream, theirs = pair
    frame = encode_frame(["method", {"argument": 1}])

    def drip() -> None:
        for byte in frame:
            theirs.sendall(bytes([byte]))

    sender = threading.Thread(target=drip)
    sender.start()
    assert stream.read(10, first_s=None) == ["method", {"argument": 1}]
    sender.join()


def test_frames_that_come_together_are_read_one_by_one(pair: tuple[FrameStream, socket.socket]) -> None:
    stream, theirs = pair
    frames = b"".join(encode_frame(number) for number in range(5))
    theirs.sendall(frames[:-1])
    assert [stream.read(10, first_s=10) for _ in range(4)] == [0, 1, 2, 3]
    theirs.sendall(frames[-1:])
    assert stream.read(10, first_s=10) == 4


def test_who_stops_in_the_middle_is_left(pair: tuple[FrameStream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.sendall(struct.pack(">I", 100) + b"half")
    with pytest.raises(TimeoutError):
        stream.read(0.05, first_s=10)
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(Disconnected):
        stream.read(10, first_s=10)


def test_nothing_comes_in_time(pair: tuple[FrameStream, socket.socket]) -> None:
    with pytest.raises(TimeoutError):
        pair[0].read(10, first_s=0.01)


def test_a_frame_beyond_the_limit_takes_no_memory(pair: tuple[FrameStream, socket.socket]) -> None:
    stream, theirs = pair
    theirs.sendall(struct.pack(">I", MAX_FRAME_BYTES + 1))
    with pytest.raises(FrameError, match="at most"):
        stream.read(10, first_s=10)
    with pytest.raises(FrameError, match="ask for less"):
        encode_frame(bytes(MAX_FRAME_BYTES))


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb([1]) + b"more", b"\x91" * 5000])
def test_what_is_not_msgpack(pair: tuple[FrameStream, socket.socket], data: bytes) -> None:
    stream, theirs = pair
    theirs.sendall(struct.pack(">I", len(data)) + data)
    with pytest.raises(FrameError, match="not msgpack"):
        stream.read(10, first_s=10)


def test_who_does_not_read_is_left_and_who_has_left_is_seen(pair: tuple[FrameStream, socket.socket]) -> None:
    stream, theirs = pair
    assert not stream.has_left()
    with pytest.raises(TimeoutError):
        stream.send(bytes(8_000_000), 0.05)
    theirs.close()
    assert stream.has_left()
