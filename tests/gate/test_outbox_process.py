"""From an event to the real outbox's process: killed and started again, reviewed through the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_runtime.cli.main import run
from edge_runtime.clock import SystemClock
from edge_runtime.gate import CropFolder, Gate, PolicyFile
from edge_runtime.gate.opening import UNKNOWN, WHOLE
from edge_runtime.gate.places import note_configuration_place
from edge_runtime.outbox import OutboxUnavailable
from edge_runtime.outbox.client import OutboxClient
from edge_runtime.protocol import DataClass, EventRecord, EvidenceMode, Reason
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import ApprovedEvent
from edge_runtime.state import StateDirectory
from tests.rigs.events import FakeClock
from tests.rigs.gate import POLICY, event, jpeg, put_crop


class Process:
    """The outbox's process, which a test may kill."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "edge_runtime.outbox", "--state", str(self._state.path)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(20)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").ensure()


@pytest.fixture
def process(state: StateDirectory) -> Iterator[Process]:
    process = Process(state)
    yield process
    process.end(signal.SIGKILL)


@pytest.fixture
def now() -> Callable[..., EventRecord]:
    """Makes an event of this very moment."""
    clock = SystemClock()

    def make(**changes: object) -> EventRecord:
        moment = FakeClock(now_ns=clock.monotonic_ns(), unix_ns=clock.wall().unix_ns)
        return event(moment, **changes)

    return make


@pytest.fixture
def client(state: StateDirectory) -> Iterator[OutboxClient]:
    client = OutboxClient(state.outbox_socket, SystemClock())
    yield client
    client.close()


def _gate(state: StateDirectory, client: OutboxClient) -> Gate:
    clock = SystemClock()
    return Gate(
        client,
        PolicyFile(state.policy, clock),
        state,
        crops=CropFolder(state.path / "ring"),
        clock=clock,
    )


def test_every_event_is_in_the_outbox_once_although_its_process_was_killed(
    state: StateDirectory, process: Process, client: OutboxClient, now: Callable[..., EventRecord]
) -> None:
    state.policy.write_text(POLICY)
    gate = _gate(state, client)
    gate.start()
    written = 0
    for round_number in range(3):
        for number in range(40):
            changes = {"severity": "critical"} if number % 4 == 0 else {}
            kept = {"rule": "heartbeat"} if number % 4 == 1 else {}
            held = {"data_class": "restricted"} if number % 4 == 2 else {}
            assert gate.write(now(id=f"{round_number}-{number}", **changes, **kept, **held))
            written += 1
        if round_number:
            process.end(signal.SIGKILL)
        process.start()
        deadline = time.monotonic() + 20
        while not gate.status().accepted:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert gate.close(30.0)
    status = client.status()
    gate_status = gate.status()
    assert sum(gate_status.accepted.values()) == written == 120
    assert status.ledger.balances
    assert status.ledger.accepted == status.ledger.queued == gate_status.accepted["send"] == 60
    assert status.held == status.gate["held"] == 30
    assert status.gate["kept"] == 30
    assert sum(status.not_accepted.values()) == 0


