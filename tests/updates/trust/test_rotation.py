"""Keys that people exchange: tables of who must sign, long absence, and how a fleet heals after a theft."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Root

from edge_runtime.protocol.update import UpdateCode
from tests.rigs.signed_repository import DAY, TOP, SignedRepository, make_release, now
from tests.rigs.trusting_device import TrustingDevice, refusal

INVALID = UpdateCode.METADATA_INVALID


@dataclass(frozen=True)
class Rotation:
    """Who signs the next root, of three old and three new keys; both thresholds are 2."""

    name: str
    old: int
    new: int
    code: UpdateCode | None


@pytest.mark.parametrize(
    "case",
    [
        Rotation("two old and two new", 2, 2, None),
        Rotation("all", 3, 3, None),
        Rotation("one old", 1, 2, INVALID),
        Rotation("one new", 2, 1, INVALID),
        Rotation("old alone", 2, 0, INVALID),
        Rotation("new alone", 0, 3, INVALID),
    ],
    ids=lambda case: case.name,
)
def test_who_signs_a_new_root(case: Rotation, fleet: SignedRepository, device: TrustingDevice) -> None:
    old = fleet.rotate("root")
    fleet.forge(fleet.root, [*old[: case.old], *fleet.signers["root"][: case.new]], "2.root.json")
    assert refusal(device.trust.refresh) is case.code
    version = device.restarted().standing().versions["root"]
    assert version == (2 if case.code is None else 1)
    assert device.admit(device.assigned(make_release(1))).terms is not None


@pytest.mark.parametrize("version", [1, 3, 2**31])
def test_a_root_of_another_version_under_the_next_name(
    version: int, fleet: SignedRepository, device: TrustingDevice
) -> None:
    fleet.root.version = version
    fleet.forge(fleet.root, fleet.signers["root"], "2.root.json")
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_ROLLBACK
    assert device.trust.standing().versions["root"] == 1


def test_an_expired_root_ends_what_it_led_to_and_a_newer_one_heals(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    fleet.root.expires = now() - DAY
    fleet.publish("root")
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_EXPIRED
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is UpdateCode.METADATA_EXPIRED
    fleet.root.expires = now() + 365 * DAY
    fleet.publish("root")
    device.trust.refresh()
    assert device.admit(device.assigned(make_release(1))).terms is not None


def fifty_more_roots(fleet: SignedRepository) -> None:
    for number in range(50):
        fleet.root.expires = now() + (365 if number == 49 else -1) * DAY
        if number % 10 == 9:
            fleet.rotate("root")
        else:
            fleet.publish("root")


def test_fifty_rotations_were_missed(fleet: SignedRepository, device: TrustingDevice) -> None:
    """All but the last have expired, five of them with new keys; a second refresh does not walk them again."""
    fifty_more_roots(fleet)
    device.restarted()
    device.trust.refresh()
    assert device.trust.standing().versions["root"] == 51
    fleet.asked.clear()
    device.restarted()
    device.trust.refresh()
    roots = [name for name in fleet.asked if name.endswith(".root.json")]
    assert roots == ["52.root.json"]
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_fifty_rotations_are_cut_half_way(fleet: SignedRepository, device: TrustingDevice) -> None:
    """What was walked is not walked again, although the refresh was refused."""
    fifty_more_roots(fleet)
    fleet.refused["30.root.json"] = 503
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_UNAVAILABLE
    fleet.clear_attack()
    fleet.asked.clear()
    device.restarted()
    device.trust.refresh()
    assert "29.root.json" not in fleet.asked
    assert device.trust.standing().versions["root"] == 51


@pytest.mark.trial
def test_more_rotations_than_one_refresh_walks(fleet: SignedRepository, device: TrustingDevice) -> None:
    """tuf counts them from the root that it is given, so that 300 need two refreshes and not a new device."""
    for _ in range(300):
        fleet.root.version += 1
        fleet.forge(fleet.root, fleet.signers["root"][:2], f"{fleet.root.version}.root.json")
    for _ in range(2):
        device.restarted()
        device.trust.refresh()
    assert device.trust.standing().versions["root"] == 301


def take_away(role: str) -> Callable[[SignedRepository], list[CryptoSigner]]:
    def act(fleet: SignedRepository) -> list[CryptoSigner]:
        old = fleet.rotate(role)
        fleet.publish(*([role] if role == "targets" else []))
        return old

    return act


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "targets", "models", "director"])
def test_keys_of_every_role_can_be_exchanged(
    role: str, fleet: SignedRepository, device: TrustingDevice
) -> None:
    take_away(role)(fleet)
    if role == "models":
        fleet.publish("models")
    device.trust.refresh()
    release = fleet.release(2)
    device.restarted()
    device.trust.refresh()
    assert device.admit(device.assigned(release)).terms == release.terms


def test_a_timestamp_put_far_ahead_is_healed_by_other_keys(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    thief = fleet.copy()
    thief.timestamp.version = 2**31
    thief.publish_online()
    device.road = thief
    device.trust.refresh()
    device.road = fleet
    fleet.release(2)
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_ROLLBACK
    fleet.rotate("timestamp")
    fleet.publish("models")
    device.trust.refresh()
    assert device.restarted().standing().versions["timestamp"] == fleet.timestamp.version


def test_a_snapshot_that_lists_far_ahead_is_healed_by_other_keys(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    """A thief of both online keys and of the models' keys; people exchange the online keys and sign models anew."""
    thief = fleet.copy()
    thief.roles["models"].version = 2**31
    thief.publish("models")
    device.road = thief
    device.trust.refresh()
    device.road = fleet
    fleet.snapshot.version += 5
    fleet.timestamp.version += 5
    fleet.publish("models")
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_ROLLBACK
    fleet.rotate("snapshot")
    fleet.rotate("timestamp")
    fleet.publish("models")
    device.trust.refresh()
    assert device.restarted().standing().versions["models"] == fleet.roles["models"].version


