"""Commands: which are carried out, and that none is twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol.delivery import Receipt
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.operation import Command, CommandKind
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.wire import pack
from edge_runtime.uplink import LinkIdentity
from edge_runtime.uplink.commands import REMEMBERED, Refused, SeenCommands, ServerTime, examine
from edge_runtime.uplink.ports import CommandAnswer
from edge_runtime.uplink.session_records import Arrived
from tests.rigs.uplinks import ThreadedUplink
from tests.uplink.conftest import StandingClock

NOW_MS = 1_900_000_000_000


def command(**changes: Any) -> Command:
    fields: dict[str, Any] = {
        "id": uuid7(5, 5),
        "device": "dev-1",
        "kind": CommandKind.REPORT_HEALTH,
        "issued_ms": NOW_MS,
        "expires_ms": NOW_MS + 60_000,
        "by": "ada",
    }
    return Command(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "now_ms", "retained", "why"),
    [
        ({}, NOW_MS + 1_000, False, None),
        ({}, None, False, None),
        ({}, NOW_MS + 59_000, False, None),
        ({}, NOW_MS + 63_000, False, "expired"),
        ({}, NOW_MS + 1_000, True, "retained"),
        ({"device": "dev-2"}, NOW_MS, False, "other_device"),
        ({"expires_ms": NOW_MS}, NOW_MS, False, "bad_expiry"),
        ({"expires_ms": NOW_MS - 5}, None, False, "bad_expiry"),
        ({"expires_ms": NOW_MS + 30 * 86_400_000}, NOW_MS, False, "bad_expiry"),
    ],
)
def test_a_command_is_for_this_device_and_for_now(
    changes: dict[str, Any], now_ms: int | None, retained: bool, why: str | None
) -> None:
    found = examine(command(**changes).encode(), "dev-1", now_ms, retained=retained)
    assert (found.why if isinstance(found, Refused) else None) == why


def test_another_devices_command_is_not_answered() -> None:
    found = examine(command(device="dev-2").encode(), "dev-1", NOW_MS, retained=False)
    assert isinstance(found, Refused)
    assert found.command is None


@given(st.binary(max_size=300))
def test_garbage_is_refused_by_name(payload: bytes) -> None:
    assert isinstance(examine(payload, "dev-1", NOW_MS, retained=False), Refused)


@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8), max_size=6))
def test_maps_that_are_no_command_are_refused(fields: dict[str, Any]) -> None:
    try:
        payload = pack({"v": [1, 0], **fields})
    except OverflowError:  # no 64-bit integer: msgpack cannot even write it
        return
    assert isinstance(examine(payload, "dev-1", NOW_MS, retained=False), Refused)


def test_an_id_is_new_once_also_after_a_restart(tmp_path: Path) -> None:
    seen = SeenCommands(tmp_path / "commands.json")
    assert seen.begin("a") is None
    seen.finish("a", CommandAnswer(done=True, text="released"))
    assert seen.begin("a") == CommandAnswer(done=True, text="released")
    assert SeenCommands(tmp_path / "commands.json").begin("a") == CommandAnswer(done=True, text="released")


def test_a_kill_in_the_middle_is_told_and_not_done_twice(tmp_path: Path) -> None:
    SeenCommands(tmp_path / "commands.json").begin("a")
    answer = SeenCommands(tmp_path / "commands.json").begin("a")
    assert answer is not None
    assert not answer.done
    assert "interrupted" in answer.text


def test_only_so_many_ids_are_kept(tmp_path: Path) -> None:
    before = [[str(number), True, "done"] for number in range(REMEMBERED)]
    (tmp_path / "commands.json").write_text(json.dumps(before))
    seen = SeenCommands(tmp_path / "commands.json")
    assert seen.begin("0") is not None
    assert seen.begin("new") is None
    again = SeenCommands(tmp_path / "commands.json")
    assert again.begin("1") is not None
    assert again.begin("0") is None


@pytest.mark.parametrize("content", [b"{", b"[[1]]", b"7", b'[["a", true]]', b"\xff\xff"])
def test_a_damaged_file_of_ids_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "commands.json").write_bytes(content)
    seen = SeenCommands(tmp_path / "commands.json")
    assert seen.trouble is not None
    assert seen.begin("a") is None


def test_the_servers_time_goes_before_our_clock(clock: StandingClock) -> None:
    time = ServerTime(clock)
    clock.synced = False
    assert time.now_ms() is None
    clock.synced = True
    assert time.now_ms() == int(clock.wall_s * 1000)
    time.heard(NOW_MS)
    clock.go(5)
    assert time.now_ms() == NOW_MS + 5_000
    clock.wall_s += 50 * 365 * 86_400  # and says that it is synchronised
    assert time.now_ms() == NOW_MS + 5_000


def test_a_receipt_that_the_broker_kept_tells_no_time(tmp_path: Path) -> None:
    """It comes before this session's sync is out; by its time a command of an hour ago would be a present one."""
    who = LinkIdentity("dev-1", BrokerAddress(host="localhost", port=1), None, lambda: None)
    device = ThreadedUplink(tmp_path, who)
    uplink, epoch = device.uplink, device.outbox.sync_point().epoch

    def hear(server_ms: int) -> int | None:
        receipt = Receipt(epoch=epoch, high=0, credit=5, server_ms=server_ms)
        arrived = Arrived(str(Topic("dev-1", Channel.RECEIPT)), receipt.encode(), retained=False)
        uplink._arrived(arrived, device.clock.monotonic_ns())
        return uplink._secretary._server_time.now_ms()

    try:
        before = uplink._secretary._server_time.now_ms()
        heard = hear(NOW_MS)
        assert heard is None if before is None else heard is not None and heard - before < 60_000
        uplink._courier.connected(100, None, device.clock.monotonic_ns())
        uplink._courier.work(device.clock.monotonic_ns())  # the sync goes out
        heard = hear(NOW_MS + 3_600_000)
        assert heard is not None
        assert 0 <= heard - NOW_MS - 3_600_000 < 60_000
    finally:
        device.outbox.close()
