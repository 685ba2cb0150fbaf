"""The latch on disk: whole or as it was, after a kill or a power cut between any two of the steps that write it."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.guard.latch import MAX_BYTES, LatchFile
from edge_runtime.guard.memory import Latch, Record, State
from tests.rigs.guard_bodies import PATIENT
from tests.rigs.guarded import GuardProcess, worker_row
from tests.rigs.latches import CLEAR, LATCHED


@pytest.mark.parametrize("record", [CLEAR, LATCHED])
def test_what_was_written_is_found(record: Record, tmp_path: Path) -> None:
    file = LatchFile(tmp_path / "latch")
    assert file.save(record, permitting=False)
    found = LatchFile(tmp_path / "latch").find()
    assert (found.record, found.why, found.missing) == (record, "", False)
    assert (tmp_path / "latch").stat().st_mode & 0o777 == 0o600


def test_the_file_is_one_that_a_person_can_read(tmp_path: Path) -> None:
    file = LatchFile(tmp_path / "latch")
    assert file.trouble is None
    file.save(LATCHED, permitting=False)
    assert (tmp_path / "latch").read_text(encoding="ascii").splitlines() == [
        "{",
        ' "content": {',
        '  "format": 1,',
        '  "permitting": false,',
        '  "boot_id": "boot-1",',
        '  "latches_ns": [',
        "   1,",
        "   5000000000",
        "  ],",
        '  "latch": {',
        '   "id": "0123456789ab",',
        '   "state": "SAFE",',
        '   "causes": [',
        '    "worker_hung",',
        '    "estop"',
        "   ],",
        '   "since_ns": 5000000000',
        "  }",
        " },",
        ' "crc": 790349244',
        "}",
    ]


def test_the_first_start_knows_nothing_and_says_that_it_is_the_first(tmp_path: Path) -> None:
    found = LatchFile(tmp_path / "latch").find()
    assert found.record is None
    assert found.missing
    assert found.why == "there is no record of what was latched: acknowledge once that it is safe"


def test_a_guard_that_ended_while_motion_was_permitted_can_vouch_for_nothing(tmp_path: Path) -> None:
    file = LatchFile(tmp_path / "latch")
    file.save(CLEAR, permitting=True)
    found = file.find()
    assert found.record is None
    assert not found.missing
    assert found.why == "the last guard ended while motion was permitted"
    file.save(CLEAR, permitting=False)
    assert file.find().record == CLEAR


@pytest.mark.parametrize("at", [0, 1, 40, 200, -2])
def test_one_wrong_byte_is_noticed(at: int, tmp_path: Path) -> None:
    path = tmp_path / "latch"
    LatchFile(path).save(LATCHED, permitting=False)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    found = LatchFile(path).find()
    assert found.record is None
    assert found.why == "the record of what was latched is damaged"


@given(data=st.one_of(st.binary(max_size=200), st.recursive(st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["content", "crc", "format", "latch", "boot_id", "latches_ns", "permitting"]), inner),
    max_leaves=12).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_whatever_lies_there_is_read_without_an_error(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "anything"
    path.write_bytes(data)
    assert LatchFile(path).find().record is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"permitting": 1},
        {"boot_id": 7},
        {"latches_ns": [-1]},
        {"latches_ns": [1.5]},
        {"latches_ns": [1 << 63]},
        {"latch": {"id": "", "state": "SAFE", "causes": [], "since_ns": 1}},
        {"latch": {"id": "a" * 65, "state": "SAFE", "causes": [], "since_ns": 1}},
        {"latch": {"id": "a", "state": "NOMINAL", "causes": [], "since_ns": 1}},
        {"latch": {"id": "a", "state": "SAFE", "causes": ["bad mood"], "since_ns": 1}},
        {"latch": {"id": "a", "state": "SAFE", "causes": [], "since_ns": True}},
    ],
)
def test_a_right_checksum_makes_nonsense_no_record(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "latch"
    LatchFile(path).save(LATCHED, permitting=False)
    change_content(path, change)
    assert LatchFile(path).find().record is None


def change_content(path: Path, change: dict[str, object]) -> None:
    """Write other content, with its right checksum."""
    content = json.loads(path.read_bytes())["content"] | change
    crc = zlib.crc32(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    path.write_text(json.dumps({"content": content, "crc": crc}))


@pytest.mark.parametrize(("identity", "time_ns"), [("a", 0), ("a" * 64, (1 << 63) - 1)])
def test_the_shortest_and_the_longest_of_all_is_a_record(identity: str, time_ns: int, tmp_path: Path) -> None:
    path = tmp_path / "latch"
    LatchFile(path).save(LATCHED, permitting=False)
    latch = {"id": identity, "state": "LOCKOUT", "causes": [], "since_ns": time_ns}
    change_content(path, {"latch": latch, "latches_ns": [time_ns]})
    found = LatchFile(path).find().record
    assert found == Record(Latch(identity, State.LOCKOUT, 0, time_ns), (time_ns,), "boot-1")


def test_a_file_that_is_too_long_or_unreadable_is_none(tmp_path: Path) -> None:
    path = tmp_path / "latch"
    path.write_bytes(b" " * (MAX_BYTES + 1))
    assert LatchFile(path).find().record is None
    path.unlink()
    path.mkdir()
    assert "cannot be read" in LatchFile(path).find().why


def test_a_file_is_read_up_to_its_greatest_length_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "latch"
    LatchFile(path).save(LATCHED, permitting=False)
    whole = path.read_bytes()
    path.write_bytes(whole.ljust(MAX_BYTES))
    assert LatchFile(path).find().record == LATCHED
    path.write_bytes(whole.ljust(MAX_BYTES + 1))
    assert LatchFile(path).find().record is None
    os.truncate(path, 64 << 20)
    tracemalloc.start()
    try:
        assert LatchFile(path).find().record is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_disk_that_takes_nothing_is_said_and_what_was_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LatchFile(tmp_path / "latch")
    assert file.save(CLEAR, permitting=True)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert not file.save(LATCHED, permitting=False)
    assert file.trouble is not None
    assert "No space" in file.trouble
    assert LatchFile(tmp_path / "latch").find().record is None, (
        "the file still says that motion was permitted"
    )
    assert file.save(LATCHED, permitting=False)
    assert file.trouble is None


def test_what_is_there_already_costs_no_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LatchFile(tmp_path / "latch")
    file.save(LATCHED, permitting=False)

    def never(_descriptor: int) -> None:
        raise AssertionError

    monkeypatch.setattr(os, "fsync", never)
    assert file.save(LATCHED, permitting=False)


_KILLED = """
    import os, signal, sys
    from pathlib import Path
    from edge_runtime.guard.latch import LatchFile
    from tests.rigs.latches import CLEAR, LATCHED

    path, at = Path(sys.argv[1]), int(sys.argv[2])
    file = LatchFile(path)
    file.save(CLEAR, permitting=True)
    steps = 0

    def counted(event, arguments):  # every audited call of the interpreter about this folder is a step
        global steps
        if event == "fsync" or event.startswith(("open", "os.")) and str(path.parent) in str(arguments):
            steps += 1
            if steps == at:
                os.kill(os.getpid(), signal.SIGKILL)

    real = os.fsync
    def fsync(descriptor):
        counted("fsync", ())
        real(descriptor)
        counted("fsync", ())
    os.fsync = fsync
    sys.addaudithook(counted)
    file.save(LATCHED, permitting=False)
    print(steps)
