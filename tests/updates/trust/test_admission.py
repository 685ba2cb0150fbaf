"""What is admitted, and by which words of the signed terms: the other side of the tables of attacks."""

from functools import partial

import pytest

from edge_runtime.protocol.release import BUCKETS, Fit, Opening, ReleaseKind, VersionBounds, bucket
from edge_runtime.protocol.release_values import NumberBounds, TextBounds
from edge_runtime.protocol.update import CONFIGURATION_SLOT, UpdateAction, UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from tests.rigs.signed_repository import DAY, SignedRepository, make_release, now, now_ms
from tests.rigs.trusting_device import DEVICE, NOTHING, TrustingDevice, refusal

ROLLBACK = UpdateAction.ROLLBACK


def test_a_first_release(fleet: SignedRepository, device: TrustingDevice) -> None:
    admitted = device.admit(device.assigned(make_release(1), rollout="spring", stage=2))
    assert admitted.terms == make_release(1).terms
    assert (admitted.assignment.rollout, admitted.assignment.stage) == ("spring", 2)


def test_a_newer_one_in_the_place_of_an_older(fleet: SignedRepository, device: TrustingDevice) -> None:
    device.run(make_release(1))
    release = fleet.release(7)
    device.trust.refresh()
    assert device.admit(device.assigned(release)).terms == release.terms


