"""The demo's balance holds only where both sides account for every revision."""

import io
from typing import Any

import pytest
from rich.console import Console

from deploy.demo.balance import Balance, balance_screen, weigh

EPOCH = "01a22878-6b6c-76f1-833f-f236cfa574ef"
FATES = ("delivered", "expired", "evicted", "rejected", "lost")


def outbox(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"accepted": 10, "queued": 0, **dict.fromkeys(FATES, 0), "delivered": 10}
    found |= {
        "not_accepted": {},
        "held": 2,
        "gate": {"kept": 1, "held": 2, "released": 0, "dropped": 0, "held_expired": 0, "held_evicted": 0},
        "epoch": EPOCH,
    }
    return found | changes


def health(stored: int = 10, settled: dict[str, int] | None = None) -> dict[str, Any]:
    counts = {"delivered": 10} if settled is None else settled
    balance = [{"device": "cabin-demo", "epoch": EPOCH, "settled": counts, "high": 10}] if counts else []
    return {"events": stored, "evidence": {"complete": 3}, "balance": balance}


def weighed(seen: int = 13, device: Any = None, server: Any = None, crops: int = 3, own: int = 0) -> Balance:
    counted = {
        "seen": seen,
        "own": own,
        "crops_named": crops,
        "bytes_up": 12_345,
        "bytes_down": 6_789,
        "connections": 3,
    }
    return weigh("cabin-demo", device or outbox(), server or health(), counted)


def shown(balance: Balance, width: int = 80) -> str:
    out = io.StringIO()
    Console(width=width, file=out).print(balance_screen(balance))
    return out.getvalue()


def test_it_holds_where_everything_is_accounted_for() -> None:
    balance = weighed()
    assert balance.holds
    assert balance.unexplained == 0
    text = shown(balance)
    assert "it adds up" in text
    assert "12.3 kB up, 6.8 kB down, 3 attempts" in text
    assert balance.record()["device"]["delivered"] == balance.record()["server"]["delivered"] == 10


@pytest.mark.parametrize(
    ("balance", "unexplained"),
    [
        pytest.param(weighed(seen=14), 1, id="the gate lost one"),
        pytest.param(weighed(own=1), 1, id="one of the device's own is nowhere"),
        pytest.param(weighed(device=outbox(accepted=11), seen=14), 1, id="the outbox lost one"),
        pytest.param(weighed(server=health(9, {"delivered": 9})), 1, id="receipted and not stored"),
        pytest.param(weighed(server=health(11)), 1, id="stored twice"),
        pytest.param(weighed(server=health(9)), 1, id="counted and not stored"),
        pytest.param(weighed(server=health(0, {})), 10, id="the server knows nothing"),
    ],
)
def test_one_revision_that_nobody_can_account_for_breaks_it(balance: Balance, unexplained: int) -> None:
    assert not balance.holds
    assert balance.unexplained >= unexplained
    assert "THIS IS A DEFECT" in shown(balance)


def test_what_is_still_queued_is_explained_and_not_yet_a_balance() -> None:
    device = outbox(accepted=12, queued=2)
    balance = weighed(seen=15, device=device)
    assert balance.unexplained == 0
    assert not balance.holds
    assert "not everything has arrived" in shown(balance)


def test_a_crop_that_has_not_arrived_is_no_balance_yet() -> None:
    balance = weighed(crops=4)
    assert balance.unexplained == 0
    assert not balance.holds


def test_a_camera_without_a_class_holds_everything_and_that_is_a_balance() -> None:
    gate = {"kept": 0, "held": 4, "released": 0, "dropped": 0, "held_expired": 0, "held_evicted": 0}
    device = outbox(accepted=0, delivered=0, held=4, gate=gate)
    balance = weighed(seen=4, device=device, server={"events": 0, "evidence": {}, "balance": []}, crops=0)
    assert balance.holds
    assert "held for a person" in shown(balance)


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    lines = shown(weighed(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 14, "no line wraps"


def test_what_the_device_told_of_itself_is_in_the_balance() -> None:
    balance = weighed(seen=11, own=2)
    assert balance.holds
    (row,) = (line for line in shown(balance).splitlines() if line.startswith("and of the device itself"))
    assert row.split()[5:] == ["2", "changes", "of", "its", "guard's", "state"]
    assert "of the device itself" not in shown(weighed())
