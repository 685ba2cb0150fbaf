"""The permission and the disk: which comes first, and that without the disk there is none."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.latch import LatchFile
from edge_runtime.guard.lease import LeaseReader
from edge_runtime.guard.memory import State
from edge_runtime.guard.permission import LATCH_FILE, RETRY_NS, Permission
from edge_runtime.guard.settings import parse
from edge_runtime.guard.still import STILL
from tests.rigs.guard_bodies import CAMERA, CART, MS, Guard, profile_of
from tests.rigs.guarded import GuardProcess, worker_row

START_NS = 50_000 * MS


class Hands:
    """A permission over a folder, a state machine that is brought somewhere, and who reads the lease."""

    def __init__(self, folder: Path, profile: dict[str, Any], *, gated: bool = False) -> None:
        row = worker_row("perception") | {"lives_on": gated}
        settings = GuardProcess(folder, profile, [row]).settings()
        self.now_ns = START_NS
        self.permission = Permission(parse(json.dumps(settings).encode()), lambda: self.now_ns)
        self.folder = folder
        fds, _ = self.permission.handover()
        self.reader = LeaseReader(os.dup(fds[0]))

    def act(self, guard: Guard) -> None:
        """What the loop does after a step."""
        self.permission.withdraw(guard.memory, guard.out)
        self.permission.grant(self.now_ns, guard.memory, guard.out)

    def valid(self) -> bool:
        return self.reader.valid(self.now_ns)

    def due_ns(self) -> int | None:
        return self.permission.due_ns

    def trouble(self) -> str | None:
        return self.permission.trouble

    def close(self) -> None:
        self.reader.close()
        self.permission.close()


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    made = Hands(tmp_path, CART)
    yield made
    made.close()


def test_a_permission_is_on_disk_before_the_first_lease_and_its_end_after_it_has_ended(hands: Hands) -> None:
    guard = Guard().armed()
    hands.act(guard)
    assert hands.valid()
    assert hands.permission.until_ns == START_NS + 40 * MS
    assert hands.permission.left_ms(START_NS + 10 * MS) == 30
    assert hands.due_ns() == START_NS + 10 * MS
    assert (
        LatchFile(hands.folder / LATCH_FILE).find().why == "the last guard ended while motion was permitted"
    )
    hands.now_ns += 10 * MS
    guard.tick(disarm=True)
    hands.act(guard)
    assert not hands.valid()
    assert (hands.due_ns(), hands.permission.left_ms(hands.now_ns)) == (None, 0)
    assert hands.permission.until_ns == hands.now_ns
    record = LatchFile(hands.folder / LATCH_FILE).find().record
    assert record is not None
    assert record.latch is None


def test_what_latches_ends_the_permission_and_is_on_disk(hands: Hands) -> None:
    guard = Guard().armed()
    hands.act(guard)
    guard.tick(Condition.WORKER_DEAD)
    assert guard.state() is State.SAFE
    hands.act(guard)
    assert not hands.valid()
    record = LatchFile(hands.folder / LATCH_FILE).find().record
    assert record is not None
    assert record.latch == guard.memory.latch


def test_without_the_disk_there_is_no_permission_and_it_is_tried_again(tmp_path: Path) -> None:
    hands = Hands(tmp_path / "gone", CART)
    guard = Guard().armed()
    hands.act(guard)
    assert not hands.valid()
    assert "cannot be written down" in (hands.trouble() or "")
    due_ns = hands.due_ns()
    assert due_ns is not None
    assert due_ns < hands.now_ns, "overdue"
    (tmp_path / "gone").mkdir()
    hands.act(guard)
    assert hands.valid()
    assert hands.trouble() is None
    hands.close()


def test_a_turn_that_took_too_long_renews_nothing(hands: Hands) -> None:
    guard = Guard().armed()
    looked_ns = hands.now_ns
    hands.now_ns += 6 * MS
    hands.permission.withdraw(guard.memory, guard.out)
    hands.permission.grant(looked_ns, guard.memory, guard.out)
    assert not hands.valid()
    hands.permission.grant(hands.now_ns - 5 * MS, guard.memory, guard.out)
    assert hands.valid()


def test_a_body_that_cannot_latch_touches_no_file(tmp_path: Path) -> None:
    hands = Hands(tmp_path / "gone", STILL)
    found = hands.permission.find()
    assert (found.record is not None, found.missing) == (True, False)
    guard = Guard(profile_of(CAMERA)).armed()
    hands.act(guard)
    assert hands.valid()
    guard.tick(disarm=True)
    hands.act(guard)
    assert guard.state() is State.STANDBY
    assert not hands.valid()
    assert not (tmp_path / "gone").exists()
    hands.close()


@pytest.mark.parametrize(
    ("profile", "gated", "known"), [(CART, False, False), (CAMERA, True, False), (CAMERA, False, True)]
)
def test_a_missing_file_says_nothing_of_a_body_that_can_move(
    profile: dict[str, Any], gated: bool, known: bool, tmp_path: Path
) -> None:
    hands = Hands(tmp_path, profile, gated=gated)
    assert (hands.permission.find().record is not None) is known
    (tmp_path / LATCH_FILE).write_text("damaged")
    assert hands.permission.find().record is None
    hands.close()


@pytest.mark.parametrize(("lease_ms", "late_ms", "renewal_ms"), [(40, 5, 10), (20, 2, 5), (50, 5, 10)])
def test_three_renewals_may_fail(lease_ms: int, late_ms: int, renewal_ms: int, tmp_path: Path) -> None:
    hands = Hands(tmp_path, CART | {"lease_ms": lease_ms, "late_ms": late_ms})
    assert hands.permission.renewal_ns == renewal_ms * MS
    hands.close()


def test_what_the_disk_did_not_take_is_written_as_soon_as_it_does(hands: Hands) -> None:
    guard = Guard().armed()
    hands.act(guard)
    blocked = hands.folder.with_name("blocked")
    hands.folder.rename(blocked)  # the disk takes nothing
    guard.tick(Condition.WORKER_DEAD)
    hands.act(guard)
    assert guard.state() is State.SAFE
    assert "cannot be written down" in str(hands.trouble())
    blocked.rename(hands.folder)
    guard.tick()
    hands.act(guard)
    assert hands.trouble() is not None  # tried a moment ago
    hands.now_ns += RETRY_NS
    hands.act(guard)
    assert hands.trouble() is None
    record = LatchFile(hands.folder / LATCH_FILE).find().record
    assert record is not None
    assert record.latch is not None
    assert guard.memory.latch is not None
    assert record.latch.id == guard.memory.latch.id
