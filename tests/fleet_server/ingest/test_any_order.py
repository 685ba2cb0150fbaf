"""Any order of bundles, resends, outcomes and syncs: every answer is true of the table, and the sums agree."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.protocol.vocabulary import Fate
from fleet_server.ingest import Limits, Rules
from fleet_server.storage import open_store, upgrade
from fleet_server.storage.event_tables import EventRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.deliveries import DeviceRig

LAST = 12
_NUMBERS = st.lists(st.integers(1, LAST), min_size=1, max_size=5, unique=True)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["bundle", "bad", "expired", "evicted", "rejected", "sync"]), _NUMBERS),
    min_size=1,
    max_size=14,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One database for all examples; each has an outbox file of its own in it."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('any') / 'fleet.db'}")
    upgrade(store)
    yield Server(store, Rules(), Limits(max_epochs=10_000))
    store.close()


@settings(max_examples=40)
@given(_STEPS)
def test_every_answer_is_true(shared: Server, steps: list[tuple[str, list[int]]]) -> None:
    server = shared
    rig = DeviceRig()
    good = {number: rig.item(seq=number) for number in range(1, LAST + 1)}
    bad = {n: rig.item(seq=n, decision={"decision": "hold"}) for n in range(1, LAST + 1)}
    known: dict[int, str] = {}
    stored: set[int] = set()
    for kind, numbers in steps:
        if kind == "sync":
            answer = server.answer(rig.sync(min(numbers)))
            beyond = {n for n, fate in known.items() if fate == "delivered" and n > answer.high}
            told = {n for first, last in answer.accepted for n in range(first, last + 1)}
            assert {n for n in beyond if n >= min(numbers)} <= told <= beyond
        elif kind in ("bundle", "bad"):
            items = good if kind == "bundle" else bad
            answer = server.answer(rig.bundle(*[items[n] for n in numbers]))
            if kind == "bundle":
                stored |= set(numbers)
                known = dict.fromkeys(numbers, "delivered") | known
                assert answer.rejected == ()
            else:
                assert [rejection.seq for rejection in answer.rejected] == numbers
        else:
            known = dict.fromkeys(numbers, kind) | known
            answer = server.answer(rig.outcomes(*[(n, n, Fate(kind)) for n in numbers]))
        high = 0
        while high + 1 in known:
            high += 1
        assert answer.high == high
    assert server.count(EventRow, epoch=rig.epoch) == len(stored)
    fates = server.fates(rig.name, rig.epoch)
    assert fates == {fate: list(known.values()).count(fate) for fate in set(known.values())}
    row = server.epoch(rig.name, rig.epoch)
    assert fates["delivered"] + row.surplus == len(stored)
