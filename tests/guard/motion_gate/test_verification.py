"""The verifier as a process, and one that does not answer, or answers nonsense."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.guard.motion_gate.approvals import action_digest, parse_record
from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.motion_gate.settings import profile_of
from edge_runtime.guard.motion_gate.verification import (
    COMMAND,
    MOST_QUEUED,
    Approvers,
    Verdict,
    Verification,
)
from tests.rigs.motion_gate import DEVICE, KEY, approval, profile, public_hex

MS = 1_000_000
S = 1_000 * MS
CART = profile_of(profile())
RECORD = parse_record(approval(0))


def wall_ms() -> int:
    return SystemClock().wall().unix_ns // NS_PER_MS


def verification(folder: Path, code: str | None = None, answer_ns: int = 30 * S) -> Verification:
    approvers = Approvers({"lead": public_hex(KEY)}, folder, answer_ns)
    command = COMMAND if code is None else (sys.executable, "-c", code)
    return Verification(approvers, CART, DEVICE, command)


def verdict(asked: Verification, now_ns: int) -> Verdict:
    """What comes of it, at a time that does not pass."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = asked.poll(now_ns)
        if found is not None:
            return found
        time.sleep(0.005)
    raise AssertionError("no verdict")


def test_a_good_approval_is_verified_offline_by_a_process_of_its_own(tmp_path: Path) -> None:
    asked = verification(tmp_path)
    record = parse_record(approval(wall_ms()))
    assert asked.poll(0) is None
    assert asked.filenos() == []
    assert asked.present(record, 5 * S) is None
    assert len(asked.filenos()) == 1
    found = verdict(asked, 7 * S)
    assert found.refused is None
    assert found.digest == action_digest(DEVICE, "tip", {"tip_deg": 30.0})
    assert found.presented_ns == 5 * S
    assert 5 * S < found.until_ns <= 65 * S
    assert asked.filenos() == []
    assert asked.present(record, 8 * S) is None
    assert verdict(asked, 8 * S) == Verdict(Reason.APPROVAL_USED, 8 * S)
    asked.close()


def test_an_approval_over_is_refused(tmp_path: Path) -> None:
    asked = verification(tmp_path)
    assert asked.present(RECORD, 0) is None
    assert verdict(asked, 0) == Verdict(Reason.APPROVAL_EXPIRED, 0)


@pytest.mark.parametrize(
    "code",
    [
        "pass",
        "print('yes')",
        "print('[]')",
        "print('{}')",
        "print('{\"refused\": null}')",
        'print(\'{"refused": "because"}\')',
        'print(\'{"digest": "00"}\')',
        'print(\'{"digest": 1, "remaining_ms": 1000}\')',
        'print(\'{"digest": "00", "remaining_ms": 0}\')',
        'print(\'{"digest": "00", "remaining_ms": -5}\')',
        'print(\'{"digest": "00", "remaining_ms": 1.5}\')',
        'print(\'{"digest": "00", "remaining_ms": true}\')',
        'print(\'{"digest": "00", "remaining_ms": 1000, "more": 1}\')',
        "print('{\"refused\": \"approval_used\"' + ' ' * 9000 + '}'); import time; time.sleep(100)",
        "raise SystemExit(1)",
        "import os; os.kill(os.getpid(), 9)",
    ],
)
def test_whatever_else_it_says_is_a_no(tmp_path: Path, code: str) -> None:
    asked = verification(tmp_path, code)
    assert asked.present(RECORD, 3) is None
    assert verdict(asked, 4) == Verdict(Reason.APPROVAL_UNANSWERED, 3)
    asked.close()


def test_silence_is_a_no_and_the_silent_one_is_killed(tmp_path: Path) -> None:
    asked = verification(tmp_path, "import time; time.sleep(100)", answer_ns=S)
    assert asked.present(RECORD, 10 * S) is None
    child = asked._child
    assert child is not None
    assert asked.poll(11 * S) is None
    assert asked.poll(11 * S + 1) == Verdict(Reason.APPROVAL_UNANSWERED, 10 * S)
    assert child.wait(30) == -9
    asked.close()


def test_an_answer_lasts_no_longer_than_an_approval_may(tmp_path: Path) -> None:
    asked = verification(tmp_path, """print('{"digest": "00", "remaining_ms": 1' + '0' * 30 + '}')""")
    assert asked.present(RECORD, 5) is None
    assert verdict(asked, 9) == Verdict(None, 5, "00", 5 + CART.longest_approval_ns)


def test_approvals_are_verified_one_after_another_and_so_many_wait(tmp_path: Path) -> None:
    asked = verification(tmp_path, 'print(\'{"digest": "00", "remaining_ms": 1000}\')')
    for at in range(1 + MOST_QUEUED):
        assert asked.present(RECORD, at) is None
    assert asked.present(RECORD, 9) is Reason.APPROVAL_BUSY
    came = []
    for at in range(1 + MOST_QUEUED):
        came.append(verdict(asked, 100 + at).presented_ns)
        until_dead(asked)
    assert came == list(range(1 + MOST_QUEUED))
    assert asked.poll(200) is None


def until_dead(asked: Verification) -> None:
    end = time.monotonic() + 30
    while asked._doomed and time.monotonic() < end:
        asked._doomed.reap()
        time.sleep(0.005)


