"""Attacks, each with the name of its refusal, run against the real device code; and that the device lives on.

In the manner of python-tuf's tables. Who attacks: somebody on the road between the fleet and its devices, a thief
of the online keys (timestamp, snapshot), a thief of the director's key, one of two signers alone.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from tuf.api.metadata import MetaFile

from edge_runtime.protocol.envelope import seal
from edge_runtime.protocol.release import BUCKETS, Fit, Opening, ReleaseKind, VersionBounds, bucket
from edge_runtime.protocol.release_values import IntegerBounds, NumberBounds, SwitchBounds, TextBounds
from edge_runtime.protocol.update import (
    REPORT_TYPE,
    Assignment,
    Running,
    StateReport,
    UpdateAction,
    UpdateCode,
)
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import peek
from tests.rigs.signed_repository import DAY, DAY_MS, SignedRepository, make_release, now, now_ms
from tests.rigs.trusting_device import DEVICE, FACTS, NOTHING, TrustingDevice, with_facts

Act = Callable[[SignedRepository, TrustingDevice], object]


@dataclass(frozen=True)
class Attack:
    """An attack that ends in a refusal."""

    name: str
    code: UpdateCode
    act: Act


ON_THE_ROAD: list[Attack] = []
BY_ASSIGNMENT: list[Attack] = []


def refreshing(code: UpdateCode) -> Callable[[Act], Act]:
    """An attack on the metadata: `act` prepares it, and the device refreshes."""

    def add(act: Act) -> Act:
        ON_THE_ROAD.append(Attack(act.__name__, code, act))
        return act

    return add


def assigning(code: UpdateCode) -> Callable[[Act], Act]:
    """An attack by an assignment: `act` returns its envelope, and the device judges it."""

    def add(act: Act) -> Act:
        BY_ASSIGNMENT.append(Attack(act.__name__, code, act))
        return act

    return add


def stolen(fleet: SignedRepository, device: TrustingDevice) -> SignedRepository:
    """The fleet's repository in the hands of a thief, whom the device asks from now on."""
    thief = fleet.copy()
    device.road = thief
    return thief


def next_online(thief: SignedRepository) -> None:
    """What the keys of snapshot and timestamp suffice for."""
    thief.snapshot.version += 1
    thief.timestamp.version += 1
    thief.publish_online()


# ---- values of a configuration


BOUNDED = {
    "threshold": NumberBounds(type="number", minimum=0.3, maximum=0.7),
    "zone": TextBounds(type="text", one_of=("gate", "yard")),
    "people": IntegerBounds(type="integer", one_of=(1, 2, 4)),
    "night": SwitchBounds(type="switch"),
}
PERMITTED: dict[str, Any] = {"threshold": 0.4, "zone": "gate", "people": 2, "night": True}


def with_values(fleet: SignedRepository, device: TrustingDevice, values: dict[str, Any]) -> bytes:
    """What a thief of the director's key can sign about a configuration that people signed."""
    release = fleet.release(1, "site", kind=ReleaseKind.CONFIGURATION, values=BOUNDED)
    device.trust.refresh()
    device.run(release, "configuration")  # also where it runs already, with other values
    return device.assigned(release, slot="configuration", values=values)


@pytest.mark.parametrize(
    "changed",
    [
        {"threshold": 0.01},
        {"threshold": 1e308},
        {"threshold": "0.4"},
        {"threshold": True},
        {"zone": "${env:TOKEN}"},
        {"zone": "another"},
        {"people": 3},
        {"people": 2.0},
        {"night": 1},
        {"more": 1},
        {"threshold": None},
    ],
    ids=str,
)
def test_a_stolen_director_key_sets_no_value_that_nobody_signed_for(
    changed: dict[str, Any], fleet: SignedRepository, device: TrustingDevice
) -> None:
    values = {name: value for name, value in {**PERMITTED, **changed}.items() if value is not None}
    sealed = with_values(fleet, device, values)
    with pytest.raises(UpdateRefused) as refused:
        device.admit(sealed)
    assert refused.value.code is UpdateCode.VALUE_NOT_PERMITTED
    assert not refused.value.again, "it is over: nothing that comes later makes it right"
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "changed", [{"threshold": 0.3}, {"threshold": 0.7}, {"zone": "yard"}, {"night": False}]
)
def test_what_people_signed_for_is_the_directors_choice(
    changed: dict[str, Any], fleet: SignedRepository, device: TrustingDevice
) -> None:
    sealed = with_values(fleet, device, {**PERMITTED, **changed})
    assert device.admit(sealed).assignment.values == {**PERMITTED, **changed}


