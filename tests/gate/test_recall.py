"""How old a decision of an earlier boot is taken to be, where nobody can say: as young as it can be."""

from dataclasses import dataclass

import pytest

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.gate.recall import MOST, last_hour, recall
from edge_runtime.policy import BudgetBook
from edge_runtime.protocol import uuid7
from edge_runtime.protocol.decision import DecisionReceipt

NOON_S = 1_800_000_000
WHERE = ("dock-1", "fall")


@dataclass
class Now:
    """A clock that stands."""

    up_s: int
    wall_s: int = NOON_S
    synced: bool = False
    boot_id: str = "now"

    def monotonic_ns(self) -> int:
        return self.up_s * NS_PER_S

    def boottime_ns(self) -> int:
        return self.up_s * NS_PER_S

    def wall(self) -> WallLabel:
        return WallLabel(self.wall_s * NS_PER_S, self.synced, self.boot_id)


def sent(boot: str, up_s: int, wall_s: int = 0, *, synced: bool = False) -> bytes:
    """A decision that let an event go, so long after its boot began."""
    label = WallLabel(wall_s * NS_PER_S, synced, boot)
    return DecisionReceipt.model_validate(
        {
            "id": uuid7(NOON_S * NS_PER_S),
            "event": f"{boot}-{up_s}",
            "revision": 1,
            "decision": "send",
            "reasons": ["permitted"],
            "rule": "fall",
            "camera": "dock-1",
            "severity": "warning",
            "data_class": "internal",
            "permit": "alerts",
            "recipients": ["fleet"],
            "purpose": "safety",
            "at": {
                "monotonic_ns": up_s * NS_PER_S,
                "media_s": 0.0,
                "wall": label.isoformat(),
                "synced": synced,
                "boot_id": boot,
            },
        }
    ).encode(compress=False)


def counted(receipts: list[bytes], now: Now) -> int:
    """Events that the budget of the last hour counts."""
    book = BudgetBook()
    recall(book, receipts, now)
    return book.usage(["alerts"], WHERE, "another", now.boottime_ns())["alerts"].events


@pytest.mark.parametrize(
    ("receipts", "now", "events"),
    [
        pytest.param([sent("now", 100)], Now(200), 1, id="this boot"),
        pytest.param([sent("now", 100)], Now(4000), 0, id="this boot, more than an hour ago"),
        pytest.param([sent("old", 90_000)], Now(5), 1, id="it may have been just before the reboot"),
        pytest.param([sent("old", 90_000)], Now(3700), 0, id="this boot has lasted an hour"),
        pytest.param(
            [sent("old", 90_000), sent("old", 89_000), sent("old", 80_000)],
            Now(5),
            2,
            id="its own boot went on",
        ),
        pytest.param(
            [sent("middle", 3500), sent("old", 90_000)], Now(5), 2, id="the boot between may have been short"
        ),
        pytest.param([sent("middle", 3700), sent("old", 90_000)], Now(5), 1, id="the boot between was long"),
        pytest.param(
            [sent("old", 50, NOON_S - 4000, synced=True)], Now(5, synced=True), 0, id="dated, long ago"
        ),
        pytest.param(
            [sent("old", 50, NOON_S - 1000, synced=True)], Now(5, synced=True), 1, id="dated, lately"
        ),
        pytest.param([sent("old", 50, NOON_S - 4000, synced=True)], Now(5), 1, id="dated then, no clock now"),
        pytest.param(
            [sent("old", 50, NOON_S + 9000, synced=True)], Now(5, synced=True), 1, id="dated in the future"
        ),
        pytest.param([b"junk", sent("old", 50)], Now(5), 1, id="what cannot be read is passed over"),
    ],
)
def test_what_counts_into_the_hour(receipts: list[bytes], now: Now, events: int) -> None:
    assert counted(receipts, now) == events


def test_reading_back_ends_with_the_hour_and_with_the_bound() -> None:
    hour_ago = [sent("old", 90_000 - number) for number in range(0, 8000, 2)]  # 4000 decisions, 2 s apart

    def decisions(limit: int, after: int) -> list[bytes]:
        return hour_ago[after : after + limit]

    assert len(last_hour(decisions, Now(5))) == 2000, "two pages: the end of the second is an hour old"
    just_now = sent("old", 90_000)
    assert len(last_hour(lambda limit, _after: [just_now] * limit, Now(5))) == MOST
