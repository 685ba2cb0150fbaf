"""One transaction: what is committed, what is refused, and what the device is told."""

from collections.abc import Sequence
from typing import Any

import msgpack
import pytest
from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from edge_runtime.protocol.delivery import Ledger, RejectionCode
from edge_runtime.protocol.vocabulary import DataClass, EvidenceMode, Fate
from fleet_server.ingest import Arrival, Limits, Now, Rules, event_log, inspect
from fleet_server.storage import Store
from fleet_server.storage.event_tables import DeadLetterRow, EpochRow, EventRow, EvidenceRow, SettledRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.deliveries import AT_MS, DeviceRig, grant, new_key

_DAY_MS = 24 * 3600 * 1000


def test_a_bundle_is_committed_and_settled(server: Server) -> None:
    device = DeviceRig()
    items = device.items(20)

    answer = server.answer(device.bundle(*items))

    assert (answer.device, answer.epoch, answer.high) == ("dev-1", device.epoch, 20)
    assert (answer.accepted, answer.rejected) == ((), ())
    with server.store.read() as session:
        rows = list(session.scalars(select(EventRow).order_by(EventRow.id)))
    assert [row.key for row in rows] == [item.key for item in items]
    assert [row.body for row in rows] == [item.body for item in items]
    first = rows[0]
    assert (first.severity, first.data_class, first.at_ms, first.synced) == (2, "internal", AT_MS, True)
    assert server.count(SettledRow) == 0
    server.assert_balanced()


def test_a_resend_changes_nothing_and_gets_the_same_acceptance(server: Server) -> None:
    device = DeviceRig()
    device.next = 5
    bundle = device.bundle(*device.items(3))

    first = server.answer(bundle)
    again = server.take(bundle, bundle)

    assert first.accepted == ((5, 7),)
    assert again.answers == (first,)
    assert again.counts == {("event", "duplicate"): 6}
    assert server.count(EventRow) == 3
    server.assert_balanced()


def test_a_bundle_twice_in_one_batch_is_stored_once(server: Server) -> None:
    device = DeviceRig()
    bundle = device.bundle(*device.items(2))
    assert server.take(bundle, bundle).counts == {("event", "delivered"): 2, ("event", "duplicate"): 2}
    assert server.count(EventRow) == 2
    server.assert_balanced()


def test_a_resend_may_carry_new_events_beside_old_ones(server: Server) -> None:
    device = DeviceRig()
    old, new = device.item(), device.item()
    server.take(device.bundle(old))
    answer = server.answer(device.bundle(new, old))
    assert answer.high == 2
    assert server.count(EventRow) == 2
    server.assert_balanced()


def test_another_body_under_a_known_key_is_a_conflict(server: Server) -> None:
    device = DeviceRig()
    first = device.item()
    other = device.item(key=first.key)
    server.take(device.bundle(first))

    answer = server.answer(device.bundle(other))

    (rejection,) = answer.rejected
    assert (rejection.code, rejection.permanent) == (RejectionCode.KEY_CONFLICT, True)
    assert server.count(EventRow) == 1
    assert server.count(DeadLetterRow, code="key_conflict") == 1


def test_two_bodies_under_one_key_in_one_batch_keep_the_first(server: Server) -> None:
    device = DeviceRig()
    first = device.item()
    other = device.item(key=first.key)
    answer = server.answer(device.bundle(first, other))
    assert [rejection.seq for rejection in answer.rejected] == [2]
    assert answer.high == 1
    server.assert_balanced()


def test_nobody_claims_the_event_of_another_device(server: Server) -> None:
    owner, thief = DeviceRig("dev-1"), DeviceRig("dev-2")
    item = owner.item()
    server.take(owner.bundle(item))

    answer = server.answer(thief.bundle(item))

    assert [rejection.code for rejection in answer.rejected] == [RejectionCode.KEY_CONFLICT]
    assert answer.high == 0
    server.assert_balanced()