"""


def test_a_kill_between_any_two_steps_leaves_a_file_that_permits_nothing(tmp_path: Path) -> None:
    outcomes, at = [], 0
    while True:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_KILLED), str(folder / "latch"), str(at)],
            capture_output=True,
            text=True,
            check=False,
        )
        record = LatchFile(folder / "latch").find().record
        assert record in (None, LATCHED), (
            "before the rename motion was permitted, so nobody can say; then it is latched"
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        outcomes.append(record)
    assert record == LATCHED
    assert outcomes.count(None) >= 3
    assert outcomes.count(LATCHED) >= 1
    assert int(done.stdout) == len(outcomes), "each step was killed once"


@dataclass
class Disk:
    """What a power cut may leave of one folder: only what was flushed is certain, and without it there is no order.

    Attributes:
        before: content of each name that was on the disk, for good, before the first step.
        steps: what was done, one after the other: `flush` of a file, `rename` of one, `flush folder`.
        contents: of a file that was renamed, when it was.
    """

    before: dict[str, bytes]
    steps: list[tuple[str, ...]] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)

    def after_a_cut(self, done: int) -> Iterator[dict[str, bytes]]:
        """Every folder that a cut after so many steps may leave."""
        certain, flushed = dict(self.before), set[str]()
        renamed: list[tuple[str, ...]] = []
        for step in self.steps[:done]:
            if step[0] == "flush":
                flushed.add(step[1])
            elif step[0] == "rename":
                renamed.append(step)
            else:
                certain |= {target: self.contents[source] for _, source, target in renamed}
                renamed = []
        yield certain
        # A rename may have reached the disk all the same, and before the data of its file.
        for _, source, target in renamed:
            whole = self.contents[source]
            for length in [len(whole)] if source in flushed else range(len(whole) + 1):
                yield certain | {target: whole[:length]}


def recorded(path: Path, record: Record, *, permitting: bool, patch: pytest.MonkeyPatch) -> Disk:
    """The steps that a save takes, by what the interpreter and the kernel are asked for."""
    disk, real = Disk({path.name: path.read_bytes()}), os.fsync
    listening = [True]

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "os.rename" and str(path.parent) in str(arguments):
            source, target = Path(str(arguments[0])), Path(str(arguments[1]))
            disk.contents[source.name] = source.read_bytes()
            disk.steps.append(("rename", source.name, target.name))

    def fsync(descriptor: int) -> None:
        real(descriptor)
        name = Path(f"/proc/self/fd/{descriptor}").readlink()
        disk.steps.append(("flush folder",) if name == path.parent else ("flush", name.name))

    sys.addaudithook(heard)  # for good; it listens while this function runs
    with patch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        assert LatchFile(path).save(record, permitting=permitting)
    listening.clear()
    return disk


WAYS = [(CLEAR, True), (CLEAR, False), (LATCHED, False)]


@pytest.mark.parametrize("before", WAYS)
@pytest.mark.parametrize("after", WAYS)
def test_a_power_cut_between_any_two_steps_leaves_the_old_file_or_the_new_one_whole(
    before: tuple[Record, bool], after: tuple[Record, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "latch"
    LatchFile(path).save(before[0], permitting=before[1])
    old = path.read_bytes()
    disk = recorded(path, after[0], permitting=after[1], patch=monkeypatch)
    new = path.read_bytes()
    assert [step[0] for step in disk.steps] == ["flush", "rename", "flush folder"]
    for done in range(len(disk.steps) + 1):
        assert {left["latch"] for left in disk.after_a_cut(done)} <= {old, new}
    assert [left["latch"] for left in disk.after_a_cut(len(disk.steps))] == [new]


@pytest.mark.parametrize("forgotten", ["flush", "flush folder"])
def test_without_either_flush_a_power_cut_leaves_a_part_of_it_or_what_was_said_to_be_replaced(
    forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above can fail."""
    path = tmp_path / "latch"
    LatchFile(path).save(CLEAR, permitting=True)
    old = path.read_bytes()
    disk = recorded(path, LATCHED, permitting=False, patch=monkeypatch)
    disk.steps = [step for step in disk.steps if step[0] != forgotten]
    left = {left["latch"] for at in range(len(disk.steps) + 1) for left in disk.after_a_cut(at)}
    if forgotten == "flush":
        assert left - {old, path.read_bytes()}
    else:
        assert old in {left["latch"] for left in disk.after_a_cut(len(disk.steps))}


