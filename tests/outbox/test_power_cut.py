"""The real outbox on a disk that remembers every write, and the images that a power cut at any of them could leave.

Each image must open without a repair and hold exactly the state before or after the operation that was under way:
the same events, the same ledger, the same decisions. So nothing acknowledged is lost, and nothing is counted twice.
"""

import random
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from edge_runtime.outbox import Health, Outbox, Put
from edge_runtime.protocol.delivery import Ledger
from tests.rigs.outbox import (
    BootClock,
    RecordingDisk,
    key_of,
    opened,
    quiet_settings,
    receipt,
    submission,
)

SETTINGS = quiet_settings(quota_bytes=64 * 1024, reserve_share=0.2).model_copy(
    update={"decisions_kept": 150}  # far below what a device may have: the ring turns over many times
)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> RecordingDisk:
    found = RecordingDisk()
    found.remember_directory_syncs(monkeypatch)
    return found


@dataclass(frozen=True)
class Snapshot:
    """The outbox after one operation was acknowledged."""

    cut: int
    ledger: Ledger
    keys: frozenset[bytes]
    decisions: tuple[bytes, ...] = ()


def snapshot(outbox: Outbox, cut: int) -> Snapshot:
    keys = frozenset(entry.key for entry in outbox.queued(1000))
    return Snapshot(cut, outbox.sync_point().ledger, keys, tuple(outbox.decisions(200)))


def live_through(
    directory: Path, disk: RecordingDisk, clock: BootClock, seed: int, steps: int
) -> list[Snapshot]:
    """Put, evict, lease, settle, expire and restart at random; one snapshot for each acknowledged operation."""
    rng = random.Random(seed)
    outbox = Outbox(directory, SETTINGS, clock, connect=disk.connect)
    history = [snapshot(outbox, len(disk.operations))]
    number = 0
    for _ in range(steps):
        choice = rng.random()
        if choice < 0.6:
            batch = rng.choice((1, 1, 1, 16))
            ttl_s = rng.choice((30, 3600))
            outbox.put(
                [
                    submission(
                        number + i,
                        rng.randrange(4),
                        ttl_s=ttl_s,
                        body=rng.randbytes(rng.choice((200, 5000))),
                        receipt=rng.randbytes(rng.choice((0, 250, 600))),
                    )
                    for i in range(batch)
                ]
            )
            number += batch
        elif choice < 0.85:
            leased = outbox.lease(rng.choice((1, 20)), 100_000)
            ranges = [(item.seq, item.seq) for item in leased if rng.random() < 0.9]
            epoch = outbox.sync_point().epoch
            outbox.settle(epoch, receipt(epoch, accepted=ranges, wall_ns=clock.unix_ns))
            outbox.unlease()
        elif choice < 0.97:
            clock.pass_s(10)
            outbox.upkeep_now()
        else:
            outbox.close()
            history.append(replace(history[-1], cut=len(disk.operations)))
            outbox = Outbox(directory, SETTINGS, clock, connect=disk.connect)
        history.append(snapshot(outbox, len(disk.operations)))
    outbox.close()
    return history


def check_image(image: Path, clock: BootClock, before: Snapshot, after: Snapshot) -> None:
    with opened(image, clock, SETTINGS) as outbox:
        found = snapshot(outbox, 0)
        status = outbox.status()
        assert status.state is Health.HEALTHY, status.sentences
        assert found.ledger.balances
        assert replace(found, cut=before.cut) == before or replace(found, cut=after.cut) == after
        assert outbox.put([submission(10_000_000, 3)])[0].outcome is Put.ACCEPTED


def cut_power(tmp_path: Path, disk: RecordingDisk, *, seed: int, steps: int, images: int) -> None:
    clock = BootClock()
    history = live_through(tmp_path / "outbox", disk, clock, seed, steps)
    last = history[-1].ledger
    assert min(last.evicted, last.delivered, last.expired) > 0
    rng = random.Random(seed)
    for number in range(images):
        cut = rng.randrange(history[0].cut, len(disk.operations) + 1)
        before = max((index for index, found in enumerate(history) if found.cut <= cut), default=0)
        image = tmp_path / f"image-{number}"
        disk.image(cut, rng, image)
        check_image(image, clock, history[before], history[min(before + 1, len(history) - 1)])


def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path, disk: RecordingDisk) -> None:
    cut_power(tmp_path, disk, seed=1, steps=150, images=45)


@pytest.mark.trial
@pytest.mark.parametrize("seed", range(10))
def test_five_hundred_power_cuts(tmp_path: Path, disk: RecordingDisk, seed: int) -> None:
    cut_power(tmp_path, disk, seed=100 + seed, steps=300, images=60)


def test_a_power_cut_in_the_very_first_start_leaves_a_file_that_opens(
    tmp_path: Path, disk: RecordingDisk
) -> None:
    clock = BootClock()
    with opened(tmp_path / "outbox", clock, SETTINGS, connect=disk.connect):
        first = len(disk.operations)
    rng = random.Random(3)
    for number, cut in enumerate(range(first + 1)):
        image = tmp_path / f"image-{number}"
        disk.image(cut, rng, image)
        with opened(image, clock, SETTINGS) as outbox:
            assert outbox.status().ledger == Ledger()
            assert outbox.put([submission(1)])[0].outcome is Put.ACCEPTED


def many_callers(tmp_path: Path, disk: RecordingDisk, seed: int, images: int) -> None:
    clock = BootClock()
    acknowledged: list[tuple[int, bytes]] = []

    def caller(outbox: Outbox, first: int) -> None:
        for number in range(first, first + 20):
            assert outbox.put([submission(number)])[0].outcome is Put.ACCEPTED
            acknowledged.append((len(disk.operations), key_of(number)))

    with opened(tmp_path / "outbox", clock, quiet_settings(), connect=disk.connect) as outbox:
        start = len(disk.operations)
        threads = [threading.Thread(target=caller, args=(outbox, 1000 * n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end = len(disk.operations)
    rng = random.Random(seed)
    for number in range(images):
        cut = rng.randrange(start, end + 1)
        image = tmp_path / f"image-{number}"
        disk.image(cut, rng, image)
        with opened(image, clock, quiet_settings()) as outbox:
            status, keys = outbox.status(), {entry.key for entry in outbox.queued(1000)}
            assert status.state is Health.HEALTHY
            assert status.ledger.balances
            assert status.ledger.queued == len(keys)
            assert {key for at, key in acknowledged if at <= cut} <= keys


def test_a_group_commit_acknowledges_nobody_too_early(tmp_path: Path, disk: RecordingDisk) -> None:
    many_callers(tmp_path, disk, seed=5, images=15)


@pytest.mark.trial
def test_a_group_commit_acknowledges_nobody_too_early_often(tmp_path: Path, disk: RecordingDisk) -> None:
    many_callers(tmp_path, disk, seed=6, images=150)
