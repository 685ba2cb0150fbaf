"""The balance of both ledgers, by tables and by a property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol.delivery import Ledger
from fleet_server.operators.balance import compare, goes_on_from

COUNT = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("ledger", "settled", "waiting", "unexplained"),
    [
        pytest.param(Ledger(), {}, 0, 0, id="nothing happened"),
        pytest.param(Ledger(accepted=5, delivered=5), {"delivered": 5}, 0, 0, id="all arrived"),
        pytest.param(Ledger(accepted=5, queued=5), {"delivered": 2}, 3, 0, id="receipts on their way"),
        pytest.param(Ledger(accepted=5, queued=5), {}, 5, 0, id="nothing sent yet"),
        pytest.param(Ledger(accepted=5, delivered=5), {"delivered": 3}, 2, 2, id="receipted and not here"),
        pytest.param(Ledger(accepted=5, delivered=4), {"delivered": 4}, 1, 1, id="the device lost count"),
        pytest.param(
            Ledger(accepted=3, delivered=2, expired=2), {}, 3, 3, id="one fate too many, two not here"
        ),
        pytest.param(
            Ledger(accepted=6, delivered=2, expired=1, evicted=1, rejected=1, lost=1),
            {"delivered": 2, "expired": 1, "evicted": 1, "rejected": 1, "lost": 1},
            0,
            0,
            id="every fate once",
        ),
        pytest.param(Ledger(), {"delivered": 7}, 0, 0, id="the device has not reported yet"),
    ],
)
def test_both_sides(ledger: Ledger, settled: dict[str, int], waiting: int, unexplained: int) -> None:
    found = compare("dock-1", "epoch", ledger, settled)
    assert (found.waiting, found.unexplained) == (waiting, unexplained)


@given(queued=COUNT, delivered=COUNT, expired=COUNT, evicted=COUNT, behind=COUNT)
def test_a_report_that_is_older_than_the_server_explains_itself(
    queued: int, delivered: int, expired: int, evicted: int, behind: int
) -> None:
    accepted = queued + delivered + expired + evicted
    ledger = Ledger(accepted=accepted, queued=queued, delivered=delivered, expired=expired, evicted=evicted)
    settled = {"delivered": delivered + behind, "expired": expired}
    assert compare("dock-1", "epoch", ledger, settled).unexplained == 0


def test_a_new_file_after_a_damage_goes_on_with_the_count() -> None:
    older, newer = Ledger(accepted=1, queued=1), Ledger(accepted=301, delivered=291, lost=10)
    assert goes_on_from(newer, older)
    found = compare("dock-1", "new", newer, {"delivered": 290}, before={"delivered": 1})
    assert (found.waiting, found.unexplained) == (0, 0)
    assert compare("dock-1", "old", older, {}, is_closed=True).waiting == 0
    missing = compare("dock-1", "new", newer, {"delivered": 289}, before={"delivered": 1})
    assert (missing.waiting, missing.unexplained) == (1, 1)


@pytest.mark.parametrize(
    "newer", [Ledger(), Ledger(accepted=1, queued=1), Ledger(accepted=9, queued=5, delivered=4)]
)
def test_a_device_that_was_set_up_anew_counts_from_nothing(newer: Ledger) -> None:
    assert not goes_on_from(newer, Ledger(accepted=8, delivered=8))
