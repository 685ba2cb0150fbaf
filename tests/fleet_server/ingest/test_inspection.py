"""Whatever arrives becomes a parcel: nothing raises, and nothing of a message's content gets into a text."""

import zlib
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol.delivery import RejectionCode
from edge_runtime.protocol.topics import Channel
from edge_runtime.protocol.vocabulary import Fate
from fleet_server.ingest import Arrival, Now, Rules, inspect
from fleet_server.ingest.parcels import BundleParcel, DeadParcel, EmptyParcel, PresenceParcel
from fleet_server.settings import ServerSettings
from tests.rigs.deliveries import WALL_MS, DeviceRig

NOW = Now(10**12, WALL_MS)
CHANNELS = [channel.value for channel in Channel]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def _look(topic: str, payload: bytes) -> object:
    return inspect(Arrival(topic, payload, 10**12), Rules(), NOW)


@given(st.sampled_from(CHANNELS), st.binary(max_size=400))
def test_any_bytes(channel: str, payload: bytes) -> None:
    parcel = _look(f"fleet/v1/dev-1/{channel}", payload)
    assert isinstance(parcel, (DeadParcel, EmptyParcel))


@given(st.text(max_size=60), st.binary(max_size=40))
def test_any_topic(topic: str, payload: bytes) -> None:
    assert isinstance(_look(topic, payload), (DeadParcel, EmptyParcel))


@given(st.sampled_from(CHANNELS), st.dictionaries(st.text(max_size=8), _VALUES, max_size=6))
def test_any_map(channel: str, found: dict[str, object]) -> None:
    payload = msgpack.packb({"v": [1, 0], "device": "dev-1"} | found, unicode_errors="surrogatepass")
    assert isinstance(_look(f"fleet/v1/dev-1/{channel}", payload), DeadParcel)


@given(st.data())
def test_a_good_bundle_with_any_byte_changed(data: st.DataObject) -> None:
    rig = DeviceRig(epoch="01890000-0000-7000-8000-000000000001")
    topic, payload = rig.bundle(rig.item(key=bytes(15) + b"1"))
    plain = bytearray(zlib.decompress(payload))
    place = data.draw(st.integers(0, len(plain) - 1))
    plain[place] = data.draw(st.integers(0, 255))
    assert isinstance(_look(topic, bytes(plain)), (BundleParcel, DeadParcel))


@pytest.mark.parametrize(
    "wall", ["2026-09-21T13:46:40Z", "2026-09-21T13:46:40.123456+02:00", "2026-09-21 13:46"]
)
def test_times_that_devices_write(wall: str) -> None:
    rig = DeviceRig()
    when = {"monotonic_ns": 1, "media_s": 0, "wall": wall, "synced": True, "boot_id": "b"}
    parcel = _look(*rig.bundle(rig.item(event={"at": when})))
    assert isinstance(parcel, BundleParcel)
    assert parcel.candidates[0].refusal is None


@pytest.mark.parametrize(
    "wall", ["", "Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59+99:00", "2026-13-01T00:00:00Z", "\0"]
)
def test_texts_that_are_no_times(wall: str) -> None:
    rig = DeviceRig()
    when = {"monotonic_ns": 1, "media_s": 0, "wall": wall, "synced": True, "boot_id": "b"}
    parcel = _look(*rig.bundle(rig.item(event={"at": when})))
    assert isinstance(parcel, BundleParcel)
    assert parcel.candidates[0].refusal is not None


def test_content_never_gets_into_a_text() -> None:
    canary = "c4n4ry"
    rig = DeviceRig()
    topic, _ = rig.bundle(rig.item())
    spoiled = rig.item(event={"label": canary + "\0", "camera": canary})
    parcel = _look(*rig.bundle(spoiled))
    assert isinstance(parcel, BundleParcel)
    refusal = parcel.candidates[0].refusal
    assert refusal is not None
    assert canary not in refusal.text
    dead = _look(topic, msgpack.packb({"v": [1, 0], canary * 30: canary, "device": canary}))
    assert isinstance(dead, DeadParcel)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"id": "01890000-0000-7000-8000-000000000001"}, "the decision's id is not the delivery key"),
        ({"rule": "other"}, "the decision names another rule than the event"),
        ({"camera": "other"}, "the decision names another camera than the event"),
        ({"severity": "info"}, "the decision names another severity than the event"),
        ({"event": "other"}, "the decision is about another event"),
    ],
)
def test_a_decision_that_does_not_fit_its_event_is_named(change: dict[str, str], text: str) -> None:
    rig = DeviceRig()
    parcel = _look(*rig.bundle(rig.item(decision=change)))
    assert isinstance(parcel, BundleParcel)
    refusal = parcel.candidates[0].refusal
    assert refusal is not None
    assert (refusal.code, refusal.permanent, refusal.text) == (RejectionCode.NOT_PERMITTED, True, text)


def test_an_empty_retained_presence_is_no_defect() -> None:
    assert _look("fleet/v1/dev-1/presence", b"") == EmptyParcel()


def test_what_the_broker_kept_is_nothing_but_presence() -> None:
    rig = DeviceRig("dev-1")
    for message in (rig.bundle(rig.item()), rig.sync(1), rig.outcomes((1, 1, Fate.LOST))):
        assert not isinstance(_look(*message), DeadParcel)
        kept = inspect(Arrival(*message, 10**12, retained=True), Rules(), NOW)
        assert isinstance(kept, DeadParcel)
        assert (kept.device, kept.code) == ("dev-1", "invalid")
    kept = inspect(Arrival(*rig.presence(1), 10**12, retained=True), Rules(), NOW)
    assert isinstance(kept, PresenceParcel)
    assert kept.retained


def test_rules_come_from_the_settings(tmp_path: Path) -> None:
    rules = Rules.of(
        ServerSettings.at(tmp_path, recipient="site-b", accepts=("public",), purposes=("safety",))
    )
    assert (rules.recipient, [c.value for c in rules.accepts], rules.purposes) == (
        "site-b",
        ["public"],
        frozenset({"safety"}),
    )
