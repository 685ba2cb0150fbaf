"""From bytes to verdicts: every message is decoded and every event judged on its own, without the database.

Pure: the time comes in. Whatever arrives, `inspect` returns a parcel and raises nothing: a message that cannot be
read becomes a dead letter, and one bad event of a bundle spoils no other.
"""

from edge_runtime.clock import NS_PER_MS
from edge_runtime.protocol.delivery import (
    EventBundle,
    Ledger,
    Outcomes,
    Presence,
    RejectionCode,
    Sync,
)
from edge_runtime.protocol.operation import CommandResult, Health, HeldList
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.update_wire import StateReports
from edge_runtime.protocol.vocabulary import Fate
from edge_runtime.protocol.wire import WireError, WireFault
from fleet_server.ingest.fast_records import FastReader
from fleet_server.ingest.judgement import Now, Rules, judge
from fleet_server.ingest.parcels import (
    Arrival,
    BundleParcel,
    DeadParcel,
    EmptyParcel,
    HealthParcel,
    HeldParcel,
    OutcomesParcel,
    Parcel,
    PresenceParcel,
    ResultParcel,
    StateParcel,
    SyncParcel,
)

_MAX_COUNT = (1 << 53) - 1
_BUNDLES = FastReader(EventBundle)


class _NotOurs(Exception):
    """A record that names another device than its topic."""


def inspect(arrival: Arrival, rules: Rules, now: Now) -> Parcel:
    """What a message is."""
    topic = Topic.parse(arrival.topic)
    if topic is None:
        text = "the topic is none of this protocol"
        return DeadParcel("", "unknown", RejectionCode.INVALID.value, text, arrival.payload)
    if arrival.retained and topic.channel is not Channel.PRESENCE:
        # it would come again with every subscription, long after who left it there was put out
        text = "nothing but presence is retained"
        return _dead(topic, RejectionCode.INVALID.value, text, arrival.payload)
    try:
        return _read(topic, arrival, rules, now)
    except WireError as error:
        return _dead(topic, error.fault.value, str(error), arrival.payload)
    except _NotOurs:
        text = "the record names another device than its topic"
        return _dead(topic, RejectionCode.WRONG_DEVICE.value, text, arrival.payload)


def _read(topic: Topic, arrival: Arrival, rules: Rules, now: Now) -> Parcel:
    channel, payload = topic.channel, arrival.payload
    if channel.is_events:
        return _bundle(topic, arrival, rules, now)
    if channel is Channel.SYNC:
        sync = Sync.decode(payload)
        _require_own(topic, sync.device)
        _require_countable(sync.ledger)
        return SyncParcel(sync.device, sync.epoch, sync.lowest, sync.ledger)
    if channel is Channel.OUTCOME:
        outcomes = Outcomes.decode(payload)
        _require_own(topic, outcomes.device)
        _require_countable(outcomes.ledger)
        return OutcomesParcel(outcomes.device, outcomes.epoch, outcomes.ranges, outcomes.ledger)
    if channel is Channel.PRESENCE:
        if not payload:
            return EmptyParcel()
        presence = Presence.decode(payload)
        _require_own(topic, presence.device)
        _require_storable(presence.boot_id, presence.runtime)
        return PresenceParcel(presence, arrival.retained)
    return _operation(topic, payload)


def _operation(topic: Topic, payload: bytes) -> Parcel:
    if topic.channel is Channel.HEALTH:
        health = Health.decode(payload)
        _require_own(topic, health.device)
        _require_countable(health.ledger)
        return HealthParcel(health.device, health.ledger, payload)
    if topic.channel is Channel.HELD:
        held = HeldList.decode(payload)
        _require_own(topic, held.device)
        return HeldParcel(held)
    if topic.channel is Channel.RESULT:
        result = CommandResult.decode(payload)
        _require_own(topic, result.device)
        _require_storable(result.id, result.text)
        return ResultParcel(result, payload)
    if topic.channel is Channel.STATE:
        states = StateReports.decode(payload)
        _require_own(topic, states.device)
        return StateParcel(states.device, states.reports)
    return _dead(topic, RejectionCode.INVALID.value, "nobody but the server writes there", payload)


def _bundle(topic: Topic, arrival: Arrival, rules: Rules, now: Now) -> Parcel:
    bundle = _BUNDLES.decode(arrival.payload)
    _require_own(topic, bundle.device)
    waited_ms = max(0, now.monotonic_ns - arrival.arrived_ns) // NS_PER_MS
    candidates = tuple([judge(item, waited_ms, rules, now) for item in bundle.items])
    return BundleParcel(bundle.device, bundle.epoch, topic.channel.value, candidates)


def _require_own(topic: Topic, device: str) -> None:
    if device != topic.device:
        raise _NotOurs


def _require_storable(*texts: str) -> None:
    if any("\0" in text for text in texts):
        raise WireError(WireFault.INVALID, "a text holds a NUL character")


def _require_countable(ledger: Ledger) -> None:
    """Sums of counts must fit a column: a device that counts to 2^63 would stop its neighbours' transactions."""
    if max(ledger.accepted, ledger.queued, *(getattr(ledger, fate.value) for fate in Fate)) > _MAX_COUNT:
        raise WireError(WireFault.INVALID, f"a count of the ledger is over {_MAX_COUNT}")


def _dead(topic: Topic, code: str, text: str, payload: bytes) -> DeadParcel:
    return DeadParcel(topic.device, topic.channel.value, code, text[:200], payload)
