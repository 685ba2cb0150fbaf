"""What is left after power cuts, wiped folders, lost state and full disks; and what is remembered twice."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tuf.api.metadata import MetaFile

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.trust.memory import Memory
from tests.rigs.signed_repository import SignedRepository, make_release
from tests.rigs.small_disk import fill_up, small_disk
from tests.rigs.trusting_device import TrustingDevice, refusal

ROLLBACK, UNAVAILABLE = UpdateCode.METADATA_ROLLBACK, UpdateCode.METADATA_UNAVAILABLE


def older_road(fleet: SignedRepository, device: TrustingDevice) -> SignedRepository:
    """The fleet goes on and the device with it; what is returned serves what was valid before, and still is."""
    older = fleet.copy()
    fleet.release(2)
    device.trust.refresh()
    return older


def test_a_wiped_cache_judges_nothing_and_comes_back(fleet: SignedRepository, device: TrustingDevice) -> None:
    device.wipe_metadata()
    device.restarted()
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is UNAVAILABLE
    device.trust.refresh()
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_a_wiped_cache_takes_nothing_older(fleet: SignedRepository, device: TrustingDevice) -> None:
    """tuf alone accepts it: what it knows of versions lay in the folder that was wiped."""
    device.road = older_road(fleet, device)
    device.wipe_metadata()
    device.restarted()
    assert refusal(device.trust.refresh) is ROLLBACK
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is UNAVAILABLE
    device.road = fleet
    device.trust.refresh()
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_a_cache_that_was_put_back_is_refused(fleet: SignedRepository, device: TrustingDevice) -> None:
    """An image of last week's disk, without the second copy."""
    shutil.copytree(device.folder / "metadata", device.folder / "last-week", symlinks=True)
    older_road(fleet, device)
    device.wipe_metadata()
    (device.folder / "last-week").rename(device.folder / "metadata")
    device.restarted()
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is ROLLBACK
    device.trust.refresh()
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_a_wiped_cache_takes_no_older_root(fleet: SignedRepository, device: TrustingDevice) -> None:
    older = fleet.copy()
    fleet.publish("root")
    device.trust.refresh()
    device.wipe_metadata()
    device.road = older
    older.timestamp.version += 5
    older.snapshot.version += 5
    older.publish_online()
    device.restarted()
    assert refusal(device.trust.refresh) is ROLLBACK