@assigning(UpdateCode.VALUE_NOT_PERMITTED)
def a_value_for_a_model_by_stolen_director_key(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1), values={"threshold": 0.5})


# ---- rollback


@refreshing(UpdateCode.METADATA_ROLLBACK)
def rollback_old_timestamp(fleet: SignedRepository, device: TrustingDevice) -> None:
    old = fleet.files["timestamp.json"]
    fleet.release(2)
    device.trust.refresh()
    fleet.replaced["timestamp.json"] = old


@refreshing(UpdateCode.METADATA_ROLLBACK)
def rollback_old_snapshot_by_stolen_timestamp_key(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    device.trust.refresh()
    thief = stolen(fleet, device)
    thief.timestamp.version += 1
    thief.timestamp.snapshot_meta = MetaFile(thief.snapshot.version - 1)
    thief.forge(thief.timestamp, thief.signers["timestamp"], "timestamp.json")


@refreshing(UpdateCode.METADATA_ROLLBACK)
def rollback_old_models_by_stolen_online_keys(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    device.trust.refresh()
    thief = stolen(fleet, device)
    thief.snapshot.meta["models.json"] = MetaFile(thief.roles["models"].version - 1)
    next_online(thief)


@refreshing(UpdateCode.METADATA_INVALID)
def models_left_out_by_stolen_online_keys(fleet: SignedRepository, device: TrustingDevice) -> None:
    thief = stolen(fleet, device)
    del thief.snapshot.meta["models.json"]
    next_online(thief)


# ---- freeze


@refreshing(UpdateCode.METADATA_EXPIRED)
def freeze_expired_timestamp(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.timestamp.expires = now() - DAY / 1440
    fleet.publish("models")


@refreshing(UpdateCode.METADATA_EXPIRED)
def freeze_expired_snapshot(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.snapshot.expires = now() - DAY / 1440
    fleet.publish("models")


@refreshing(UpdateCode.METADATA_EXPIRED)
def freeze_expired_targets(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.targets.expires = now() - DAY / 1440
    fleet.publish("targets")


@assigning(UpdateCode.METADATA_UNAVAILABLE)
def freeze_inside_the_life_of_a_timestamp(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    old = dict(fleet.files)
    release = fleet.release(2)
    fleet.replaced |= old
    device.trust.refresh()  # nothing is wrong with what it is given, but that there is newer
    return device.assigned(release, snapshot_version=fleet.snapshot.version)


@assigning(UpdateCode.METADATA_UNAVAILABLE)
def hidden_root_rotation(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    fleet.publish("root")
    fleet.refused["2.root.json"] = 404
    device.trust.refresh()
    return device.assigned(make_release(1), root_version=2)


# ---- mix and match


@refreshing(UpdateCode.METADATA_INVALID)
def mix_and_match_old_models_under_a_new_snapshot(fleet: SignedRepository, device: TrustingDevice) -> None:
    version = fleet.roles["models"].version
    old = fleet.files[f"{version}.models.json"]
    fleet.release(2)
    fleet.replaced[f"{version + 1}.models.json"] = old


@refreshing(UpdateCode.METADATA_ROLLBACK)
def mix_and_match_where_the_snapshot_lists_no_digest(fleet: SignedRepository, device: TrustingDevice) -> None:
    version = fleet.roles["models"].version
    old = fleet.files[f"{version}.models.json"]
    fleet.release(2)
    thief = stolen(fleet, device)
    thief.snapshot.meta["models.json"] = MetaFile(version + 1)
    thief.replaced[f"{version + 1}.models.json"] = old
    next_online(thief)


@refreshing(UpdateCode.METADATA_INVALID)
def mix_and_match_snapshot_of_another_time(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    newest = fleet.snapshot.version
    fleet.replaced[f"{newest}.snapshot.json"] = fleet.files[f"{newest - 1}.snapshot.json"]


# ---- fast forward


@refreshing(UpdateCode.METADATA_ROLLBACK)
def fast_forward_of_the_timestamp(fleet: SignedRepository, device: TrustingDevice) -> None:
    thief = stolen(fleet, device)
    thief.timestamp.version = 2**31
    thief.publish_online()
    device.trust.refresh()
    device.road = fleet


@refreshing(UpdateCode.METADATA_ROLLBACK)
def fast_forward_of_the_snapshot(fleet: SignedRepository, device: TrustingDevice) -> None:
    thief = stolen(fleet, device)
    thief.snapshot.version = 2**31
    thief.timestamp.version += 1
    thief.publish_online()
    device.trust.refresh()
    device.road = fleet
    fleet.timestamp.version += 2
    fleet.publish("models")


@refreshing(UpdateCode.METADATA_INVALID)
def the_number_of_a_thief_is_used_again(fleet: SignedRepository, device: TrustingDevice) -> None:
    thief = stolen(fleet, device)
    thief.snapshot.expires = now() + 13 * DAY
    next_online(thief)
    device.trust.refresh()
    device.road = fleet
    fleet.release(2)  # the snapshot has the thief's version, and another content
    fleet.timestamp.version += 1
    fleet.publish_online()


# ---- wrong signatures


@refreshing(UpdateCode.METADATA_INVALID)
def one_signature_of_two_on_models(fleet: SignedRepository, device: TrustingDevice) -> None:
    builder = fleet.signers["models"][:1]
    fleet.signers["models"] = builder
    fleet.release(2)


@refreshing(UpdateCode.METADATA_INVALID)
def one_signature_twice_on_models(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.signers["models"] = fleet.signers["models"][:1]
    fleet.release(2)
    name = f"{fleet.roles['models'].version}.models.json"
    found = json.loads(fleet.files[name])
    found["signatures"] += found["signatures"]
    put_in_place(fleet, name, json.dumps(found).encode())


@refreshing(UpdateCode.METADATA_INVALID)
def one_signature_of_two_on_targets(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.signers["targets"] = fleet.signers["targets"][:1]
    fleet.publish("targets")


@refreshing(UpdateCode.METADATA_INVALID)
def one_signature_of_two_on_root(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.signers["root"] = fleet.signers["root"][:1]
    fleet.publish("root")


@refreshing(UpdateCode.METADATA_INVALID)
def models_signed_by_strangers(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.signers["models"] = SignedRepository().signers["models"]
    fleet.release(2)


@refreshing(UpdateCode.METADATA_INVALID)
def models_signed_by_the_online_keys(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.signers["models"] = fleet.signers["snapshot"] + fleet.signers["timestamp"]
    fleet.release(2)


@refreshing(UpdateCode.METADATA_INVALID)
def edited_custom_metadata_with_stolen_online_keys(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2, fit=Fit(hardware=("jetson-agx",)))
    thief = stolen(fleet, device)
    name = f"{thief.roles['models'].version}.models.json"
    found = json.loads(thief.files[name])
    found["signed"]["targets"]["models/detector/2/bundle.json"]["custom"]["fit"]["hardware"].append("generic")
    put_in_place(thief, name, json.dumps(found).encode())


@refreshing(UpdateCode.METADATA_INVALID)
def opened_early_with_stolen_online_keys(fleet: SignedRepository, device: TrustingDevice) -> None:
    later = Opening(basis_points=BUCKETS, not_before_ms=now_ms() + DAY_MS)
    fleet.release(2, openings=(later,))
    thief = stolen(fleet, device)
    name = f"{thief.roles['models'].version}.models.json"
    found = json.loads(thief.files[name])
    terms = found["signed"]["targets"]["models/detector/2/bundle.json"]["custom"]
    terms["openings"][0]["not_before_ms"] = 0
    put_in_place(thief, name, json.dumps(found).encode())


@refreshing(UpdateCode.METADATA_INVALID)
def targets_signed_by_stolen_online_keys(fleet: SignedRepository, device: TrustingDevice) -> None:
    thief = stolen(fleet, device)
    thief.signers["director"] = SignedRepository().signers["director"]
    thief.signers["targets"] = thief.signers["snapshot"] + thief.signers["timestamp"]
    thief.rotate("director")


@refreshing(UpdateCode.METADATA_INVALID)
def a_file_of_another_type(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    fleet.replaced["timestamp.json"] = fleet.files["1.root.json"]


@refreshing(UpdateCode.METADATA_INVALID)
def no_json_at_all(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    fleet.replaced["timestamp.json"] = b"<html>log in to this hotel's network</html>"


@refreshing(UpdateCode.METADATA_INVALID)
def json_that_is_nested_without_end(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    fleet.replaced["timestamp.json"] = b"[" * 8000


@refreshing(UpdateCode.METADATA_INVALID)
def endless_timestamp(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.endless.add("timestamp.json")


@refreshing(UpdateCode.METADATA_INVALID)
def endless_root(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.endless.add("2.root.json")


@refreshing(UpdateCode.METADATA_INVALID)
def endless_models(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    fleet.endless.add(f"{fleet.roles['models'].version}.models.json")


@refreshing(UpdateCode.METADATA_UNAVAILABLE)
def nothing_is_served(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.refused["timestamp.json"] = 503


@refreshing(UpdateCode.METADATA_UNAVAILABLE)
def cut_between_timestamp_and_snapshot(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    fleet.refused[f"{fleet.snapshot.version}.snapshot.json"] = 503


@refreshing(UpdateCode.METADATA_UNAVAILABLE)
def cut_between_targets_and_models(fleet: SignedRepository, device: TrustingDevice) -> None:
    fleet.release(2)
    fleet.refused[f"{fleet.roles['models'].version}.models.json"] = 404


# ---- assignments that the road or the broker makes


@assigning(UpdateCode.BAD_ENVELOPE)
def not_an_envelope(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return b"\x00\x01 no envelope"


@assigning(UpdateCode.BAD_ENVELOPE)
def an_envelope_that_is_too_long(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1)) + b" " * 65_536


@assigning(UpdateCode.BAD_ENVELOPE)
def metadata_as_an_assignment(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fleet.files["timestamp.json"]


@assigning(UpdateCode.BAD_ENVELOPE)
def a_report_as_an_assignment(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    report = StateReport(
        device=DEVICE,
        boot_id="boot",
        report_no=1,
        seq=1,
        slot="detector",
        running=Running(),
        facts=FACTS,
        at_ms=1,
        clock_synced=True,
    )
    return seal(report, REPORT_TYPE, fleet.signers["director"][0])


@assigning(UpdateCode.BAD_ENVELOPE)
def signed_by_the_director_and_no_assignment(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    envelope = Envelope.from_dict(json.loads(device.assigned(make_release(1))))
    envelope.payload = b'{"device":"cam-07","seq":"every"}'
    envelope.signatures = {}
    envelope.sign(fleet.signers["director"][0])
    return json.dumps(envelope.to_dict()).encode()


@assigning(UpdateCode.DIRECTOR_SIGNATURE)
def forged_by_the_broker(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    stranger = SignedRepository().signers["director"][0]
    return device.assigned(make_release(1), signer=stranger)


@assigning(UpdateCode.DIRECTOR_SIGNATURE)
def signed_by_the_builder_alone(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1), signer=fleet.signers["models"][0])


@assigning(UpdateCode.DIRECTOR_SIGNATURE)
def changed_on_its_way(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    envelope = Envelope.from_dict(json.loads(device.assigned(make_release(1))))
    envelope.payload = envelope.payload.replace(b'"seq":1', b'"seq":9')
    return json.dumps(envelope.to_dict()).encode()


@assigning(UpdateCode.DIRECTOR_SIGNATURE)
def stripped_of_its_signature(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    envelope = json.loads(device.assigned(make_release(1)))
    envelope["signatures"] = []
    return json.dumps(envelope).encode()


@assigning(UpdateCode.DIRECTOR_SIGNATURE)
def by_the_key_of_a_director_that_was_replaced(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    old = fleet.rotate("director")
    device.trust.refresh()
    return device.assigned(make_release(1), signer=old[0])


@assigning(UpdateCode.STALE_SEQUENCE)
def replayed(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    sealed = device.assigned(make_release(1))
    device.last_seq = device.admit(sealed).assignment.seq
    return sealed


@assigning(UpdateCode.STALE_SEQUENCE)
def delivered_after_a_newer_one(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    older = device.assigned(make_release(1), seq=4)
    device.last_seq = device.admit(device.assigned(None, seq=5)).assignment.seq
    return older


@assigning(UpdateCode.WRONG_DEVICE)
def delivered_to_another_device(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1), device="cam-08")


@assigning(UpdateCode.WRONG_KEY)
def for_the_same_name_with_another_key(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1), key_sha256="7d" * 32)


@assigning(UpdateCode.EXPIRED)
def held_back_until_it_ended(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1), issued_ms=now_ms() - DAY_MS, expires_ms=now_ms() - 1)


@assigning(UpdateCode.EXPIRED)
def held_back_and_made_for_an_older_question(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    device.nonce = "ab" * 16
    times = {"issued_ms": now_ms() - DAY_MS, "expires_ms": now_ms() - 1}
    return device.assigned(make_release(1), nonce="cd" * 16, **times)


@assigning(UpdateCode.SLOT_UNKNOWN)
def for_a_slot_that_is_not_there(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1), slot="faces")


# ---- assignments that a thief of the director's key makes


@assigning(UpdateCode.TARGET_UNKNOWN)
def what_nobody_signed(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(7))


@assigning(UpdateCode.TARGET_UNKNOWN)
def what_was_withdrawn(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = fleet.release(2)
    del fleet.roles["models"].targets[release.terms.target]
    fleet.publish("models")
    device.trust.refresh()
    return device.assigned(release)


@assigning(UpdateCode.TARGET_UNKNOWN)
def a_configuration_for_the_slot_of_a_model(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = fleet.release(1, "site", kind=ReleaseKind.CONFIGURATION)
    device.trust.refresh()
    return device.assigned(release)


@assigning(UpdateCode.TARGET_UNKNOWN)
def what_a_role_signs_beyond_its_paths(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = make_release(1)
    fleet.list_release(release, "firmware/detector/1/bundle.json")
    fleet.publish("models")
    device.trust.refresh()
    return device.assigned(release, target="firmware/detector/1/bundle.json")


@assigning(UpdateCode.TARGET_MISMATCH)
def tampered_target(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return device.assigned(make_release(1), sha256="66" * 32)


@assigning(UpdateCode.TARGET_MISMATCH)
def target_of_another_length(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = make_release(1)
    return device.assigned(release, length=len(release.bundle) + 1)


@assigning(UpdateCode.TARGET_MISMATCH)
def terms_of_another_release(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = make_release(1)
    path = "models/detector/9/bundle.json"
    fleet.list_release(release, path)  # the counter in the terms is 1
    fleet.publish("models")
    device.trust.refresh()
    return device.assigned(release, target=path)


@assigning(UpdateCode.TARGET_MISMATCH)
def terms_that_cannot_be_read(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = fleet.release(2, publish=False)
    fleet.roles["models"].targets[release.terms.target].unrecognized_fields["custom"]["counter"] = "many"
    fleet.publish("models")
    device.trust.refresh()
    return device.assigned(release)


@assigning(UpdateCode.HARDWARE)
def wrong_hardware(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fitted(fleet, device, Fit(hardware=("jetson-agx", "jetson-xavier")))


@assigning(UpdateCode.ARCHITECTURE)
def wrong_architecture(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fitted(fleet, device, Fit(architectures=("x86_64",)))


@assigning(UpdateCode.COMPUTE_CAPABILITY)
def wrong_compute_capability(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fitted(fleet, device, Fit(compute_capabilities=("11.0",)))


@assigning(UpdateCode.L4T)
def wrong_l4t(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fitted(fleet, device, Fit(l4t=VersionBounds(at_least="36.5")))


@assigning(UpdateCode.TENSORRT)
def wrong_tensorrt(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fitted(fleet, device, Fit(tensorrt=VersionBounds(below="10.3")))


@assigning(UpdateCode.RUNTIME)
def runtime_too_old(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fitted(fleet, device, Fit(runtime=VersionBounds(at_least="1.0")))


@assigning(UpdateCode.NO_MEMORY)
def too_little_memory(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    return fitted(fleet, device, Fit(memory_mb=32_000))


@assigning(UpdateCode.TENSORRT)
def no_tensorrt_at_all(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    device.facts = with_facts(tensorrt=None)
    return fitted(fleet, device, Fit(tensorrt=VersionBounds(at_least="10")))


@assigning(UpdateCode.RING_CLOSED)
def ring_opened_early(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    later = Opening(basis_points=BUCKETS, not_before_ms=now_ms() + DAY_MS)
    release = fleet.release(2, openings=(later,))
    device.trust.refresh()
    return device.assigned(release)


@assigning(UpdateCode.RING_CLOSED)
def ring_skipped(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    place = bucket("5a" * 8, DEVICE)
    release = fleet.release(2, openings=(Opening(basis_points=place),))  # those below this device's place
    device.trust.refresh()
    return device.assigned(release)


@assigning(UpdateCode.RING_CLOSED)
def ring_that_nobody_opened(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = fleet.release(2, openings=())
    device.trust.refresh()
    return device.assigned(release)


@assigning(UpdateCode.RING_CLOSED)
def ring_opened_early_by_a_date_in_the_future(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    later = Opening(basis_points=BUCKETS, not_before_ms=now_ms() + DAY_MS)
    release = fleet.release(2, openings=(later,))
    device.trust.refresh()
    device.clock.synced, device.nonce = False, "ab" * 16
    ahead = now_ms() + 2 * DAY_MS
    return device.assigned(release, nonce=device.nonce, issued_ms=ahead, expires_ms=ahead + 1)


@assigning(UpdateCode.ROLLBACK_NOT_PERMITTED)
def rolled_back_by_a_stolen_director_key(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    old, new = make_release(1), fleet.release(2)
    device.trust.refresh()
    device.run(new)
    return device.assigned(old, action=UpdateAction.ROLLBACK)


@assigning(UpdateCode.COUNTER)
def an_older_one_to_install(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    old, new = make_release(1), fleet.release(2)
    device.trust.refresh()
    device.run(new)
    return device.assigned(old)


@assigning(UpdateCode.COUNTER)
def an_older_one_to_install_although_a_rollback_is_permitted(
    fleet: SignedRepository, device: TrustingDevice
) -> bytes:
    old = make_release(1)
    device.run(fleet.release(2, rollback_to=(old.sha256,)))
    device.trust.refresh()
    return device.assigned(old)


@assigning(UpdateCode.COUNTER)
def the_same_counter_with_other_content(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    device.run(make_release(2, salt="11" * 8))
    other = fleet.release(2, notes="again")
    device.trust.refresh()
    device.running["detector"] = replace(device.running["detector"], sha256="12" * 32)
    return device.assigned(other)


@assigning(UpdateCode.COUNTER)
def rolled_back_by_way_of_another_name(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    old, new, between = make_release(1), fleet.release(9), fleet.release(1, "other")
    device.trust.refresh()
    device.run(new)
    device.last_seq = device.admit(device.assigned(between)).assignment.seq
    device.run(between)
    device.restarted()
    return device.assigned(old)


@assigning(UpdateCode.ROLLBACK_NOT_PERMITTED)
def rolled_back_when_the_record_of_what_runs_is_lost(
    fleet: SignedRepository, device: TrustingDevice
) -> bytes:
    old, new = make_release(1), fleet.release(9)
    device.trust.refresh()
    device.run(new)
    device.last_seq = device.admit(device.assigned(None)).assignment.seq
    device.running["detector"] = NOTHING
    device.restarted()
    return device.assigned(old, action=UpdateAction.ROLLBACK)


@assigning(UpdateCode.KNOWN_BAD)
def what_has_failed_here(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    release = make_release(1)
    device.denied = {release.sha256}
    return device.assigned(release)


@assigning(UpdateCode.LABELS)
def other_labels_than_what_runs(fleet: SignedRepository, device: TrustingDevice) -> bytes:
    device.run(fleet.release(2, labels=("person", "car")))
    release = fleet.release(3, labels=("car", "person"))
    device.trust.refresh()
    return device.assigned(release)


def fitted(fleet: SignedRepository, device: TrustingDevice, fit: Fit) -> bytes:
    """The assignment of a release that is made for certain devices."""
    release = fleet.release(2, fit=fit)
    device.trust.refresh()
    return device.assigned(release)


def put_in_place(thief: SignedRepository, name: str, data: bytes) -> None:
    """Serve other bytes under a name, and list their length and digest as online keys can."""
    thief.files[name] = data
    version, role = name.removesuffix(".json").split(".", 1)
    thief.snapshot.meta[f"{role}.json"] = MetaFile(int(version), len(data))
    next_online(thief)


@pytest.mark.parametrize("attack", ON_THE_ROAD, ids=lambda attack: attack.name)
def test_metadata_is_refused_by_name(attack: Attack, fleet: SignedRepository, device: TrustingDevice) -> None:
    """What was kept still judges, the honest fleet still reaches the device, and nothing of the attack stays."""
    attack.act(fleet, device)
    kept, release = device.stored(), make_release(1)
    with pytest.raises(UpdateRefused) as refused:
        device.trust.refresh()
    assert refused.value.code is attack.code
    assert refused.value.again
    assert device.stored() == kept
    device.restarted()
    assert device.admit(device.assigned(release)).terms == release.terms


@pytest.mark.parametrize("attack", BY_ASSIGNMENT, ids=lambda attack: attack.name)
def test_assignments_are_refused_by_name(
    attack: Attack, fleet: SignedRepository, device: TrustingDevice
) -> None:
    """Judged by a process that has just begun, without a network; the next good assignment is taken."""
    sealed = attack.act(fleet, device)
    assert isinstance(sealed, bytes)
    asked = fleet.asked.total()
    device.restarted()
    with pytest.raises(UpdateRefused) as refused:
        device.admit(sealed)
    assert refused.value.code is attack.code
    assert fleet.asked.total() == asked
    device.last_seq = max(device.last_seq, 5)
    assert device.admit(device.assigned(None)).assignment.action is UpdateAction.HOLD


def test_peek_judges_nothing_and_refuses_what_is_no_assignment(device: TrustingDevice) -> None:
    stranger = SignedRepository().signers["director"][0]
    sealed = device.assigned(make_release(1), seq=77, signer=stranger)
    assert isinstance(peek(sealed), Assignment)
    assert peek(sealed).seq == 77
    with pytest.raises(UpdateRefused) as refused:
        peek(b"{}")
    assert refused.value.code is UpdateCode.BAD_ENVELOPE