def test_the_version_of_a_thief_is_passed(fleet: SignedRepository, device: TrustingDevice) -> None:
    """With the same number and another content a device stays where it is; one above heals it."""
    thief = fleet.copy()
    thief.snapshot.expires = now() + 13 * DAY
    thief.snapshot.version += 1
    thief.timestamp.version += 1
    thief.publish_online()
    device.road = thief
    device.trust.refresh()
    device.road = fleet
    fleet.timestamp.version += 1
    release = fleet.release(2)
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_INVALID
    fleet.publish("models")
    device.trust.refresh()
    assert device.admit(device.assigned(release)).terms is not None


def test_a_root_that_was_seen_is_not_forgotten(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Keys were stolen and taken away. The thief cuts the refresh, then hides the new root: he gains nothing."""
    thief = fleet.copy()
    fleet.rotate("timestamp")
    fleet.publish("models")
    fleet.refused["timestamp.json"] = 503
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_UNAVAILABLE
    thief.timestamp.version += 3
    thief.publish_online()
    device.road = thief
    device.restarted()
    assert refusal(device.trust.refresh) is INVALID
    assert refusal(lambda: device.admit(device.assigned(make_release(1)))) is INVALID
    device.road = fleet
    fleet.clear_attack()
    device.trust.refresh()
    assert device.admit(device.assigned(make_release(1))).terms is not None


def test_new_keys_of_timestamp_alone_free_no_older_models(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    """The timestamp's key was exchanged and stolen again; with the snapshot's, which was not exchanged, a thief
    still cannot list old models to a device whose cache was wiped.
    """
    old = fleet.copy()
    fleet.release(2)
    fleet.rotate("timestamp")
    fleet.publish("configurations")
    device.trust.refresh()
    device.wipe_metadata()
    thief = fleet.copy()
    thief.rotate("timestamp")
    thief.snapshot.meta["models.json"] = old.snapshot.meta["models.json"]
    thief.snapshot.version += 1
    thief.publish_online()
    device.road = thief
    device.restarted()
    assert refusal(device.trust.refresh) is UpdateCode.METADATA_ROLLBACK


def test_a_thief_of_the_director_spends_all_sequences(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    last = (1 << 53) - 1
    device.last_seq = device.admit(device.assigned(None, seq=last)).assignment.seq
    before = device.trust.director()
    fleet.rotate("director")
    assert device.trust.director() == before
    device.trust.refresh()
    assert device.restarted().director() != before
    device.last_seq = 0  # as the machine does when the director is another
    assert device.admit(device.assigned(make_release(1), seq=1)).assignment.seq == 1


def test_the_rig_names_every_key() -> None:
    """The oracle itself: what it says of thresholds is what the tests above rely on."""
    made = SignedRepository()
    assert isinstance(made.root, Root)
    assert {role: made.root.roles[role].threshold for role in TOP} == {
        "root": 2,
        "targets": 2,
        "snapshot": 1,
        "timestamp": 1,
    }
    assert made.targets.delegations is not None
    roles = made.targets.delegations.roles
    assert roles is not None
    assert {role: roles[role].threshold for role in roles} == {
        "models": 2,
        "configurations": 2,
        "director": 1,
    }