def test_a_bundle_in_the_name_of_another_device_goes_nowhere(server: Server) -> None:
    owner, thief = DeviceRig("dev-1"), DeviceRig("dev-2")
    _, payload = owner.bundle(owner.item())
    topic, _ = thief.bundle(thief.item())

    done = server.take((topic, payload))

    assert done.answers == ()
    assert server.count(EventRow) == 0
    with server.store.read() as session:
        letter = session.scalars(select(DeadLetterRow)).one()
    assert (letter.device, letter.code, letter.channel) == ("dev-2", "wrong_device", "up/ev/2")


_REFUSED: list[tuple[str, dict[str, Any], RejectionCode]] = [
    ("kept", {"decision": {"decision": "keep"}}, RejectionCode.NOT_PERMITTED),
    ("held", {"decision": {"decision": "hold"}}, RejectionCode.NOT_PERMITTED),
    ("for nobody", {"decision": {"recipients": ()}}, RejectionCode.NOT_PERMITTED),
    ("for others", {"decision": {"recipients": ("cloud", "fleet-2")}}, RejectionCode.NOT_PERMITTED),
    ("about another", {"decision": {"event": "other"}}, RejectionCode.NOT_PERMITTED),
    ("about another revision", {"decision": {"revision": 2}}, RejectionCode.NOT_PERMITTED),
    ("let go for another delivery", {"decision": {"id": "01890000-0000-7000-8000-000000000001"}},
     RejectionCode.NOT_PERMITTED),
    ("of another rule", {"decision": {"rule": "gate-watch"}}, RejectionCode.NOT_PERMITTED),
    ("of another camera", {"decision": {"camera": "dock-2"}}, RejectionCode.NOT_PERMITTED),
    ("of another severity", {"decision": {"severity": "critical"}}, RejectionCode.NOT_PERMITTED),
    ("restricted", {"decision": {"data_class": "restricted"}}, RejectionCode.NOT_PERMITTED),
    ("event of a higher class", {"event": {"data_class": "restricted"}, "decision": {"data_class": "public"}},
     RejectionCode.NOT_PERMITTED),
    ("unknown class", {"event": {"data_class": "unknown"}}, RejectionCode.NOT_PERMITTED),
    ("expired", {"left_ms": 0}, RejectionCode.EXPIRED),
    ("past its deadline", {"deadline_ms": 1_789_999_990_000}, RejectionCode.EXPIRED),
    ("ttl too long", {"left_ms": 31 * _DAY_MS}, RejectionCode.INVALID),
    ("NUL in an id", {"event": {"id": "a\0b"}}, RejectionCode.INVALID),
    ("NUL in a label", {"event": {"label": "\0"}}, RejectionCode.INVALID),
    ("huge revision", {"event": {"revision": 1 << 40}}, RejectionCode.INVALID),
    ("no time", {"event": {"at": {"monotonic_ns": 1, "media_s": 0, "wall": "noon", "synced": True,
                                  "boot_id": "b"}}}, RejectionCode.INVALID),
    ("no msgpack", {"body": b"\xc1\xc1"}, RejectionCode.MALFORMED),
    ("no map", {"body": msgpack.packb([1, 2])}, RejectionCode.MALFORMED),
    ("a lone surrogate", {"body": b"\x81\xa1v\xa3\xed\xa0\x80"}, RejectionCode.MALFORMED),
    ("an empty record", {"body": msgpack.packb({"v": [1, 0]})}, RejectionCode.INVALID),
    ("a later major version", {"body": msgpack.packb({"v": [2, 0]})}, RejectionCode.UNKNOWN_VERSION),
]  # fmt: skip


