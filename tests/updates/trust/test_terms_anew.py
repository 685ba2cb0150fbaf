"""People sign other terms for a release that is out: a device goes by the newest, and never by older ones again."""

from edge_runtime.protocol.release import Fit, Opening
from edge_runtime.protocol.update import UpdateAction, UpdateCode
from tests.rigs.signed_repository import SignedRelease, SignedRepository
from tests.rigs.trusting_device import NOTHING, TrustingDevice, refusal


def revised(fleet: SignedRepository, release: SignedRelease, **terms: object) -> SignedRelease:
    """The same release with other terms, signed and published."""
    changed = release.terms.model_copy(update={"revision": release.terms.revision + 1, **terms})
    signed = SignedRelease(changed, release.bundle)
    fleet.list_release(signed)
    fleet.publish("models")
    return signed


def test_a_ring_that_people_open_later(fleet: SignedRepository, device: TrustingDevice) -> None:
    release = fleet.release(2, openings=())
    device.trust.refresh()
    sealed = device.assigned(release)
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.RING_CLOSED
    opened = revised(fleet, release, openings=(Opening(basis_points=10_000),))
    device.trust.refresh()
    assert device.admit(sealed).terms == opened.terms, (
        "the same envelope: the director has nothing to do with it"
    )
    narrowed = revised(fleet, opened, fit=Fit(hardware=("another",)))
    device.trust.refresh()
    assert narrowed.terms.revision == 3
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.HARDWARE


def test_old_terms_are_not_taken_again(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Whoever has the server's keys has the old metadata too, with the signatures of both people."""
    release = fleet.release(2)
    device.trust.refresh()
    thief = fleet.copy()
    closed = revised(fleet, release, openings=())
    device.trust.refresh()
    sealed = device.assigned(closed)
    assert refusal(lambda: device.admit(sealed)) is UpdateCode.RING_CLOSED
    thief.snapshot.version = fleet.snapshot.version + 1
    thief.timestamp.version = fleet.timestamp.version + 1
    thief.publish_online()
    device.road = thief
    for judged in (UpdateCode.RING_CLOSED, UpdateCode.METADATA_UNAVAILABLE):
        assert refusal(device.trust.refresh) is UpdateCode.METADATA_ROLLBACK
        assert refusal(lambda: device.admit(sealed)) is judged
        device.wipe_metadata()
        device.restarted()


def test_a_way_back_that_people_sign_for_later(fleet: SignedRepository, device: TrustingDevice) -> None:
    """What a device keeps of the release that it runs has the terms of the day on which it took it."""
    first, second = fleet.release(1), fleet.release(2)
    device.trust.refresh()
    device.run(second)
    back = device.assigned(first, action=UpdateAction.ROLLBACK)
    assert refusal(lambda: device.admit(back)) is UpdateCode.ROLLBACK_NOT_PERMITTED
    permitting = revised(fleet, second, rollback_to=(first.sha256,))
    device.trust.refresh()
    assert device.admit(back).back
    revised(fleet, permitting, rollback_to=())
    device.trust.refresh()
    assert refusal(lambda: device.admit(back)) is UpdateCode.ROLLBACK_NOT_PERMITTED
    device.running["detector"] = NOTHING
    assert refusal(lambda: device.admit(back)) is UpdateCode.ROLLBACK_NOT_PERMITTED


def test_a_permission_that_was_taken_back_stays_so(fleet: SignedRepository, device: TrustingDevice) -> None:
    """Also when the release is revoked afterwards, and nothing but the device's own record of it is left."""
    first = fleet.release(1)
    second = fleet.release(2, rollback_to=(first.sha256,))
    device.trust.refresh()
    device.run(second)
    back = device.assigned(first, action=UpdateAction.ROLLBACK)
    assert device.admit(back).back
    revised(fleet, second, rollback_to=())
    device.trust.refresh()
    assert refusal(lambda: device.admit(back)) is UpdateCode.ROLLBACK_NOT_PERMITTED
    del fleet.roles["models"].targets[second.terms.target]
    fleet.publish("models")
    device.trust.refresh()
    for _ in range(2):
        assert refusal(lambda: device.admit(back)) is UpdateCode.ROLLBACK_NOT_PERMITTED
        device.restarted()


def test_what_runs_goes_on_under_other_terms(fleet: SignedRepository, device: TrustingDevice) -> None:
    release = fleet.release(2)
    device.trust.refresh()
    device.run(release)
    revised(fleet, release, openings=(), fit=Fit(hardware=("another",)))
    device.trust.refresh()
    assert device.admit(device.assigned(release)).terms is not None
