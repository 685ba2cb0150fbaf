"""A disk that is full, cannot be written, or holds a damaged file: the stated outcome of each, on real disks."""

import contextlib
import ctypes
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.outbox import Health, NotAccepted, Put
from edge_runtime.outbox.ballast import Ballast
from edge_runtime.outbox.database import DatabaseFault, Row, StandardDatabase, StoreFault
from edge_runtime.outbox.storefile import MARKER
from edge_runtime.protocol.vocabulary import DecisionKind
from tests.rigs.outbox import BootClock, hand_out, key_of, opened, quiet_settings, receipt, submission

MIB = 1024 * 1024
REPEATED = bytes(1500)


@pytest.fixture
def clock() -> BootClock:
    return BootClock()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"needs root to mount a small file system: {done.stderr.decode().strip()}")
    yield place
    ctypes.CDLL(None).umount2(os.fsencode(place), 2)  # detached, also when a failed test left files open


def remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True, capture_output=True)


def fill_up(place: Path) -> Path:
    """Take all that is left of a disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for block in (64 * 1024, 512):
            with contextlib.suppress(OSError):
                while file.write(bytes(block)):
                    pass
    return filler


@pytest.mark.parametrize("ballast", [1, 4])
def test_a_full_disk_costs_growth_and_nothing_that_was_acknowledged(
    small_disk: Path, clock: BootClock, ballast: int
) -> None:
    """With a ballast of 1 MiB, and with one of which this disk has room for a quarter."""
    settings = quiet_settings(ballast_bytes=ballast * MIB, quota_bytes=32 * MIB)
    with opened(small_disk / "outbox", clock, settings) as outbox:
        acknowledged = {
            key_of(n)
            for n in range(300)
            if outbox.put([submission(n, 1, body=REPEATED)])[0].outcome is Put.ACCEPTED
        }
        assert len(acknowledged) == 300
        filler = fill_up(small_disk)
        for n in range(1000, 1400):  # as severe: the oldest give way
            assert outbox.put([submission(n, 1, body=REPEATED)])[0].outcome is Put.ACCEPTED
        status = outbox.status()
        assert status.state is Health.DEGRADED
        assert "the disk is full" in status.sentences[0]
        assert status.ledger.balances
        assert status.ledger.evicted > 0
        refused = outbox.put([submission(5000, 0, body=REPEATED)])[0]  # less severe than all: no place
        assert (refused.outcome, refused.reason) == (Put.NOT_ACCEPTED, NotAccepted.DISK_FULL)
        items = outbox.lease(64, MIB)
        epoch = outbox.sync_point().epoch
        word = receipt(epoch, accepted=[(item.seq, item.seq) for item in items])
        assert outbox.settle(epoch, word).delivered == len(items) == 64
        filler.unlink()
        outbox.upkeep_now()
        assert outbox.status().state is Health.HEALTHY
        before = outbox.sync_point().ledger
        assert before.accepted == 700
    with opened(small_disk / "outbox", clock, settings) as outbox:
        assert outbox.sync_point().ledger == before


def test_a_start_on_a_full_disk_takes_the_ballast_once_there_is_room(
    small_disk: Path, clock: BootClock
) -> None:
    """There was room for the database, and none beside it."""
    settings = quiet_settings(ballast_bytes=MIB, quota_bytes=32 * MIB)
    with opened(small_disk / "outbox", clock, quiet_settings(ballast_bytes=0)) as outbox:
        outbox.put([submission(1)])
        filler = fill_up(small_disk)
    os.truncate(filler, filler.stat().st_size - MIB // 2)
    with opened(small_disk / "outbox", clock, settings) as outbox:
        assert outbox.status().sentences == ("the disk has no room for the ballast",)
        filler.unlink()
        outbox.upkeep_now()
        assert outbox.status().state is Health.HEALTHY
        assert (small_disk / "outbox" / "ballast").stat().st_size == MIB


def test_a_disk_that_fills_up_with_our_own_events_stays_usable(small_disk: Path, clock: BootClock) -> None:
    settings = quiet_settings(ballast_bytes=MIB, quota_bytes=32 * MIB)
    with opened(small_disk / "outbox", clock, settings) as outbox:
        last = 4000
        for first in range(0, last, 40):
            items = [submission(n, 1, body=REPEATED) for n in range(first, first + 40)]
            assert all(result.outcome is Put.ACCEPTED for result in outbox.put(items))
        status = outbox.status()
        assert status.state is Health.DEGRADED
        assert (status.ledger.accepted, status.ledger.balances) == (last, True)
        epoch = outbox.sync_point().epoch
        hand_out(outbox)
        outbox.settle(epoch, receipt(epoch, high=last))
        assert outbox.sync_point().ledger.queued == 0


def test_a_disk_without_any_room_is_said_to_be_volatile(small_disk: Path, clock: BootClock) -> None:
    """Not even the ballast is there: events live in memory, marked so, and move to the disk once it has room."""
    settings = quiet_settings(retry_disk_s=30)
    filler = fill_up(small_disk)
    with opened(small_disk / "outbox", clock, settings, evidence=small_disk) as outbox:
        result = outbox.put([submission(1)])[0]
        assert (result.outcome, result.volatile) == (Put.ACCEPTED, True)
        assert outbox.status().state is Health.VOLATILE
        filler.unlink()
        clock.pass_s(31)
        outbox.upkeep_now()
        assert outbox.status().state is Health.HEALTHY
        assert [entry.key for entry in outbox.queued(10)] == [key_of(1)]
        assert outbox.put([submission(2)])[0].volatile is False
    with opened(small_disk / "outbox", clock, settings) as outbox:
        assert outbox.sync_point().ledger.queued == 2


def test_what_lies_in_memory_goes_to_the_disk_at_a_clean_end(small_disk: Path, clock: BootClock) -> None:
    settings = quiet_settings(retry_disk_s=30)
    filler = fill_up(small_disk)
    with opened(small_disk / "outbox", clock, settings, evidence=small_disk) as outbox:
        assert all(result.volatile for result in outbox.put([submission(n) for n in range(50)]))
        filler.unlink()
    with opened(small_disk / "outbox", clock, settings) as outbox:
        ledger = outbox.sync_point().ledger
        assert (ledger.accepted, ledger.queued, ledger.balances) == (50, 50, True)


def test_a_disk_that_becomes_read_only(small_disk: Path, clock: BootClock) -> None:
    settings = quiet_settings(retry_disk_s=30, volatile_bytes=64 * 1024, reserve_share=0.8)
    with opened(small_disk / "outbox", clock, settings) as outbox:
        outbox.put([submission(n) for n in range(3)])
        outbox.next_session()
    with opened(small_disk / "outbox", clock, settings):
        pass
    remount(small_disk, "ro")
    with opened(small_disk / "outbox", clock, settings) as outbox:
        result = outbox.put([submission(10, 2), submission(11, kind=DecisionKind.HOLD)])
        assert [(found.outcome, found.volatile) for found in result] == [(Put.ACCEPTED, True)] * 2
        status = outbox.status()
        assert status.state is Health.VOLATILE
        assert "memory only" in status.sentences[0]
        (item,) = outbox.lease(10, MIB)
        point = outbox.sync_point()
        assert outbox.settle(point.epoch, receipt(point.epoch, high=item.seq)).delivered == 1
        outbox.put([submission(12, 2)])
        (refused,) = outbox.put([submission(13, 0, body=bytes(16_000))])
        assert (refused.outcome, refused.reason) == (Put.NOT_ACCEPTED, NotAccepted.READ_ONLY)
        remount(small_disk, "rw")
        clock.pass_s(31)
        outbox.upkeep_now()
        status = outbox.status()
        assert status.state is Health.HEALTHY
        assert (status.ledger.accepted, status.ledger.queued, status.ledger.delivered) == (5, 4, 1)
        assert status.held == 1
        assert status.not_accepted == {"read_only": 1}
        assert outbox.next_session() > 1
        assert outbox.sync_point().epoch != point.epoch


def test_a_disk_that_fails_under_a_running_outbox(tmp_path: Path, clock: BootClock) -> None:
    """Its file goes away in the middle: everything is said, and comes back with the disk."""

    class Failing(StandardDatabase):
        broken = False

        def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
            if Failing.broken and self.on_disk and sql == "COMMIT":
                raise DatabaseFault("disk I/O error", StoreFault.UNWRITABLE)
            return super().execute(sql, parameters)

        def __init__(self, path: Path | None) -> None:
            self.on_disk = path is not None
            super().__init__(path)

    with opened(tmp_path / "outbox", clock, quiet_settings(retry_disk_s=30), connect=Failing) as outbox:
        outbox.put([submission(1)])
        Failing.broken = True
        assert outbox.put([submission(2)])[0].volatile
        ledger = outbox.status().ledger
        assert (ledger.accepted, ledger.queued) == (2, 2)  # what is on the disk is still counted
        clock.pass_s(31)
        outbox.upkeep_now()
        assert outbox.status().state is Health.VOLATILE
        Failing.broken = False
        clock.pass_s(31)
        outbox.upkeep_now()
        assert outbox.status().state is Health.HEALTHY
        assert [entry.key for entry in outbox.queued(10)] == [key_of(1), key_of(2)]


def test_nobody_of_the_disk_gives_way_in_memory(tmp_path: Path, clock: BootClock) -> None:
    """The disk fails before a transaction begins, while it is known who gives way next."""

    class Failing(StandardDatabase):
        broken = False

        def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
            if Failing.broken and self.on_disk and sql.startswith("BEGIN"):
                raise DatabaseFault("disk I/O error", StoreFault.UNWRITABLE)
            return super().execute(sql, parameters)

        def __init__(self, path: Path | None) -> None:
            self.on_disk = path is not None
            super().__init__(path)

    limits = quiet_settings(quota_bytes=MIB, volatile_bytes=64 * 1024)
    with opened(tmp_path / "outbox", clock, limits, connect=Failing) as outbox:
        for n in range(800):
            Failing.broken = n >= 700
            clock.pass_s(0.01)
            assert outbox.put([submission(n, 1, body=REPEATED)])[0].volatile is Failing.broken
        queued = outbox.queued(1000)
        assert [entry.key for entry in queued] == [key_of(n) for n in range(800 - len(queued), 800)]
        assert sum(entry.bytes for entry in queued) < 64 * 1024


# ---- damaged files


def test_a_file_that_turns_out_to_be_damaged_in_use(tmp_path: Path, clock: BootClock) -> None:
    """The call under way is answered from the new database; a lease of the old one settles nothing in it."""

    class Rotting(StandardDatabase):
        rotten = False

        def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
            if sql == "COMMIT" and Rotting.rotten:
                raise DatabaseFault("database disk image is malformed")
            return super().execute(sql, parameters)

        def close(self) -> None:
            super().close()
            if Rotting.rotten:
                Rotting.rotten = False
                (tmp_path / "outbox" / "outbox.db").write_bytes(b"rot")

    with opened(tmp_path / "outbox", clock, connect=Rotting) as outbox:
        outbox.put([submission(n) for n in range(3)])
        outbox.lease(2, MIB)
        epoch = outbox.sync_point().epoch
        Rotting.rotten = True
        assert outbox.put([submission(10)])[0].outcome is Put.ACCEPTED
        assert outbox.sync_point().epoch != epoch
        assert outbox.settle(epoch, receipt(epoch, high=3)).delivered == 0
        assert [entry.key for entry in outbox.queued(10)] == [key_of(10)]
        assert outbox.status().state is Health.DEGRADED


def damage(path: Path, rng: random.Random, *, pages: int) -> None:
    """Overwrite whole pages somewhere in a file, as a dying flash does."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for _ in range(pages):
            file.seek(rng.randrange(max(1, size // 4096)) * 4096)
            file.write(rng.randbytes(4096))


def make_queue(path: Path, clock: BootClock, number: int = 400) -> None:
    with opened(path, clock) as outbox:
        for first in range(0, number, 100):
            outbox.put([submission(n, n % 4) for n in range(first, first + 100)])
        epoch = outbox.sync_point().epoch
        hand_out(outbox)
        outbox.settle(epoch, receipt(epoch, high=40))
    mark_unclean(path, clock)


def mark_unclean(path: Path, clock: BootClock) -> None:
    """Leave the file as a killed process does: it is checked when it is opened."""
    with opened(path, clock) as outbox:
        outbox.upkeep_now()
        copy = path.with_name("copy")
        shutil.copytree(path, copy)
    shutil.rmtree(path)
    copy.rename(path)


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_file_is_put_aside_and_salvaged(tmp_path: Path, clock: BootClock, seed: int) -> None:
    path = tmp_path / "outbox"
    make_queue(path, clock)
    for log in path.glob("*-wal"):
        log.unlink()
    damage(path / "outbox.db", random.Random(seed), pages=4)
    with opened(path, clock) as outbox:
        status = outbox.status()
        assert status.ledger.balances
        assert status.ledger.queued == len(outbox.queued(1000))
        if status.quarantined:
            assert status.state is Health.DEGRADED
            assert "put aside as outbox-000001.db" in status.sentences[0]
            assert (path / "quarantine" / "outbox-000001.db").exists()
        if status.ledger.accepted == 400:  # the books were readable
            assert status.ledger.delivered == 40
            assert status.ledger.queued + status.ledger.lost == 360
        assert outbox.put([submission(9999)])[0].outcome is Put.ACCEPTED
        items = outbox.lease(1000, 4 * MIB)
        assert all(item.body == submission(0).body for item in items)


def test_some_pages_lost_are_not_all_lost(tmp_path: Path, clock: BootClock) -> None:
    """Over many damages most rows come back: salvage goes around what it cannot read."""
    salvaged = damaged = 0
    for seed in range(8):
        path = tmp_path / str(seed) / "outbox"
        path.parent.mkdir()
        make_queue(path, clock)
        for log in path.glob("*-wal"):
            log.unlink()
        damage(path / "outbox.db", random.Random(100 + seed), pages=1)
        with opened(path, clock) as outbox:
            if outbox.status().quarantined:
                damaged += 1
                salvaged += outbox.status().ledger.queued
    assert damaged >= 3
    assert salvaged / (damaged * 360) > 0.5


@pytest.mark.parametrize("with_log", [True, False])
def test_without_its_first_page_all_rows_are_salvaged(
    tmp_path: Path, clock: BootClock, with_log: bool
) -> None:
    path = tmp_path / "outbox"
    make_queue(path, clock)
    with opened(path, clock) as outbox:
        outbox.put([submission(1000)])
        if with_log:
            mark = shutil.copytree(path, tmp_path / "killed")
    if with_log:
        path = mark
    with (path / "outbox.db").open("r+b") as file:
        file.write(random.Random(1).randbytes(4096))
    with opened(path, clock) as outbox:
        status = outbox.status()
        assert status.quarantined
        assert (status.ledger.accepted, status.ledger.queued, status.ledger.lost) == (401, 361, 0)
        assert not (path / "quarantine" / "salvage").exists()


def test_spare_books_carry_the_totals_on(tmp_path: Path, clock: BootClock) -> None:
    path = tmp_path / "outbox"
    make_queue(path, clock)
    with opened(path, clock):
        pass
    with contextlib.closing(sqlite3.connect(path / "outbox.db")) as database:
        database.execute("UPDATE books SET crc = crc + 1")
        database.commit()
    with opened(path, clock) as outbox:
        status = outbox.status()
        assert status.quarantined
        assert (status.ledger.accepted, status.ledger.delivered, status.ledger.queued) == (400, 40, 360)


def test_a_file_that_is_no_database_is_kept_and_a_new_one_begun(tmp_path: Path, clock: BootClock) -> None:
    (tmp_path / "outbox").mkdir()
    (tmp_path / "outbox" / "outbox.db").write_bytes(b"not a database at all" * 1000)
    with opened(tmp_path / "outbox", clock) as outbox:
        status = outbox.status()
        assert status.state is Health.DEGRADED
        assert "unreadable" in status.sentences[0]
        assert outbox.put([submission(1)])[0].outcome is Put.ACCEPTED
        assert outbox.next_session() > clock.unix_ns // 10**9  # beyond any session before
    kept = (tmp_path / "outbox" / "quarantine" / "outbox-000001.db").read_bytes()
    assert kept.startswith(b"not a database")


def test_the_quarantine_is_bounded(tmp_path: Path, clock: BootClock) -> None:
    path = tmp_path / "outbox"
    path.mkdir()
    for number in range(5):
        (path / "outbox.db").write_bytes(b"x" * (1000 + number))
        with opened(path, clock, quiet_settings(quarantine_kept=2)) as outbox:
            assert len(outbox.status().quarantined) == min(number + 1, 2)
    names = sorted(entry.name for entry in (path / "quarantine").iterdir())
    assert names == ["outbox-000004.db", "outbox-000005.db"]


def test_a_salvage_that_was_interrupted_is_done_again(tmp_path: Path, clock: BootClock) -> None:
    path = tmp_path / "outbox"
    make_queue(path, clock)
    for log in path.glob("*-wal"):
        log.unlink()
    quarantine = path / "quarantine"
    quarantine.mkdir()
    (path / "outbox.db").rename(quarantine / "outbox-000001.db")
    (path / MARKER).write_text("outbox-000001.db")
    (path / "outbox.db").write_bytes(b"")  # the new one had only just been made
    with opened(path, clock) as outbox:
        ledger = outbox.status().ledger
        assert (ledger.accepted, ledger.queued, ledger.lost) == (400, 360, 0)
    assert not (path / MARKER).exists()


def test_a_row_that_rotted_is_lost_and_said_to_the_server(tmp_path: Path, clock: BootClock) -> None:
    path = tmp_path / "outbox"
    with opened(path, clock) as outbox:
        outbox.put([submission(n) for n in range(3)])
    with sqlite3.connect(path / "outbox.db") as database:
        database.execute("UPDATE queue SET body = ? WHERE seq = 2", (b"rot",))
    database.close()
    with opened(path, clock) as outbox:
        assert [item.seq for item in outbox.lease(10, MIB)] == [1, 3]
        (found,) = outbox.outcomes(10)
        assert (found.first, found.last, found.fate.value) == (2, 2, "lost")
        assert outbox.sync_point().ledger.lost == 1


def test_the_ballast_takes_real_blocks_and_gives_them_back(small_disk: Path) -> None:
    ballast = Ballast(small_disk / "ballast", MIB)
    before = ballast.free()
    assert ballast.take()
    assert before - ballast.free() >= MIB
    assert ballast.drop()
    fill_up(small_disk)
    assert not ballast.take()
    assert ballast.bytes_held == 0
    assert list(small_disk.glob("*.part")) == []


def test_a_disk_with_little_room_holds_a_quarter_of_the_ballast_until_it_has_more(small_disk: Path) -> None:
    ballast = Ballast(small_disk / "ballast", 4 * MIB)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(2 * MIB))
    assert ballast.take()
    assert ballast.bytes_held == MIB
    filler.unlink()
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True, capture_output=True)
    assert ballast.take()
    assert ballast.bytes_held == 4 * MIB