def test_a_person_reviews_what_is_held(
    state: StateDirectory,
    process: Process,
    client: OutboxClient,
    now: Callable[..., EventRecord],
    capsys: pytest.CaptureFixture[str],
) -> None:
    process.start()
    state.policy.write_text(POLICY)
    ref = put_crop(state.path / "ring", jpeg(4)).model_dump()
    gate = _gate(state, client)
    gate.start()
    gate.write(now(id="unlabelled", data_class="unknown", evidence=ref, label="CANARY-label"))
    gate.write(now(id="quiet", severity="notice"))
    gate.write(now(id="secret", data_class="restricted"))
    assert gate.close(20.0)
    capsys.readouterr()

    def gate_command(*arguments: str, code: int = 0) -> str:
        assert run(["gate", *arguments, "--state", str(state.path)]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    listed = json.loads(gate_command("list", "--json"))
    assert listed["total"] == 3
    keys = {item["receipt"]["event"]: item["key"] for item in listed["items"]}
    assert "CANARY" not in gate_command("list") + json.dumps(listed)
    shown = json.loads(gate_command("show", keys["unlabelled"], "--json"))
    assert shown["event"]["label"] == "CANARY-label"
    assert Path(shown["crop"]).read_bytes() == jpeg(4)
    block = gate_command("show", keys["unlabelled"]).splitlines()
    assert block[0] == f"item        {keys['unlabelled']}"
    assert "rule        fall (zone_enter) on camera dock-1" in block
    assert any(line.startswith("held        ") and "class" in line for line in block)
    assert any(line.startswith("seen        CANARY-label") for line in block)
    assert block[-1] == f"crop        {shown['crop']}  ({len(jpeg(4)):,} bytes)"
    assert not any(sign in line for line in block for sign in "{}")

    who = ("--by", "Ada", "--reason", "looked at it")
    assert "--class" in gate_command("release", keys["unlabelled"], *who, code=1)
    assert "no recipient" in gate_command("release", keys["secret"], *who, code=1)
    assert "name" in gate_command("release", keys["quiet"], "--by", " ", "--reason", "x", code=1)
    assert gate_command("release", keys["quiet"], "--by", "Ada", code=2)
    assert "nothing named" in gate_command("show", "0" * 32, code=1)
    assert "32 hexadecimal" in gate_command("show", "../x", code=2)
    released = json.loads(
        gate_command(
            "release", keys["unlabelled"], *who, "--class", "internal", "--evidence", "redacted", "--json"
        )
    )
    assert "released to fleet" in gate_command("release", keys["quiet"], *who)
    assert "dropped" in gate_command("drop", keys["secret"], *who)
    assert "nothing named" in gate_command("drop", keys["secret"], *who, code=1)
    assert "nothing is held" in gate_command("list")

    outbox = client
    items = {ApprovedEvent.decode(item.body).event.id: item for item in outbox.lease(10, 100_000)}
    assert sorted(items) == ["quiet", "unlabelled"]
    sent = ApprovedEvent.decode(items["unlabelled"].body)
    assert items["unlabelled"].key.hex() == released["id"].replace("-", "")
    assert sent.event.data_class is DataClass.INTERNAL
    assert (sent.decision.by, sent.decision.note) == ("Ada", "looked at it")
    assert sent.decision.reasons == (Reason.RELEASED_BY_PERSON,)
    assert sent.decision.evidence is not None
    assert sent.decision.evidence.mode is EvidenceMode.REDACTED
    assert state.evidence_file(sent.decision.evidence.sha256).exists()
    decisions = [DecisionReceipt.decode(raw) for raw in outbox.decisions(10)]
    assert [item.by for item in decisions[:3]] == ["Ada"] * 3
    assert "dropped_by_person" in gate_command("receipts")
    assert outbox.status().ledger.balances

    process.end(signal.SIGTERM)
    with pytest.raises(OutboxUnavailable):
        outbox.status()
    assert "released_by_person" in gate_command("receipts")  # without the process: from its files
    assert json.loads(gate_command("list", "--json"))["total"] == 0


@pytest.mark.parametrize("noted", [True, False])
def test_a_release_says_how_its_crop_was_redacted(
    noted: bool,
    state: StateDirectory,
    process: Process,
    client: OutboxClient,
    now: Callable[..., EventRecord],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    process.start()
    state.policy.write_text(POLICY)
    site = tmp_path / "site.yaml"
    site.write_text(
        "models: {m: {package: nowhere}}\n"
        "cameras: {dock: {source: {kind: synthetic}, model: m, data_class: internal}}\n"
        "delivery: {}\n"
    )
    if noted:
        note_configuration_place(state, site)
    gate = _gate(state, client)
    gate.start()
    gate.write(now(severity="notice", evidence=put_crop(state.path / "ring", jpeg(4)).model_dump()))
    assert gate.close(20.0)
    (item,) = client.held(10)
    words = ("--by", "Ada", "--reason", "seen", "--evidence", "redacted", "--state", str(state.path))
    capsys.readouterr()
    assert run(["gate", "release", item.key.hex(), *words]) == 0
    how = WHOLE if noted else UNKNOWN
    assert capsys.readouterr().out.startswith(f"released to fleet; {how}; decision ")
