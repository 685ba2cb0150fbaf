"""What passes through the socket: packed by hand, so checked by hand."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.outbox import EvidenceFile, NotAccepted, Put, PutResult, QueuedItem, Submission
from edge_runtime.outbox.packing import (
    CallError,
    pack_items,
    pack_results,
    pack_submissions,
    unpack_items,
    unpack_results,
    unpack_submissions,
)
from edge_runtime.protocol.vocabulary import DecisionKind
from tests.rigs.outbox import key_of, submission

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=20) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=8),
    max_leaves=30,
)
EPOCH = "0190a5b2-7c3d-7000-8000-000000000001"
ITEM = QueuedItem(key_of(1), 7, 2, 1000, None, 3, b"body", EPOCH)


def test_what_is_packed_comes_out_the_same() -> None:
    items = [
        submission(1, receipt=b"r"),
        submission(2, 3, kind=DecisionKind.HOLD, evidence=EvidenceFile("ab" * 32, 5)),
        submission(3, kind=DecisionKind.KEEP, body=b"", ttl_s=-1),
    ]
    assert unpack_submissions(pack_submissions(items)) == items
    results = [
        PutResult(Put.ACCEPTED),
        PutResult(Put.ACCEPTED, volatile=True),
        PutResult(Put.DUPLICATE),
        PutResult(Put.NOT_ACCEPTED, NotAccepted.FULL),
    ]
    assert unpack_results(pack_results(results)) == results
    leased = [ITEM, QueuedItem(key_of(2), 8, 0, 5, 1_790_000_000_000, 0, b"", EPOCH)]
    assert unpack_items(pack_items(leased)) == leased


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, "sixteen letters!"),
        (0, b"short"),
        (1, "sent"),
        (1, ["send"]),
        (2, 4),
        (2, -1),
        (2, True),
        (2, 1.0),
        (3, None),
        (4, "text"),
        (5, None),
        (6, "ab" * 32),
        (6, ["../etc/passwd", 5]),
        (6, ["ab" * 32, 0]),
        (6, ["ab" * 32, 1 << 63]),
        (6, ["ab" * 32, 5, 6]),
    ],
)
def test_a_submission_with_one_wrong_field_is_none(place: int, value: Any) -> None:
    row = list(pack_submissions([submission(1)])[0])
    row[place] = value
    with pytest.raises(CallError) as found:
        unpack_submissions([row])
    assert str(found.value) == "wrong arguments: submissions"  # nothing of the content


@given(PLAIN)
def test_what_is_no_row_is_refused_and_nothing_else_happens(rows: Any) -> None:
    for unpack, kind in (
        (unpack_submissions, Submission),
        (unpack_results, PutResult),
        (unpack_items, QueuedItem),
    ):
        with contextlib.suppress(CallError):
            assert all(isinstance(found, kind) for found in unpack(rows))