@pytest.mark.parametrize(("case", "code"), [(c, r) for _, c, r in _REFUSED], ids=[n for n, _, _ in _REFUSED])
def test_one_bad_event_is_refused_and_spoils_no_other(
    server: Server, case: dict[str, Any], code: RejectionCode
) -> None:
    device = DeviceRig()
    before, bad, after = device.item(), device.item(**case), device.item()

    answer = server.answer(device.bundle(before, bad, after))

    (rejection,) = answer.rejected
    assert (rejection.seq, rejection.key, rejection.code) == (2, bad.key, code)
    assert rejection.permanent == (code is not RejectionCode.UNKNOWN_VERSION)
    assert (answer.high, answer.accepted) == (1, ((3, 3),))
    assert server.count(EventRow) == 2
    kept = code not in (RejectionCode.EXPIRED, RejectionCode.UNKNOWN_VERSION)
    assert server.count(DeadLetterRow, code=code.value) == int(kept)
    server.assert_balanced()


def test_a_rejected_number_stays_open_until_the_device_knows(server: Server) -> None:
    """Were `high` to pass it, a device that missed the receipt would count the event as delivered."""
    device = DeviceRig()
    bad, good = device.item(decision={"decision": "hold"}), device.item()
    bundle = device.bundle(bad, good)

    assert server.answer(bundle).high == 0
    assert server.answer(bundle).rejected[0].seq == 1

    answer = server.answer(device.outcomes((1, 1, Fate.REJECTED)))
    assert answer.high == 2
    assert server.fates("dev-1", device.epoch) == {"rejected": 1, "delivered": 1}


def test_the_server_only_narrows_and_never_takes_back(store: Store) -> None:
    wide = Server(store, Rules(), Limits())
    device = DeviceRig()
    bundle = device.bundle(device.item())
    wide.take(bundle)

    narrow = Server(store, Rules(accepts=frozenset({DataClass.PUBLIC})), Limits())
    assert narrow.answer(bundle).rejected == ()
    assert narrow.answer(device.bundle(device.item())).rejected[0].code is RejectionCode.NOT_PERMITTED


def test_purposes_are_narrowed(store: Store) -> None:
    server = Server(store, Rules(purposes=frozenset({"operations"})), Limits())
    device = DeviceRig()
    answer = server.answer(device.bundle(device.item(), device.item(decision={"purpose": "operations"})))
    assert [rejection.seq for rejection in answer.rejected] == [1]


def test_an_expired_event_that_was_committed_before_is_a_duplicate(server: Server) -> None:
    device = DeviceRig()
    item = device.item(left_ms=5000)
    server.take(device.bundle(item))
    late = device.bundle(item.model_copy(update={"left_ms": 0}))
    assert server.answer(late).high == 1


def test_time_spent_here_counts(server: Server) -> None:
    device = DeviceRig()
    topic, payload = device.bundle(device.item(left_ms=5000))
    parcel = inspect(Arrival(topic, payload, 0), server.rules, Now(5_000_000_000, 1))
    answer = server.committer.commit([parcel], 1).answers[0]
    assert answer.rejected[0].code is RejectionCode.EXPIRED


@pytest.mark.parametrize("synced", [True, False])
def test_a_deadline_is_judged_by_a_synchronised_clock_alone(server: Server, synced: bool) -> None:
    server.clock.synced = synced
    device = DeviceRig()
    item = device.item(deadline_ms=server.clock.wall_ms - 60_000)
    assert bool(server.answer(device.bundle(item)).rejected) == synced


def test_gaps_close_in_any_order(server: Server) -> None:
    device = DeviceRig()
    items = device.items(9)
    answer = server.answer(device.bundle(items[8], items[4], items[5]))
    assert (answer.high, answer.accepted) == (0, ((5, 6), (9, 9)))

    answer = server.answer(device.outcomes((1, 2, Fate.EXPIRED), (7, 8, Fate.EVICTED)))
    assert (answer.high, answer.accepted) == (2, ())

    answer = server.answer(device.bundle(items[2], items[3]))
    assert (answer.high, answer.accepted) == (9, ())
    assert server.fates("dev-1", device.epoch) == {"delivered": 5, "expired": 2, "evicted": 2}
    assert server.count(SettledRow) == 0
    server.assert_balanced()


