"""What tuf leaves to its user, and reports about other updaters, where no other file of this folder has it."""

import shutil
import tempfile
from pathlib import Path

import pytest

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.trust.bootstrap import write_root
from tests.rigs.signed_repository import DAY, SignedRepository, make_release, now
from tests.rigs.trusting_device import TrustingDevice, refusal

YEAR = 365 * DAY


@pytest.fixture
def away(tmp_path: Path) -> tuple[SignedRepository, TrustingDevice]:
    """A device that was switched off for a year: all that it has kept has expired, its root as well."""
    fleet = SignedRepository()
    fresh = fleet.copy()
    for signed in (fleet.root, fleet.timestamp, fleet.snapshot, fleet.targets, *fleet.roles.values()):
        signed.expires = now() - DAY
    fleet.root.version = 0
    fleet.release(1, publish=False)
    fleet.publish("root", "targets", "models", "configurations")
    device = TrustingDevice(tmp_path / "updates", fleet)
    folder = device.folder / "metadata"
    (folder / "root_history").mkdir(parents=True)
    (folder / "root_history" / "1.root.json").write_bytes(fleet.files["1.root.json"])
    for role in ("targets", "models", "configurations"):
        (folder / f"{role}.json").write_bytes(fleet.files[f"2.{role}.json"])
    (folder / "snapshot.json").write_bytes(fleet.files["2.snapshot.json"])
    (folder / "timestamp.json").write_bytes(fleet.files["timestamp.json"])
    device.restarted()
    for signed, renewed in (
        (fleet.root, fresh.root),
        (fleet.timestamp, fresh.timestamp),
        (fleet.snapshot, fresh.snapshot),
        (fleet.targets, fresh.targets),
        *((fleet.roles[role], fresh.roles[role]) for role in fleet.roles),
    ):
        signed.expires = renewed.expires
    return fleet, device


def test_a_year_away_stops_new_releases_alone(away: tuple[SignedRepository, TrustingDevice]) -> None:
    """Report kind 15: what has expired is kept, judged as what it is, and keeps nobody from holding still."""
    _, device = away
    kept = device.stored()
    sealed = device.assigned(make_release(1))
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.METADATA_EXPIRED
    assert device.admit(device.assigned(None)).terms is None
    assert device.stored() == kept


def test_a_year_away_never_stops_what_is_newer(away: tuple[SignedRepository, TrustingDevice]) -> None:
    """Report kinds 15 and 26: meanwhile there were fifty roots and other online keys."""
    fleet, device = away
    for number in range(50):
        fleet.root.expires = now() + (YEAR if number == 49 else -DAY)
        fleet.publish("root")
    fleet.rotate("timestamp")
    fleet.rotate("snapshot")
    fleet.publish("targets", "models", "configurations")
    device.trust.refresh()
    assert device.restarted().standing().versions["root"] == 53
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_a_year_away_and_what_expired_is_served_again(away: tuple[SignedRepository, TrustingDevice]) -> None:
    fleet, device = away
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_EXPIRED
    device.clock.synced = False
    assert refusal(device.trust.refresh) is UpdateCode.CLOCK
    assert fleet.asked["timestamp.json"] == 2


def test_offline_with_a_full_cache(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Report kind 26 (python-tuf #2359): a new process, no network at all, and it still judges."""
    for name in (*fleet.files, "2.root.json"):
        fleet.refused[name] = 503
    device.restarted()
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_UNAVAILABLE
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_the_same_assignment_again_and_an_older_one_after_a_newer(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    """Report kind 12 (greengrass-nucleus PR #573, #1345)."""
    older, newer = device.assigned(make_release(1), seq=3), device.assigned(make_release(1), seq=4)
    device.last_seq = device.admit(newer).assignment.seq
    assert refusal(lambda: device.admit(newer)) is UpdateCode.STALE_SEQUENCE
    assert refusal(lambda: device.admit(older)) is UpdateCode.STALE_SEQUENCE


def test_nothing_is_spooled_in_a_temporary_folder(
    fleet: SignedRepository, device: TrustingDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tuf's own way leads through /tmp, which is memory on a Jetson."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no-such-folder"))
    fleet.release(2)
    device.trust.refresh()
    assert device.trust.standing().versions["models"] == fleet.roles["models"].version


def test_one_object_refreshes_as_often_as_one_likes(fleet: SignedRepository, device: TrustingDevice) -> None:
    """tuf's `Updater` does so once."""
    for counter in range(2, 6):
        release = fleet.release(counter)
        device.trust.refresh()
        assert device.admit(device.assigned(release)).terms == release.terms


def test_a_cut_in_the_middle_leaves_all_of_the_old(fleet: SignedRepository, device: TrustingDevice) -> None:
    """tuf alone would leave the new timestamp with the old snapshot, by which nothing can be verified offline."""
    fleet.release(2)
    for name in (f"{fleet.snapshot.version}.snapshot.json", f"{fleet.roles['models'].version}.models.json"):
        fleet.clear_attack()
        fleet.refused[name] = 503
        device.restarted()
        assert refusal(device.trust.refresh) is UpdateCode.METADATA_UNAVAILABLE
        assert device.trust.standing().versions["timestamp"] == fleet.timestamp.version - 1
        assert device.admit(device.assigned(make_release(1))).terms is not None


def test_a_link_that_was_cut_off_is_no_matter(fleet: SignedRepository, device: TrustingDevice) -> None:
    """tuf removes `root.json` and makes it anew: between the two there is none."""
    (device.folder / "metadata" / "root.json").unlink()
    device.restarted()
    assert device.admit(device.assigned(make_release(1))).terms is not None
    device.trust.refresh()


def test_a_new_device_may_be_given_metadata_with_its_image(
    fleet: SignedRepository, device: TrustingDevice, tmp_path: Path
) -> None:
    """Recent metadata in the image closes what an empty cache leaves open: what is older is refused."""
    older = fleet.copy()
    fleet.release(2)
    device.trust.refresh()
    image = tmp_path / "new" / "updates"
    write_root(image, fleet.files["1.root.json"])
    shutil.copytree(device.folder / "metadata", image / "metadata", symlinks=True)
    new = TrustingDevice(image, fleet)
    new.road = older
    assert refusal(new.trust.refresh) is UpdateCode.METADATA_ROLLBACK
    assert new.admit(new.assigned(make_release(2))).terms is not None