def test_what_runs_already_is_admitted_whatever_has_changed(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    """Nothing would change: its ring may be closed now, its hardware named otherwise, it may have failed once."""
    release = fleet.release(2, openings=(), fit=Fit(hardware=("another",)))
    device.trust.refresh()
    device.run(release)
    device.denied = {release.sha256}
    assert device.admit(device.assigned(release)).terms == release.terms


DECLARED = {
    "threshold": NumberBounds(type="number", minimum=0.3, maximum=0.7),
    "zone": TextBounds(type="text", one_of=("gate", "yard")),
}


def test_a_configuration_with_values(fleet: SignedRepository, device: TrustingDevice) -> None:
    release = fleet.release(1, "site", kind=ReleaseKind.CONFIGURATION, values=DECLARED)
    device.trust.refresh()
    sealed = device.assigned(release, slot=CONFIGURATION_SLOT, values={"threshold": 0.4, "zone": "gate"})
    admitted = device.admit(sealed)
    assert admitted.terms == release.terms
    assert admitted.assignment.values == {"threshold": 0.4, "zone": "gate"}


def test_a_role_that_nobody_published_yet_does_not_hold_up_the_others(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    fresh = SignedRepository()
    release = fresh.release(1, publish=False)
    del fresh.snapshot.meta["configurations.json"]
    fresh.publish("models")
    (device.folder / "root.json").write_bytes(fresh.files["1.root.json"])
    device.road = device.fleet = fresh
    device.restarted().refresh()
    assert device.admit(device.assigned(release)).terms is not None
    other = make_release(1, "site", kind=ReleaseKind.CONFIGURATION)
    sealed = device.assigned(other, slot=CONFIGURATION_SLOT)
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.METADATA_UNAVAILABLE


@pytest.mark.parametrize("kind", list(ReleaseKind))
def test_a_role_that_has_expired_does_not_hold_up_the_others(
    kind: ReleaseKind, fleet: SignedRepository, device: TrustingDevice
) -> None:
    """One approver is on holiday. What the other role signs still goes out, and it is said what is missing."""
    other = next(item for item in ReleaseKind if item is not kind)
    releases = {item: fleet.release(5, "name", kind=item) for item in ReleaseKind}
    slots = {ReleaseKind.MODEL: "detector", ReleaseKind.CONFIGURATION: CONFIGURATION_SLOT}
    fleet.roles[kind.role].expires = now() - DAY
    fleet.publish(kind.role)
    for _ in range(2):  # newly fetched, and found in the cache
        device.trust.refresh()
        device.restarted()
        assert device.admit(device.assigned(releases[other], slot=slots[other])).terms is not None
        sealed = device.assigned(releases[kind], slot=slots[kind])
        assert refusal(partial(device.admit, sealed)) is UpdateCode.METADATA_EXPIRED
    assert device.admit(device.assigned(None)).terms is None
    fleet.roles[kind.role].expires = now() + 90 * DAY
    fleet.publish(kind.role)
    device.trust.refresh()
    assert device.admit(device.assigned(releases[kind], slot=slots[kind])).terms is not None


def test_a_ring_by_its_place_and_time(fleet: SignedRepository, device: TrustingDevice) -> None:
    place = bucket("5a" * 8, DEVICE)
    openings = (
        Opening(basis_points=place, not_before_ms=0),
        Opening(basis_points=place + 1, not_before_ms=now_ms() + 3_600_000),
        Opening(basis_points=BUCKETS, not_before_ms=now_ms() + 7_200_000),
    )
    release = fleet.release(2, openings=openings)
    device.trust.refresh()
    sealed = device.assigned(release)
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.RING_CLOSED
    device.clock.ahead_ms = 3_600_000
    assert device.admit(sealed).terms is not None


def test_one_of_several_names_of_the_hardware_suffices(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    fit = Fit(
        hardware=("jetson-agx", "jetson-orin-nx"),
        architectures=("x86_64", "aarch64"),
        compute_capabilities=("8.7",),
        l4t=VersionBounds(at_least="36", below="37"),
        tensorrt=VersionBounds(at_least="10.3", below="10.4"),
        runtime=VersionBounds(at_least="0.9"),
        memory_mb=16_000,
    )
    release = fleet.release(2, fit=fit)
    device.trust.refresh()
    assert device.admit(device.assigned(release)).terms is not None


def test_back_to_what_was_signed_for_whatever_its_ring_and_labels(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    old = fleet.release(2, openings=(), labels=("cat",))
    device.run(fleet.release(3, rollback_to=(old.sha256,), labels=("dog",), relabels=True))
    device.trust.refresh()
    admitted = device.admit(device.assigned(old, action=ROLLBACK))
    assert (admitted.terms, admitted.back) == (old.terms, True)


def test_forward_or_nowhere_is_no_way_back_whatever_it_is_called(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    here, newer = fleet.release(2), fleet.release(3)
    device.trust.refresh()
    device.run(here)
    for release in (here, newer):
        assert not device.admit(device.assigned(release, action=ROLLBACK)).back


def test_back_is_still_fitted_and_never_to_what_has_failed(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    narrow = fleet.release(2, fit=Fit(hardware=("another",)))
    old = make_release(1)
    device.run(fleet.release(3, rollback_to=(old.sha256, narrow.sha256)))
    device.trust.refresh()
    sealed = device.assigned(narrow, action=ROLLBACK)
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.HARDWARE
    device.denied = {old.sha256}
    sealed = device.assigned(old, action=ROLLBACK)
    with pytest.raises(UpdateRefused, match="only an assignment that is newer") as refused:
        device.admit(sealed)
    assert refused.value.code is UpdateCode.KNOWN_BAD


def test_back_is_permitted_once_and_not_on_and_on(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Release 3 permits 2, and 2 permits nothing: nobody comes from 3 to 1 by way of 2."""
    first, second = make_release(1), fleet.release(2)
    third = fleet.release(3, rollback_to=(second.sha256,))
    device.trust.refresh()
    device.run(third)
    assert device.admit(device.assigned(second, action=ROLLBACK)).terms is not None
    device.run(second)
    sealed = device.assigned(first, action=ROLLBACK)
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.ROLLBACK_NOT_PERMITTED
    assert device.admit(device.assigned(third)).terms is not None


def test_back_when_the_record_of_what_runs_is_lost(fleet: SignedRepository, device: TrustingDevice) -> None:
    """A device that lost its slots remembers what its last release permitted."""
    old = make_release(1)
    device.run(fleet.release(3, rollback_to=(old.sha256,)))
    device.trust.refresh()
    device.admit(device.assigned(None))
    device.running["detector"] = NOTHING
    device.restarted()
    assert device.admit(device.assigned(old, action=ROLLBACK)).terms == old.terms
    assert refusal(lambda: device.admit(device.assigned(old))) is UpdateCode.COUNTER


def test_another_name_and_back_to_where_it_was(fleet: SignedRepository, device: TrustingDevice) -> None:
    mine, other = fleet.release(9), fleet.release(1, "other")
    device.trust.refresh()
    device.run(mine)
    device.admit(device.assigned(other))
    device.run(other)
    assert device.admit(device.assigned(mine)).terms == mine.terms


def test_other_labels_that_are_meant(fleet: SignedRepository, device: TrustingDevice) -> None:
    device.run(fleet.release(2, labels=("person", "car")))
    release = fleet.release(3, labels=("person", "car", "bus"), relabels=True)
    device.trust.refresh()
    assert device.admit(device.assigned(release)).terms == release.terms


def test_what_was_admitted_is_signed_until_people_take_it_back(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    """Whatever time it is: what has expired may still be put in use by who admitted it before."""
    release = fleet.release(2)
    device.trust.refresh()
    assignment = device.admit(device.assigned(release)).assignment
    device.clock.ahead_ms = 400 * 86_400_000
    assert device.restarted().still_signed(assignment)
    device.clock.ahead_ms = 0
    del fleet.roles["models"].targets[release.terms.target]
    fleet.publish("models")
    assert device.trust.still_signed(assignment), "by what this device knows"
    device.trust.refresh()
    assert not device.trust.still_signed(assignment)
    device.wipe_metadata()
    assert refusal(lambda: device.restarted().still_signed(assignment)) is UpdateCode.METADATA_UNAVAILABLE


def test_again_says_whether_time_or_a_refresh_may_help(
    fleet: SignedRepository, device: TrustingDevice
) -> None:
    later = fleet.release(2, openings=())
    device.trust.refresh()
    stranger = SignedRepository().signers["director"][0]
    cases = (
        (device.assigned(later), True),  # a ring may open
        (device.assigned(make_release(1), snapshot_version=99), True),  # newer metadata may come
        (device.assigned(make_release(1), signer=stranger), True),  # another director may be named there
        (device.assigned(make_release(1), device="cam-08"), False),
        (device.assigned(make_release(8)), False),
    )
    for sealed, again in cases:
        with pytest.raises(UpdateRefused) as refused:
            device.admit(sealed)
        assert refused.value.again is again
