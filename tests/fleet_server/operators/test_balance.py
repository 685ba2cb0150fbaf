"""The balance of both ledgers, by tables and by a property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol.delivery import Ledger
from fleet_server.operators.balance import compare

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
