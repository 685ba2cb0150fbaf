"""`edge-runtime outbox`, with and without a running process."""

import json
from pathlib import Path

import pytest

from edge_runtime.cli.main import run
from edge_runtime.clock import SystemClock
from edge_runtime.outbox import OutboxSettings
from edge_runtime.protocol.delivery import Rejection, RejectionCode
from edge_runtime.protocol.vocabulary import DecisionKind
from edge_runtime.state import StateDirectory
from tests.rigs.outbox import client, hand_out, key_of, opened, process, receipt, submission

FATES = ("queued", "delivered", "expired", "evicted", "rejected", "lost")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setenv("EDGE_RUNTIME_STATE", str(tmp_path / "state"))
    return StateDirectory.find()


def ask(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert run(["outbox", *arguments]) == code
    found = capsys.readouterr()
    assert max((len(line) for line in found.out.splitlines() if not line.startswith("{")), default=0) <= 80
    return found.out, found.err


def fill(state: StateDirectory) -> None:
    state.ensure()
    with opened(state.outbox, SystemClock(), OutboxSettings()) as outbox:
        outbox.put([submission(n, n % 4) for n in range(1, 41)])
        outbox.put([submission(100, kind=DecisionKind.HOLD), submission(101, body=bytes(20_000))])
        epoch = outbox.sync_point().epoch
        word = Rejection(
            seq=40, key=key_of(40), code=RejectionCode.INVALID, permanent=True, text="no such rule"
        )
        hand_out(outbox)
        outbox.settle(epoch, receipt(epoch, high=10, rejected=[word], wall_ns=SystemClock().wall().unix_ns))


def test_before_the_first_run_there_is_none(
    state: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said = ask(capsys, "status", code=2)
    assert said == f"error: there is no state directory {state.path}; name it with --state\n"
    assert not state.path.exists()
    state.path.mkdir()
    _, said = ask(capsys, "status", code=1)
    assert said == (
        f"error: there is no outbox at {state.path} yet: it is made when the runtime first runs with --state\n"
    )


def test_a_command_without_the_process_keeps_to_its_limits(
    state: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    with process(state, quota_bytes=256 * 1024 * 1024, decisions_kept=50_000):
        pass
    found, _ = ask(capsys, "status", "--json")
    assert json.loads(found)["quota_bytes"] == 256 * 1024 * 1024
    (state.outbox / "settings.json").write_text('{"quota_bytes": "much"}')
    _, said = ask(capsys, "status", code=1)
    assert said.endswith("settings.json cannot be read: start the runtime, which writes it anew\n")
    with process(state):
        pass
    assert json.loads(ask(capsys, "status", "--json")[0])["quota_bytes"] == OutboxSettings().quota_bytes


@pytest.mark.parametrize("running", [False, True])
def test_status_says_what_became_of_everything(
    state: StateDirectory, capsys: pytest.CaptureFixture[str], running: bool
) -> None:
    fill(state)
    if running:
        with process(state):
            text, _ = ask(capsys, "status")
            found = json.loads(ask(capsys, "status", "--json")[0])
    else:
        text, _ = ask(capsys, "status")
        found = json.loads(ask(capsys, "status", "--json")[0])
    assert text.startswith("outbox healthy\naccepted             40")
    assert "too_large 1" in text
    assert found["accepted"] == sum(found[name] for name in FATES) == 40
    assert (found["delivered"], found["rejected"], found["held"], found["state"]) == (10, 1, 1, "healthy")
    assert found["queued_by_severity"] == {"info": 7, "notice": 7, "warning": 7, "critical": 8}
    assert found["balances"] is True


def test_list_and_export_leave_everything_where_it_is(
    state: StateDirectory, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fill(state)
    text, _ = ask(capsys, "list", "--limit", "2")
    assert "… and 27 more" in text
    (item, _) = json.loads(ask(capsys, "list", "--json", "--limit", "2")[0])["items"]
    assert (item["seq"], item["key"], item["severity"]) == (11, key_of(11).hex(), "critical")
    out, said = ask(capsys, "export")
    assert [json.loads(line)["seq"] for line in out.splitlines()] == list(range(11, 40))
    assert json.loads(out.splitlines()[0])["unreadable"] == submission(1).body.hex()
    assert said == "29 events written\n"
    file = tmp_path / "out.ndjson"
    ask(capsys, "export", "--dead-letters", "--out", str(file))
    letter = json.loads(file.read_text())
    assert (letter["code"], letter["text"], letter["key"]) == ("invalid", "no such rule", key_of(40).hex())
    assert file.stat().st_mode & 0o777 == 0o600
    _, said = ask(capsys, "export", "--out", str(file), code=1)
    assert said == f"error: {file}: File exists\n"
    assert json.loads(ask(capsys, "status", "--json")[0])["queued"] == 29


def test_the_quarantine_is_listed_and_emptied(
    state: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(state)
    (state.outbox / "outbox.db").write_bytes(b"ruined" * 1000)
    text, _ = ask(capsys, "status")
    assert text.startswith("outbox degraded\n! a damaged database was put aside")
    files = json.loads(ask(capsys, "quarantine", "--json")[0])["files"]
    assert files == [{"name": "outbox-000001.db", "bytes": 6000}]
    _, said = ask(capsys, "quarantine", "--delete", "../outbox.db", code=1)
    assert "is not in the quarantine" in said
    ask(capsys, "quarantine", "--delete", "outbox-000001.db")
    assert ask(capsys, "quarantine")[0] == "the quarantine is empty\n"


def test_a_process_that_owns_it_and_does_not_answer_is_named(
    state: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    state.ensure()
    with opened(state.outbox, SystemClock(), OutboxSettings()):
        _, said = ask(capsys, "status", code=1)
    assert "is in use by another process" in said
    caller = client(state)
    caller.close()
