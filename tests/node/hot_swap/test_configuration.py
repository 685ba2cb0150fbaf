"""A configuration changes while real models look at a real clip, over the real socket, and no frame is missing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.node.assigned import assigned_at_start
from edge_runtime.protocol import EventState
from edge_runtime.protocol.swap import (
    Activate,
    CandidateState,
    Discard,
    Load,
    Look,
    Revert,
    Settle,
    Shadow,
    SlotLook,
)
from edge_runtime.protocol.update import CONFIGURATION_SLOT, UpdateCode
from edge_runtime.updates.store import ReleaseStore, begin_start
from tests.rigs.stored_releases import put_configuration
from tests.rigs.swapping import Exchanging, swap_config

SLOT = CONFIGURATION_SLOT
CROWD = (
    "cameras: {street: {rules: [{name: crowd, kind: occupancy, labels: [person], at_least: 1, hold: 0}]}}\n"
)
POLICY = "version: 1\nname: assigned\npermits: []\n"


@pytest.fixture
def store(tmp_path: Path) -> ReleaseStore:
    return ReleaseStore(tmp_path / "updates", reserve_bytes=0)


@pytest.fixture
def config(tmp_path: Path, fast_package: Path, street: dict[str, Any]) -> LoadedConfig:
    return swap_config(tmp_path, fast_package, street, delivery={})


@pytest.fixture
def device(tmp_path: Path, config: LoadedConfig, store: ReleaseStore) -> Iterator[Exchanging]:
    with Exchanging(config, tmp_path, updates=store.places.root) as running:
        yield running


def look(device: Exchanging) -> SlotLook:
    return device.tell(Look(slot=SLOT))


def load(
    device: Exchanging, store: ReleaseStore, release: str, values: Mapping[str, Any] | None = None
) -> SlotLook:
    return device.tell(
        Load(slot=SLOT, release=release, package_dir=str(store.files(release)), values=dict(values or {}))
    )


def activate(device: Exchanging, release: str) -> SlotLook:
    device.tell(Activate(slot=SLOT, release=release))
    device.wait(lambda: look(device).running.release == release)
    return look(device)


def test_rules_thresholds_and_names_change_between_two_frames(
    device: Exchanging, store: ReleaseStore, config: LoadedConfig
) -> None:
    """What was open is closed as interrupted, every event names its configuration, and no frame is missing."""
    rules = CROWD.replace("]}}", ", {name: stays, kind: dwell, labels: [person], seconds: 0.2}]}}", 1)
    release = put_configuration(
        store, rules + "models: {m: {score: '${values.score}'}}\nevents: {labels: {person: pedestrian}}\n"
    )
    before = config.path.read_bytes()
    device.wait(lambda: any(event.rule == "busy" for event in device.watching.events))
    loaded = load(device, store, release, {"score": 0.3})
    assert loaded.candidate is not None
    assert loaded.candidate.state is CandidateState.LOADED
    taken = activate(device, release)
    assert taken.running.package == loaded.candidate.package != config.digest
    assert taken.previous is not None
    assert (taken.previous.release, taken.previous.package) == (None, config.digest)
    device.wait(lambda: {"crowd", "stays"} <= {event.rule for event in device.watching.events})
    device.wait(lambda: look(device).running.frames >= 20)
    assert look(device).running.events >= 1
    assert device.node.snapshot().cameras["street"].events["busy"] >= 1
    device.tell(Revert(slot=SLOT))
    device.wait(lambda: look(device).running.release is None)
    device.wait(lambda: device.watching.events[-1].config == config.digest)
    device.node.request_stop()
    device.over()
    events = device.watching.events
    new = taken.running.package
    assert {(event.rule, event.config) for event in events} == {
        ("busy", config.digest),
        ("crowd", new),
        ("stays", new),
    }
    named = {event.label for event in events if event.rule == "stays"}
    assert named == {"pedestrian"}
    last = {event.id: event.state for event in events}
    of = {event.id: event.rule for event in events}
    assert EventState.INTERRUPTED in {state for one, state in last.items() if of[one] == "busy"}
    assert not {EventState.STARTED, EventState.UPDATED} & set(last.values()), "nothing is left open"
    assert device.watching.gaps() == []
    assert all(device.watching.seen)
    assert config.path.read_bytes() == before


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ("cameras: {roof: {rules: []}}\n", "this device has no camera of that name"),
        ("models: {m: {package: /tmp/x}}\n", "is nothing that a release may set"),
        ("models: {m: {score: 7}}\n", "models.m.score"),
        ("models: {m: {score: '${values.score}'}}\n", "this device was assigned no value score"),
        (CROWD.replace("person", "unicorn"), "does not know unicorn"),
        (CROWD.replace("hold: 0", "hold: 0, deadline: 9"), "the guard goes by 1 s"),
        ("- 1\n", "must be a section"),
    ],
)
def test_what_does_not_fit_is_refused_in_words_and_the_cameras_go_on(
    device: Exchanging, store: ReleaseStore, overlay: str, words: str
) -> None:
    release = put_configuration(store, overlay)
    answer = device.ask(Load(slot=SLOT, release=release, package_dir=str(store.files(release))))
    assert (answer.ok, answer.code) == (False, UpdateCode.BAD_CONFIGURATION)
    assert words in answer.text
    assert str(store.places.root) not in answer.text
    assert look(device).candidate is None
    assert not device.ask(Activate(slot=SLOT, release=release)).ok
    device.wait(lambda: look(device).running.frames >= 3)


def test_a_policy_lies_where_everyone_follows_it(
    device: Exchanging, store: ReleaseStore, config: LoadedConfig
) -> None:
    place = store.places.root / "policy.yaml"
    with_policy = put_configuration(store, CROWD, policy=POLICY)
    plain = put_configuration(store, CROWD.replace("crowd", "plain"))
    load(device, store, with_policy)
    assert not place.exists()
    activate(device, with_policy)
    assert place.read_text() == POLICY
    load(device, store, plain)
    activate(device, plain)
    assert not place.exists(), "the device's own holds again"
    device.tell(Revert(slot=SLOT))
    device.wait(lambda: look(device).running.release == with_policy)
    assert place.read_text() == POLICY
    bad = put_configuration(store, CROWD, policy="version: 1\nnonsense: 1\n")
    answer = device.ask(Load(slot=SLOT, release=bad, package_dir=str(store.files(bad))))
    assert (answer.ok, answer.code) == (False, UpdateCode.BAD_CONFIGURATION)
    assert "nonsense" in answer.text
    assert place.read_text() == POLICY


def test_commands_are_idempotent(device: Exchanging, store: ReleaseStore) -> None:
    release = put_configuration(store, CROWD)
    assert not device.ask(Shadow(slot=SLOT, on=True)).ok
    device.tell(Shadow(slot=SLOT, on=False))
    for _ in range(2):
        load(device, store, release)
    device.tell(Discard(slot=SLOT))
    assert device.tell(Discard(slot=SLOT)).candidate is None
    load(device, store, release)
    activate(device, release)
    assert device.tell(Activate(slot=SLOT, release=release)).candidate is None
    for _ in range(2):
        assert device.tell(Settle(slot=SLOT)).previous is None
    device.tell(Revert(slot=SLOT))
    device.wait(lambda: look(device).running.release is None)
    device.tell(Revert(slot=SLOT))


def test_other_values_are_another_candidate(device: Exchanging, store: ReleaseStore) -> None:
    release = put_configuration(store, "models: {m: {score: '${values.score}'}}\n")
    digests = set()
    for score in (0.3, 0.3, 0.6):
        found = load(device, store, release, {"score": score}).candidate
        assert found is not None
        digests.add(found.package)
    assert len(digests) == 2


def test_a_start_takes_the_assigned_one_and_gives_up_what_does_not_stay(
    tmp_path: Path, config: LoadedConfig, store: ReleaseStore
) -> None:
    """The third start on trial is the last; then the last good one, with its own values, and then the file."""
    good = put_configuration(store, CROWD.replace("crowd", "'good-${values.gate}'"), policy=POLICY)
    bad = put_configuration(store, CROWD.replace("crowd", "bad"))
    root = store.places.root
    store.begin_trial(SLOT, good, {"gate": "north"})
    store.commit(SLOT)
    store.begin_trial(SLOT, bad)

    def rules() -> list[str]:
        return [rule.name for rule in assigned_at_start(config, root).loaded.config.cameras["street"].rules]

    assert [rules() for _ in range(3)] == [["bad"]] * 3
    assert not (root / "policy.yaml").exists()
    found = assigned_at_start(config, root)
    assert (found.release, found.own) == (good, config)
    assert found.given_up is not None
    assert (found.given_up.release, found.given_up.code) == (bad, UpdateCode.CRASH_LOOP)
    assert [rule.name for rule in found.loaded.config.cameras["street"].rules] == ["good-north"]
    assert (root / "policy.yaml").read_text() == POLICY
    with Exchanging(config, tmp_path, updates=root) as device:
        standing = look(device)
        assert (standing.running.release, standing.running.package) == (good, found.loaded.digest)
        assert standing.given_up == found.given_up
        device.wait(lambda: any(event.rule == "good-north" for event in device.watching.events))
        device.tell(Revert(slot=SLOT))  # perception that began since has nothing loaded: the device's own
        device.wait(lambda: look(device).running.release is None)
    assert not (root / "policy.yaml").exists()
    assert begin_start(root, SLOT).gave_up == bad


def test_a_start_with_what_no_longer_fits(tmp_path: Path, config: LoadedConfig, store: ReleaseStore) -> None:
    """A person took the camera out of the device's file: what was assigned for it is given up, not the device."""
    release = put_configuration(store, CROWD)
    store.begin_trial(SLOT, release)
    store.commit(SLOT)
    config.path.write_text(config.path.read_text().replace("street:", "dock:"))
    own = load_config(config.path)
    found = assigned_at_start(own, store.places.root)
    assert (found.release, found.loaded) == (None, own)
    assert found.given_up is not None
    assert found.given_up.code is UpdateCode.BAD_CONFIGURATION
    assert "no camera of that name; it has dock" in found.given_up.text


def test_thresholds_hold_from_the_next_frame_on(device: Exchanging, store: ReleaseStore) -> None:
    """With a score that nothing reaches no track begins any more; taken back, tracks begin again."""

    def newest() -> int:
        found = [each.track_id for each in list(device.watching.tracks) if each is not None]
        return max((int(number) for ids in found for number in ids), default=0)

    release = put_configuration(store, "models: {m: {score: 1.0}}\n")
    device.wait(lambda: newest() > 0)
    load(device, store, release)
    activate(device, release)
    assert device.node.snapshot().models["m"].release is None
    device.wait(lambda: look(device).running.frames >= 2)
    begun = newest()
    device.wait(lambda: look(device).running.frames >= 25)
    assert newest() == begun
    device.tell(Revert(slot=SLOT))
    device.wait(lambda: newest() > begun)
