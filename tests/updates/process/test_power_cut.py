"""A power cut at any flush of anything below `STATE/updates`: the worst and the best that a disk may have kept.

Only what was flushed is certain: a name once its folder was, content once its file was. Two images of each
cut are started from: one in which nothing else arrived, and one in which every name arrived, and no content that
was not flushed. Everything that updates write lies below that folder, also what the store and the trust keep.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.signed_repository import SignedRepository
from tests.rigs.updating_device import UpdatingDevice
from tests.updates.process.test_killed import (
    LIVES,
    Life,
    check_between,
    check_end,
    fails_in_probation,
    good,
)


class PowerCut(BaseException):
    """The power is gone; nothing may catch this."""


@dataclass
class Disk:
    """What is certain of one folder, as its files are flushed.

    Attributes:
        cut_at: the flush before which the power goes; None for never.
        flushes: so far.
    """

    root: Path
    cut_at: int | None = None
    flushes: int = 0
    data: dict[int, bytes] = field(default_factory=dict)
    entries: dict[int, dict[str, tuple[int, bool]]] = field(default_factory=dict)

    def fsync(self, descriptor: int) -> None:
        """In the place of `os.fsync`."""
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        if self.root not in (place, *place.parents):
            return
        self.flushes += 1
        if self.flushes == self.cut_at:
            raise PowerCut
        self.flushed(place, os.fstat(descriptor).st_ino)

    def flushed(self, place: Path, inode: int) -> None:
        if place.is_dir():
            with os.scandir(place) as found:
                self.entries[inode] = {entry.name: (entry.inode(), entry.is_dir()) for entry in found}
        elif place.exists():
            self.data[inode] = place.read_bytes()

    def all_is_certain(self) -> None:
        """What was there before the life began."""
        for folder, _, names in os.walk(self.root):
            self.flushed(Path(folder), Path(folder).stat().st_ino)
            for name in names:
                path = Path(folder) / name
                self.flushed(path, path.stat().st_ino)

    def worst(self, target: Path) -> None:
        """Nothing that was not flushed has arrived."""
        self._restore(self.root.stat().st_ino, target)

    def best(self, target: Path) -> None:
        """Every name has arrived, and of content what was flushed."""
        for folder, _, names in os.walk(self.root):
            place = target / Path(folder).relative_to(self.root)
            place.mkdir(parents=True, exist_ok=True)
            for name in names:
                inode = (Path(folder) / name).stat().st_ino
                (place / name).write_bytes(self.data.get(inode, b""))

    def _restore(self, inode: int, target: Path) -> None:
        target.mkdir(mode=0o700)
        for name, (child, is_folder) in self.entries.get(inode, {}).items():
            if is_folder:
                self._restore(child, target / name)
            else:
                (target / name).write_bytes(self.data.get(child, b""))


@pytest.fixture(scope="module")
def fleet() -> SignedRepository:
    return SignedRepository()


@pytest.fixture
def plug(monkeypatch: pytest.MonkeyPatch) -> Callable[[Disk | None], None]:
    """Puts a disk in the place of the real one; None for one that nobody watches."""

    def put(disk: Disk | None) -> None:
        monkeypatch.setattr(os, "fsync", (lambda _fd: None) if disk is None else disk.fsync)

    put(None)
    return put


def cut_once(
    folder: Path, fleet: SignedRepository, life: Life, plug: Callable[[Disk | None], None], at: int
) -> Iterator[tuple[str, UpdatingDevice, Any]]:
    """The devices that a cut before a flush may leave, and what their life was to come to."""
    plug(None)
    device = UpdatingDevice(folder / "device", fleet.copy())
    disk = Disk(device.folder)
    disk.all_is_certain()
    disk.cut_at = at
    plug(disk)
    outcome: Any = None
    try:
        outcome = life(device)
        device.run(300, until=lambda: outcome[0] in device.seen)
        device.run(2)
    except PowerCut:
        pass
    plug(None)
    device.look_at_reports()
    images = {name: folder / name for name in ("worst", "best")}
    for name, image in images.items():
        getattr(disk, name)(image)
    for name, image in images.items():
        yield name, _woken(device, image), outcome


def _woken(device: UpdatingDevice, image: Path) -> UpdatingDevice:
    """The same device on another disk, with power again."""
    other = UpdatingDevice.__new__(UpdatingDevice)
    other.__dict__.update(device.__dict__)
    shutil.rmtree(device.folder)
    shutil.copytree(image, device.folder)
    other.driver = None
    other.seen = {seq: set(numbers) for seq, numbers in device.seen.items()}
    other.reports, other.states = dict(device.reports), list(device.states)
    return other


def flushes(folder: Path, fleet: SignedRepository, life: Life, plug: Callable[[Disk | None], None]) -> int:
    """How many flushes a life has, from the first to its end."""
    device = UpdatingDevice(folder / "device", fleet.copy())
    disk = Disk(device.folder)
    plug(disk)
    seq, _, _ = life(device)
    device.run_to_end(seq, 300)
    device.run(2)
    return disk.flushes


def cut_everywhere(
    tmp_path: Path,
    fleet: SignedRepository,
    life: Life,
    plug: Callable[[Disk | None], None],
    step: int,
) -> int:
    count = flushes(tmp_path / "whole", fleet, life, plug)
    for at in range(1, count + 1, step):
        for name, device, outcome in cut_once(tmp_path / str(at), fleet, life, plug, at):
            if outcome is None:
                continue  # the life's own first steps, before there is anything to end
            seq, state, runs = outcome
            device.store = type(device.store)(device.folder, reserve_bytes=0)
            check_between(device)
            device.deliver()  # the broker retains it
            device.restart("boot")
            device.run_to_end(seq, 300)
            device.run(3)
            check_end(device, seq, state, runs)
            assert name
    return count


@pytest.mark.parametrize("life", [good, fails_in_probation], ids=lambda life: life.__name__)
def test_a_power_cut_at_any_time_is_lived_through(
    tmp_path: Path, fleet: SignedRepository, plug: Callable[[Disk | None], None], life: Life
) -> None:
    """Every ninth flush; `test_a_power_cut_at_every_flush` is all of them."""
    assert cut_everywhere(tmp_path, fleet, life, plug, 9) >= 50, "flushes are no longer seen"


@pytest.mark.trial
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_a_power_cut_at_every_flush(
    tmp_path: Path, fleet: SignedRepository, plug: Callable[[Disk | None], None], life: Life
) -> None:
    cut_everywhere(tmp_path, fleet, life, plug, 1)