def test_outcomes_may_come_again(server: Server) -> None:
    device = DeviceRig()
    outcomes = device.outcomes((2, 5, Fate.LOST))
    server.take(outcomes)
    server.take(outcomes, outcomes)
    assert server.fates("dev-1", device.epoch) == {"lost": 4}


def test_what_was_committed_stays_delivered_whatever_the_device_gave_up(server: Server) -> None:
    device = DeviceRig()
    server.take(device.bundle(device.item()))
    server.take(device.outcomes((1, 1, Fate.EXPIRED)))
    assert server.fates("dev-1", device.epoch) == {"delivered": 1}
    server.assert_balanced()


def test_an_event_that_comes_after_its_outcome_is_kept_and_counted(server: Server) -> None:
    device = DeviceRig()
    item = device.item()
    server.take(device.outcomes((1, 1, Fate.EVICTED)))
    assert server.answer(device.bundle(item)).high == 1
    assert server.fates("dev-1", device.epoch) == {"evicted": 1}
    assert server.epoch("dev-1", device.epoch).surplus == 1
    server.take(device.bundle(item))
    assert server.epoch("dev-1", device.epoch).surplus == 1
    server.assert_balanced()


def test_a_device_cannot_claim_that_something_was_delivered(server: Server) -> None:
    device = DeviceRig()
    server.take(device.outcomes((1, 3, Fate.DELIVERED)))
    assert server.fates("dev-1", device.epoch) == {}


def test_a_number_used_twice_keeps_both_events(server: Server) -> None:
    device = DeviceRig()
    server.take(device.bundle(device.item(seq=1), device.item(seq=1)))
    assert server.count(EventRow) == 2
    server.assert_balanced()


def test_salvaged_events_in_a_new_outbox_file_are_duplicates(server: Server) -> None:
    old = DeviceRig()
    item = old.item()
    server.take(old.bundle(item))
    new = DeviceRig()
    answer = server.answer(new.bundle(new.item(key=item.key, body=item.body)))
    assert answer.high == 1
    assert server.count(EventRow) == 1
    server.assert_balanced()


def test_a_sync_is_answered_with_everything_that_is_settled(server: Server) -> None:
    device = DeviceRig()
    items = device.items(8)
    server.take(device.bundle(items[0], items[1], items[4], items[7]), device.outcomes((7, 7, Fate.EXPIRED)))

    answer = server.answer(device.sync(3, Ledger(accepted=8, queued=5, delivered=2, expired=1)))

    assert (answer.high, answer.accepted) == (2, ((5, 5), (8, 8)))
    row = server.epoch("dev-1", device.epoch)
    assert (row.accepted, row.queued, row.delivered, row.expired) == (8, 5, 2, 1)
    assert row.reported_ms == server.clock.wall_ms


def test_a_sync_of_an_unknown_outbox_file_begins_it(server: Server) -> None:
    device = DeviceRig()
    assert server.answer(device.sync(1)).high == 0
    assert server.count(EpochRow) == 1


def test_an_older_ledger_does_not_replace_a_newer_one(server: Server) -> None:
    device = DeviceRig()
    server.take(device.sync(1, Ledger(accepted=5, queued=1, delivered=4)))
    server.take(device.outcomes((9, 9, Fate.LOST), ledger=Ledger(accepted=5, queued=3, delivered=2)))
    row = server.epoch("dev-1", device.epoch)
    assert (row.queued, row.delivered) == (1, 4)


@pytest.mark.parametrize("count", [1 << 53, (1 << 63) - 1])
def test_a_ledger_that_cannot_be_summed_is_refused(server: Server, count: int) -> None:
    device, other = DeviceRig(), DeviceRig("dev-2")
    bad = device.sync(1, Ledger(accepted=count, delivered=count, lost=count))
    done = server.take(bad, device.outcomes((1, (1 << 63) - 1, Fate.LOST)), other.bundle(other.item()))
    assert done.counts["dead_letter", "invalid"] == 1
    assert [answer.high for answer in done.answers] == [(1 << 63) - 1, 1]