_GUARD = """
    import os, signal, sys
    from pathlib import Path
    from edge_runtime.guard.loop import Guard
    from edge_runtime.guard.settings import parse
    from edge_runtime.lifeline import die_with_parent

    die_with_parent(signal.SIGKILL)
    at = int(sys.argv[2])
    guard = Guard(parse(Path(sys.argv[1]).read_bytes()), dict(os.environ))
    steps = -1

    def counted(event, arguments):  # every audited call of the interpreter from the fault on is a step
        global steps
        if steps >= 0:
            steps += 1
            if steps == at:
                os.kill(os.getpid(), signal.SIGKILL)

    def broken(number, frame):
        global steps
        pid = next(one["pid"] for one in guard.status(0)["workers"])
        os.kill(pid, signal.SIGKILL)
        steps = 0

    real = os.fsync
    def fsync(descriptor):
        counted("fsync", ())
        real(descriptor)
        counted("fsync", ())
    os.fsync = fsync
    sys.addaudithook(counted)
    signal.signal(signal.SIGUSR1, broken)
    guard.run()
"""


def guard_killed_at(step: int, folder: Path) -> bool:
    """A guard that moves, whose worker dies, and that is killed so many steps later; whether it lived to latch."""
    folder.mkdir()
    rows = [worker_row("perception", deadline_ms=1000)]
    guard = GuardProcess(folder, PATIENT, rows, changes={"arms_itself": True})
    (folder / "settings").write_text(json.dumps(guard.settings()))
    command = [sys.executable, "-c", textwrap.dedent(_GUARD), str(folder / "settings"), str(step)]
    guard.process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        guard.reach("NOMINAL")
        guard.process.send_signal(signal.SIGUSR1)
        while guard.process.poll() is None:
            status = guard.ask(ask="status")
            if status is not None and status["state"] == "SAFE":
                return True
        assert guard.process.returncode == -signal.SIGKILL
        return False
    finally:
        guard.close()


@pytest.mark.parametrize(
    "steps", [[1, 8], pytest.param(list(range(1, 100)), marks=[pytest.mark.trial, pytest.mark.timeout(900)])]
)
def test_a_guard_that_is_killed_at_any_step_after_a_fault_leaves_no_file_that_permits(
    steps: list[int], tmp_path: Path
) -> None:
    found: list[Record | None] = []
    for step in steps:
        lived = guard_killed_at(step, tmp_path / str(step))
        found.append(LatchFile(tmp_path / str(step) / "latch.json").find().record)
        assert found[-1] is None or found[-1].latch is not None, "motion was permitted, and nobody says so"
        if lived:
            break
    assert None in found, "before the latch is on disk nobody can vouch for the body"
    assert steps == [1, 8] or any(record is not None for record in found)
