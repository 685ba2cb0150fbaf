"""Disks that are full before, or become full meanwhile: a small file system of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from tests.rigs.blob_server import BlobServer
from tests.rigs.downloads import Device, want_of
from tests.rigs.pki import Credentials
from tests.rigs.small_disk import fill_up, small_disk

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 32) as place:
        yield place


@pytest.fixture
def small(disk: Path, server: BlobServer, party: Credentials) -> Device:
    return Device(disk / "updates", server.url, party.client_context())


def refused(device: Device, data: bytes, server: BlobServer) -> UpdateRefused:
    with pytest.raises(UpdateRefused) as caught:
        device.fetch(want_of(server.add(data), data))
    return caught.value


def test_kind_13_full_before_the_first_byte(server: BlobServer, small: Device) -> None:
    """balena-supervisor #1033 downloaded, failed and began again; here nobody is asked for a byte."""
    found = refused(small, bytes(40 * MIB), server)
    assert (found.code, found.again) == (UpdateCode.NO_SPACE, True)
    assert server.requests == []


def test_kind_13_the_reserve_is_left_alone(server: BlobServer, small: Device) -> None:
    """31.5 MiB would fit on 32, and leave the device's own state nothing to live on."""
    assert refused(small, bytes(31 * MIB + MIB // 2), server).code is UpdateCode.NO_SPACE
    assert server.requests == []


def test_kind_13_the_part_that_is_here_already_counts(server: BlobServer, disk: Path, small: Device) -> None:
    data = os.urandom(20 * MIB)
    want = want_of(server.add(data), data)
    (small.store.places.parts / f"{want.sha256}.part").write_bytes(data[: 16 * MIB])
    small.fetch(want)
    assert small.blob(want) == data
    assert server.sent == 4 * MIB


def test_full_meanwhile(server: BlobServer, disk: Path, small: Device) -> None:
    """Somebody else takes all that is left: the part goes, so that the queue of events can be written."""
    data = os.urandom(20 * MIB)
    want = want_of(server.add(data), data)
    filled: list[Path] = []

    def cancelled() -> bool:
        if not filled and small.part(want) > 2 * MIB:
            filled.append(fill_up(disk))
        return False

    small.cancelled = cancelled
    found = refused(small, data, server)
    assert (found.code, found.again) == (UpdateCode.NO_SPACE, True)
    assert small.part(want) == -1
    assert len(server.requests) == 1
    (disk / "event").write_bytes(bytes(MIB))
    # as long as the disk stays full, not a byte more is asked for
    assert refused(small, data, server).code is UpdateCode.NO_SPACE
    assert len(server.requests) == 1
    filled[0].unlink()
    small.fetch(want)
    assert small.blob(want) == data


def test_room_that_shrinks_meanwhile(server: BlobServer, disk: Path, small: Device) -> None:
    """What is to come no longer fits beside the reserve: it ends before the disk is full, and keeps what it has."""
    data = os.urandom(24 * MIB)
    want = want_of(server.add(data), data)

    def cancelled() -> bool:
        if not (disk / "log").exists() and small.part(want) > MIB:
            (disk / "log").write_bytes(bytes(8 * MIB))
        return False

    small.cancelled = cancelled
    assert refused(small, data, server).code is UpdateCode.NO_SPACE
    here = small.part(want)
    assert 7 * MIB < here < 20 * MIB
    (disk / "log").unlink()
    small.cancelled = lambda: False
    small.fetch(want)
    assert small.blob(want) == data
    assert server.requests[1][0] == f"bytes={here}-"


def test_full_when_the_blob_is_to_be_put_away(server: BlobServer, disk: Path, small: Device) -> None:
    """A rename needs no room: what came is not lost to a disk that is full by then."""
    data = os.urandom(4 * MIB)
    want = want_of(server.add(data), data)

    def cancelled() -> bool:
        if small.part(want) == len(data):
            fill_up(disk)
        return False

    small.cancelled = cancelled
    small.fetch(want)
    assert small.blob(want) == data