def test_a_ledger_that_does_not_balance_is_counted(server: Server) -> None:
    device = DeviceRig()
    done = server.take(device.sync(1, Ledger(accepted=5)))
    assert done.counts["defect", "ledger_unbalanced"] == 1


def test_evidence_is_expected_only_where_the_decision_lets_it_go(server: Server) -> None:
    device = DeviceRig()
    let_go = device.item(decision={"evidence": grant("a" * 64, 5000)})
    none = device.item(
        decision={"evidence": grant("b" * 64, 5000).model_copy(update={"mode": EvidenceMode.NONE})}
    )
    huge = device.item(decision={"evidence": grant("c" * 64, 1 << 40)})
    refused = device.item(decision={"evidence": grant("d" * 64, 5000), "decision": "hold"})
    bundle = device.bundle(let_go, none, huge, refused, device.item())

    server.take(bundle)
    server.take(bundle)

    with server.store.read() as session:
        rows = [
            (row.device, row.sha256, row.bytes, row.state) for row in session.scalars(select(EvidenceRow))
        ]
    assert rows == [("dev-1", "a" * 64, 5000, "expected")]
    assert server.count(EventRow) == 4


def test_too_many_gaps_are_put_off_until_one_closes(store: Store) -> None:
    server = Server(store, Rules(), Limits(max_ranges=3))
    device = DeviceRig()
    items = device.items(20)
    server.take(device.bundle(items[3], items[6], items[9]))

    answer = server.answer(device.bundle(items[14], items[0]))
    (rejection,) = answer.rejected
    assert (rejection.seq, rejection.code, rejection.permanent) == (15, RejectionCode.STORE_FAILED, False)
    assert answer.high == 1
    server.take(device.outcomes((18, 18, Fate.LOST)))
    assert server.fates("dev-1", device.epoch)["lost"] == 0

    server.take(device.bundle(*items[1:3]))
    assert server.answer(device.bundle(items[14])).rejected == ()
    server.assert_balanced()


def test_too_many_outbox_files_are_put_off(store: Store) -> None:
    server = Server(store, Rules(), Limits(max_epochs=2))
    for _ in range(2):
        device = DeviceRig()
        server.take(device.bundle(device.item()))
    device = DeviceRig()

    answer = server.answer(device.bundle(device.item()), device.sync(1), device.outcomes((5, 5, Fate.LOST)))

    assert answer.rejected[0].permanent is False
    assert (answer.high, server.count(EpochRow), server.count(EventRow)) == (0, 2, 2)
    other = DeviceRig("dev-2")
    assert server.answer(other.bundle(other.item())).high == 1