def test_beside_one_that_does_not_end_none_is_started(tmp_path: Path) -> None:
    asked = verification(tmp_path)
    stuck = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    asked._doomed._children.append(stuck)  # as one in an uninterruptible sleep
    assert asked.present(RECORD, 0) is Reason.APPROVAL_BUSY
    stuck.communicate()
    assert asked.present(RECORD, 0) is None
    asked.close()


def test_what_waits_is_dropped_when_none_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = verification(tmp_path, "pass")
    for at in range(3):
        assert asked.present(RECORD, at) is None
    asked._command = ("/no/such/program",)
    assert verdict(asked, 9).refused is Reason.APPROVAL_UNANSWERED
    assert asked.poll(10) is None
    assert not asked._queue
    assert asked.present(RECORD, 11) in (Reason.APPROVAL_UNANSWERED, Reason.APPROVAL_BUSY)
    monkeypatch.setattr(
        "edge_runtime.guard.motion_gate.verification.os.write", lambda fd, data: len(data) - 1
    )
    until_dead(asked)
    assert asked.present(RECORD, 12) is Reason.APPROVAL_UNANSWERED
    asked.close()


def run(question: Any) -> "subprocess.CompletedProcess[bytes]":
    data = question if isinstance(question, bytes) else json.dumps(question).encode()
    return subprocess.run(COMMAND, input=data, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "question", [b"", b"{", b"[]", {"record": {}}, {"record": 1, "more": 2}, b"\xff", b"[" * 60_000]
)
def test_a_question_that_is_none_is_one_sentence(question: Any) -> None:
    came = run(question)
    assert came.returncode == 1
    assert came.stdout == b""
    assert came.stderr.decode().startswith("cannot verify the approval: ")
    assert came.stderr.count(b"\n") == 1


def test_a_folder_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    came = run(
        {
            "record": approval(wall_ms()),
            "device": DEVICE,
            "risky": ["tip"],
            "longest_ms": 600_000,
            "keys": {"lead": public_hex(KEY)},
            "used": str(tmp_path / "missing"),
        }
    )
    assert (came.returncode, came.stdout) == (1, b"")
    assert b"No such file or directory" in came.stderr


def test_an_answer_lasts_as_long_as_it_says(tmp_path: Path) -> None:
    asked = verification(tmp_path, """print('{"digest": "00", "remaining_ms": 1}')""")
    assert asked.present(RECORD, 5) is None
    assert verdict(asked, 9) == Verdict(None, 5, "00", 5 + MS)


def test_no_answer_lasts_beyond_what_a_time_can_be(tmp_path: Path) -> None:
    asked = verification(tmp_path, """print('{"digest": "00", "remaining_ms": 600000}')""")
    assert asked.present(RECORD, (1 << 62) - 7) is None
    assert verdict(asked, (1 << 62) - 7) == Verdict(None, (1 << 62) - 7, "00", 1 << 62)


def test_what_the_verifier_is_asked(tmp_path: Path) -> None:
    asked_for = tmp_path / "asked"
    code = f"import sys, pathlib; pathlib.Path({str(asked_for)!r}).write_text(sys.stdin.read())"
    asked = verification(tmp_path, code)
    assert asked.present(RECORD, 0) is None
    verdict(asked, 0)
    text = asked_for.read_text()
    question = json.loads(text)
    assert question.keys() == {"record", "device", "risky", "longest_ms", "keys", "used"}
    assert '"longest_ms": 600000,' in text
    assert (question["device"], question["risky"], question["used"]) == (DEVICE, ["tip"], str(tmp_path))
    asked.close()


def test_the_verifier_is_told_its_parent_and_is_not_heard(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "told"
    code = (
        f"import os, sys, pathlib; pathlib.Path({str(told)!r}).write_text(os.environ['EDGE_RUNTIME_PARENT']);"
        "print('a word', file=sys.stderr)"
    )
    asked = verification(tmp_path, code)
    assert asked.present(RECORD, 0) is None
    verdict(asked, 0)
    asked.close()
    assert told.read_text() == str(os.getpid())
    assert capfd.readouterr() == ("", "")


def test_a_question_that_no_pipe_holds_is_not_asked_in_part(tmp_path: Path) -> None:
    keys = {f"k{at}": public_hex(KEY) for at in range(4000)}
    asked = Verification(Approvers(keys, tmp_path, S), CART, DEVICE, COMMAND)
    assert asked.present(RECORD, 0) is Reason.APPROVAL_UNANSWERED
    asked.close()


@pytest.mark.parametrize(("more", "refused"), [("", None), ("x", Reason.APPROVAL_UNANSWERED)])
def test_an_answer_may_be_as_long_as_it_may_and_counts_when_it_is_whole(
    tmp_path: Path, more: str, refused: Reason | None
) -> None:
    """A verdict is not read out of a part of the answer."""
    code = (
        'import sys, time; answer = \'{"digest": "00", "remaining_ms": 1000}\'.ljust(4096);'
        f"sys.stdout.write(answer); sys.stdout.flush(); time.sleep(0.3); sys.stdout.write({more!r})"
    )
    asked = verification(tmp_path, code)
    assert asked.present(RECORD, 0) is None
    assert verdict(asked, 0).refused is refused
    asked.close()