def test_a_wiped_cache_and_stolen_online_keys(fleet: SignedRepository, device: TrustingDevice) -> None:
    """A new timestamp and a new snapshot that list old models: refused for what the snapshot listed before."""
    thief = older_road(fleet, device)
    device.wipe_metadata()
    thief.timestamp.version += 9
    thief.snapshot.version += 9
    thief.publish_online()
    device.road = thief
    device.restarted()
    assert refusal(device.trust.refresh) is ROLLBACK


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: put(path, b""),
    "cut": lambda path: put(path, path.read_bytes()[:100]),
    "zeros": lambda path: put(path, bytes(path.stat().st_size)),
    "no memory": lambda path: put(path, b'{"memory": 5, "sha256": ""}'),
    "one digit": lambda path: put(path, path.read_bytes().replace(b'"models":3', b'"models":9')),
    "a folder": lambda path: path.rename(path.with_suffix(".old")).with_suffix(".json").mkdir(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_lost_state_file(damage: str, fleet: SignedRepository, device: TrustingDevice) -> None:
    """What the metadata says is known still; what is older than that is refused by it."""
    older = older_road(fleet, device)
    DAMAGE[damage](device.folder / "trust-state.json")
    device.restarted()
    assert device.admit(device.assigned(make_release(2))).terms is not None
    trouble = device.trust.standing().trouble
    assert trouble is not None
    assert "trust-state.json" in trouble
    device.road = older
    assert refusal(device.trust.refresh) is ROLLBACK


def test_a_lost_state_file_is_made_again(fleet: SignedRepository, device: TrustingDevice) -> None:
    """From the metadata, before anybody can wipe that as well."""
    older = older_road(fleet, device)
    device.lose_memory()
    device.restarted()
    assert device.admit(device.assigned(None)).terms is None
    device.wipe_metadata()
    device.road = older
    device.restarted()
    assert refusal(device.trust.refresh) is ROLLBACK


def test_both_lost_is_a_new_device(fleet: SignedRepository, device: TrustingDevice) -> None:
    """The limit of what a device can know: what is old and has not ended is taken, until there is newer."""
    older = older_road(fleet, device)
    device.wipe_metadata()
    device.lose_memory()
    device.road = older
    device.restarted()
    device.trust.refresh()
    assert refusal(lambda: device.admit(device.assigned(make_release(2), snapshot_version=3))) is UNAVAILABLE
    device.road = fleet
    device.trust.refresh()
    assert device.admit(device.assigned(make_release(2))).terms is not None


FILES = ("timestamp.json", "snapshot.json", "targets.json", "models.json", "root_history/1.root.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "zeros"])
def test_a_damaged_file_of_metadata(
    name: str, damage: str, fleet: SignedRepository, device: TrustingDevice
) -> None:
    """Refused or not needed, never believed; the next refresh makes it whole."""
    DAMAGE[damage](device.folder / "metadata" / name)
    device.restarted()
    sealed = device.assigned(make_release(1))
    wanted = None if "root" in name else UNAVAILABLE if damage == "gone" else UpdateCode.METADATA_INVALID
    assert refusal(lambda: device.admit(sealed)) is wanted
    device.trust.refresh()
    assert device.restarted().standing().trouble is None
    assert device.admit(sealed).terms is not None


@pytest.mark.parametrize("role", ["targets", "models"])
def test_a_file_of_another_version_than_is_listed(
    role: str, fleet: SignedRepository, device: TrustingDevice
) -> None:
    """Put on the disk by somebody with the online keys, where the snapshot lists no digest."""
    thief = fleet.copy()
    thief.snapshot.version += 1
    thief.timestamp.version += 1
    thief.snapshot.meta[f"{role}.json"] = MetaFile(thief.snapshot.meta[f"{role}.json"].version + 1)
    thief.publish_online()
    for name in ("timestamp", "snapshot"):
        file = "timestamp.json" if name == "timestamp" else f"{thief.snapshot.version}.snapshot.json"
        (device.folder / "metadata" / f"{name}.json").write_bytes(thief.files[file])
    device.restarted()
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is UpdateCode.METADATA_INVALID


def test_a_root_under_the_name_of_another_version_leads_nowhere(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    """A root that is signed well and lies where the one between was: it is not gone to, and all else stays."""
    fleet.publish("root")
    fleet.publish("root")
    history = device.folder / "metadata" / "root_history"
    (history / "2.root.json").write_bytes(fleet.files["3.root.json"])
    device.restarted()
    assert device.trust.standing().versions["root"] == 1
    device.trust.refresh()
    assert device.trust.standing().versions["root"] == 3


def test_a_file_that_changes_under_a_running_process_is_noticed(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    sealed = device.assigned(make_release(1))
    assert device.admit(sealed).terms is not None
    (device.folder / "metadata" / "models.json").write_bytes(b"{}")
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.METADATA_INVALID


def test_what_a_power_cut_left_of_a_refresh_is_cleared_away(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    left = device.folder / ".metadata.x1y2z3"
    left.mkdir()
    (left / "timestamp.json").write_bytes(b"half")
    device.trust.refresh()
    assert not left.exists()
    assert [path.name for path in device.folder.iterdir() if path.name.startswith(".metadata.")] == [
        ".metadata.lock"
    ]


def test_everything_new_is_flushed_before_it_counts(
    fleet: SignedRepository, device: TrustingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file of a refresh is synced while it still lies in the copy, and then the copy takes its place."""
    fleet.release(2)
    synced: list[str] = []
    real = os.fsync

    def noting(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").resolve()))
        real(handle)

    monkeypatch.setattr(os, "fsync", noting)
    device.trust.refresh()
    in_copy = {Path(name).name for name in synced if "/.metadata." in name and name.endswith(".json")}
    assert in_copy == {"timestamp.json", "snapshot.json", "models.json"} | {"1.root.json"}
    assert sum(name.endswith("updates") for name in synced) >= 1
    first_state = next(index for index, name in enumerate(synced) if "trust-state" in name)
    assert all("/.metadata." not in name for name in synced[first_state:])


def test_one_process_refreshes_at_a_time(fleet: SignedRepository, device: TrustingDevice) -> None:
    with device.trust._folder.locked():
        other = TrustingDevice(device.folder, fleet)
        assert refusal(other.trust.refresh) is UNAVAILABLE
    other.trust.refresh()


def test_without_a_server_nothing_is_refreshed(device: TrustingDevice) -> None:
    device.trust._fetch = None
    assert refusal(device.trust.refresh) is UNAVAILABLE


def test_without_a_root_nothing_is_trusted(fleet: SignedRepository, device: TrustingDevice) -> None:
    (device.folder / "root.json").unlink()
    assert refusal(device.trust.refresh) is UNAVAILABLE
    assert refusal(lambda: device.admit(device.assigned(None))) is UNAVAILABLE


def test_a_full_disk(tmp_path: Path, fleet: SignedRepository) -> None:
    """Refused by name, what was kept still judges, and it heals when there is room."""
    with small_disk(tmp_path / "disk", 1) as disk:
        device = TrustingDevice(disk / "updates", fleet)
        device.trust.refresh()
        kept = device.stored()
        fleet.release(2)
        filler = fill_up(disk)
        assert refusal(device.trust.refresh) is UpdateCode.NO_SPACE
        assert device.stored() == kept
        assert device.restarted().standing().versions["models"] == 2
        assert device.admit(device.assigned(make_release(1))).terms is not None
        filler.unlink()
        device.trust.refresh()
        assert device.admit(device.assigned(make_release(2))).terms is not None


def test_memory_is_written_where_it_changes_and_not_at_every_poll(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    file = device.folder / "trust-state.json"
    device.trust.refresh()
    first = file.stat().st_ino
    for _ in range(3):
        device.trust.refresh()
        device.admit(device.assigned(make_release(1)))
    assert file.stat().st_ino == first
    device.clock.ahead_ms = 11 * 60 * 1000
    device.trust.refresh()
    assert file.stat().st_ino != first


def test_memory_knows_the_last_names_of_a_slot_and_no_more() -> None:
    memory = Memory()
    for number in range(100):
        memory = memory.with_line("detector", make_release(number + 1, f"name-{number}").terms)
    assert len(memory.lines["detector"]) == 64
    assert "name-99" in memory.lines["detector"]
    again = memory.with_line("detector", make_release(100, "name-99").terms)
    assert again is memory
    assert Memory.from_bytes(memory.to_bytes()) == memory
    assert len(memory.to_bytes()) < 16_384


def test_another_bootstrap_root_ends_what_was_trusted(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    """A person moved the device to another fleet; time has passed all the same."""
    floor_ms = device.trust.time_floor_ms()
    other = SignedRepository()
    (device.folder / "root.json").write_bytes(other.files["1.root.json"])
    device.road = device.fleet = other
    device.restarted()
    release = other.release(1)
    assert refusal(lambda: device.admit(device.assigned(release))) is UpdateCode.METADATA_INVALID
    device.trust.refresh()
    assert device.admit(device.assigned(release)).terms == release.terms
    assert device.trust.time_floor_ms() >= floor_ms
    state = json.loads((device.folder / "trust-state.json").read_bytes())["memory"]
    assert state["versions"]["timestamp"] == other.timestamp.version


def test_a_newer_bootstrap_root_of_the_same_fleet_changes_nothing(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    older = older_road(fleet, device)
    fleet.publish("root")
    device.trust.refresh()
    (device.folder / "root.json").write_bytes(fleet.files["2.root.json"])
    device.restarted()
    assert device.admit(device.assigned(make_release(2))).terms is not None
    device.wipe_metadata()
    device.road = older
    device.restarted()
    assert refusal(device.trust.refresh) is ROLLBACK