def test_a_value_that_the_database_refuses_spoils_only_its_event(store: Store) -> None:
    with store.engine.begin() as connection:
        if store.is_sqlite:
            connection.exec_driver_sql(
                "CREATE TRIGGER poison BEFORE INSERT ON events WHEN NEW.camera = 'poison' "
                "BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        else:
            connection.exec_driver_sql("ALTER TABLE events ADD CONSTRAINT poison CHECK (camera <> 'poison')")
    server = Server(store, Rules(), Limits())
    device, other = DeviceRig(), DeviceRig("dev-2")
    good, bad, after = device.item(), device.item(event={"camera": "poison"}), device.item()

    done = server.take(other.bundle(other.item()), device.bundle(good, bad, after))

    rejected = [rejection for answer in done.answers for rejection in answer.rejected]
    assert [(r.seq, r.code, r.permanent) for r in rejected] == [(2, RejectionCode.STORE_FAILED, True)]
    assert server.count(EventRow) == 3
    assert server.count(DeadLetterRow, code="store_failed") == 1
    server.assert_balanced()
    if not store.is_sqlite:  # its database serves the next test
        with store.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE events DROP CONSTRAINT poison")


def test_nothing_of_a_transaction_that_fails_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeviceRig()
    bundle = device.bundle(*device.items(3))

    def fail(*_: object, **__: object) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    with monkeypatch.context() as patch:
        patch.setattr("fleet_server.ingest.batch.keep_dead_letters", fail)
        with pytest.raises(OperationalError, match="full"):
            server.take(bundle)
    assert (server.count(EventRow), server.count(EpochRow)) == (0, 0)

    assert server.answer(bundle).high == 3


def test_a_defect_of_ours_stops_one_event_and_no_other(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, other = DeviceRig(), DeviceRig("dev-2")
    good, bad = device.item(), device.item(event={"camera": "odd"})
    real = event_log._insert

    def insert(connection: Connection, rows: Sequence[tuple[Any, ...]], received_ms: int) -> int:
        if any("odd" in row for row in rows):
            raise KeyError("a defect")
        return real(connection, rows, received_ms)

    monkeypatch.setattr(event_log, "_insert", insert)
    done = server.take(device.bundle(good, bad), other.bundle(other.item()))

    rejected = [rejection for answer in done.answers for rejection in answer.rejected]
    assert [(found.seq, found.text) for found in rejected] == [(2, "it cannot be stored: KeyError")]
    assert server.count(EventRow) == 2


def test_dead_letters_are_bounded_in_number_and_bytes(store: Store) -> None:
    server = Server(store, Rules(), Limits(dead_letters=20, dead_letter_bytes=50_000))
    for number in range(30):
        server.take(("fleet/v1/dev-1/up/ev/0", bytes([0xC1, number])))
    assert 18 <= server.count(DeadLetterRow) <= 20
    for _ in range(8):
        server.take(("fleet/v1/dev-1/up/ev/0", b"\xc1" * 100_000))
    with server.store.read() as session:
        letters = list(session.scalars(select(DeadLetterRow)))
    assert {len(letter.body) for letter in letters} == {16 * 1024}
    assert {letter.size for letter in letters} == {100_000}
    assert sum(len(letter.body) for letter in letters) <= 50_000


@pytest.mark.parametrize("size", [2, 30_000])
def test_one_device_pushes_nobody_elses_dead_letters_out(store: Store, size: int) -> None:
    server = Server(store, Rules(), Limits(dead_letters=30, dead_letter_bytes=200_000))
    for device in ("dev-1", "dev-2"):
        server.take(*((f"fleet/v1/{device}/up/ev/0", bytes([0xC1, number])) for number in range(4)))
    for start in range(0, 100, 25):
        bodies = [bytes([0xC1]) * size + bytes([number]) for number in range(start, start + 25)]
        server.take(*(("fleet/v1/thief/up/ev/0", body) for body in bodies))
    assert server.count(DeadLetterRow, device="dev-1") == 4
    assert server.count(DeadLetterRow, device="dev-2") == 4
    with server.store.read() as session:
        kept = list(session.scalars(select(DeadLetterRow).order_by(DeadLetterRow.id)))
    assert len(kept) <= 30
    assert sum(len(letter.body) for letter in kept) <= 200_000
    if size == 2:
        numbers = [letter.body[-1] for letter in kept if letter.device == "thief"]
        assert numbers == list(range(100 - len(numbers), 100)), "its newest"


@pytest.mark.parametrize(
    "topic",
    [
        "fleet/v1/dev-1/up/ev/9",
        "other",
        "fleet/v1/DEV/up/ev/0",
        "fleet/v1/a/down/cmd",
        "fleet/v1/a/down/rcpt",
        "",
    ],
)
def test_other_topics_are_dead_letters(server: Server, topic: str) -> None:
    done = server.take((topic, b"\x80"))
    assert done.counts == {("dead_letter", "invalid"): 1}


def test_a_key_of_any_sixteen_bytes_is_one(server: Server) -> None:
    device = DeviceRig()
    keys = [bytes(16), b"\xff" * 16, new_key()]
    assert server.answer(device.bundle(*[device.item(key=key) for key in keys])).high == 3
