"""The folder between the uplink and updates: whole files, bounded reading, a thread that outlives a bad disk."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.protocol.update import MAX_ENVELOPE_BYTES
from edge_runtime.uplink.update_files import MOST_HELD, FoundReports, SealedReport, UpdateFiles
from tests.rigs.brokers import wait_until


class Folder:
    """A folder of updates with the thread that looks after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[tuple[SealedReport, ...]] = []
        self.terminal: tuple[int, ...] = ()
        self.files = UpdateFiles(path, self._tell, look_s=0.02)

    def _tell(self, found: FoundReports) -> None:
        self.found.append(found.reports)
        self.terminal = found.terminal

    def seal(self, number: int, kind: str, sealed: bytes = b"{}") -> Path:
        """Leave a report as updates does: whole or not at all."""
        reports = self.path / "reports"
        reports.mkdir(parents=True, exist_ok=True)
        path = reports / f"{number:016d}.{kind}"
        path.with_suffix(".new").write_bytes(sealed)
        return path.with_suffix(".new").replace(path)

    def newest(self) -> list[tuple[int, bool]]:
        return [(report.number, report.terminal) for report in self.found[-1]] if self.found else []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path / "updates")
    yield made
    made.files.stop()


def test_a_desired_state_is_written_whole_and_only_when_it_changed(folder: Folder) -> None:
    path = folder.path / "desired"
    folder.files.keep_desired(b"one")
    assert wait_until(path.exists)
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o600
    first = path.stat().st_ino
    folder.files.keep_desired(b"one")
    folder.seal(1, "progress")
    assert wait_until(lambda: bool(folder.found))  # a turn later
    assert path.stat().st_ino == first
    folder.files.keep_desired(b"two")
    assert wait_until(lambda: path.read_bytes() == b"two")
    assert [entry.name for entry in folder.path.iterdir() if entry.name.startswith(".")] == []


def test_a_restart_does_not_write_what_lies_there_already(tmp_path: Path) -> None:
    (tmp_path / "desired").write_bytes(b"one")
    first = (tmp_path / "desired").stat().st_ino
    again = Folder(tmp_path)
    again.files.keep_desired(b"one")
    again.seal(1, "terminal")
    assert wait_until(lambda: bool(again.found))
    again.files.stop()
    assert (tmp_path / "desired").stat().st_ino == first


def test_reports_are_found_the_terminal_ones_first(folder: Folder) -> None:
    folder.seal(1, "progress")
    folder.seal(2, "terminal")
    folder.seal(3, "progress")
    assert wait_until(lambda: folder.newest() == [(2, True), (1, False), (3, False)])
    folder.seal(2, "terminal").unlink()
    assert wait_until(lambda: folder.newest() == [(1, False), (3, False)])


def test_no_news_is_not_told(folder: Folder) -> None:
    folder.seal(1, "terminal")
    assert wait_until(lambda: folder.newest() == [(1, True)])
    told = len(folder.found)
    folder.files.keep_desired(b"one")
    assert wait_until((folder.path / "desired").exists)
    assert len(folder.found) == told


def test_what_the_broker_has_is_deleted_and_only_progress(folder: Folder) -> None:
    progress, terminal = folder.seal(1, "progress"), folder.seal(2, "terminal")
    assert wait_until(lambda: len(folder.newest()) == 2)
    folder.files.broker_has((1, 2, 7))
    assert wait_until(lambda: not progress.exists())
    assert wait_until(lambda: folder.newest() == [(2, True)])
    assert terminal.exists()


def test_what_is_no_report_is_left_alone(folder: Folder) -> None:
    reports = folder.path / "reports"
    folder.seal(1, "progress", b"")
    folder.seal(2, "progress", b"x" * (MAX_ENVELOPE_BYTES + 1))
    for name in ("7.progress", ".0000000000000008.progress", "0000000000000009.other", "notes"):
        (reports / name).write_bytes(b"{}")
    (reports / "0000000000000003.terminal").mkdir()
    os.mkfifo(reports / "0000000000000005.note")
    folder.seal(4, "progress", b"x" * MAX_ENVELOPE_BYTES)
    assert wait_until(lambda: folder.newest() == [(4, False)])
    assert len(list(reports.iterdir())) == 9


def test_of_a_heap_those_are_read_that_are_asked_for(folder: Folder) -> None:
    for number in range(1, MOST_HELD + 11):
        folder.seal(number, "terminal")
    assert wait_until(lambda: len(folder.newest()) == MOST_HELD)
    assert wait_until(lambda: folder.terminal == tuple(range(1, MOST_HELD + 11)))
    folder.files.hold(range(MOST_HELD - 4, MOST_HELD + 11))
    expected = [*range(1, MOST_HELD - 14), *range(MOST_HELD - 4, MOST_HELD + 11)]
    assert wait_until(lambda: folder.newest() == [(number, True) for number in sorted(expected)][:MOST_HELD])


def test_a_heap_of_reports_is_read_from_the_oldest_on(folder: Folder) -> None:
    for number in range(1, MOST_HELD + 11):
        folder.seal(number, "progress")
        folder.seal(1000 + number, "terminal")
    expected = [(1000 + number, True) for number in range(1, MOST_HELD + 1)]
    expected += [(number, False) for number in range(1, MOST_HELD + 1)]
    assert wait_until(lambda: folder.newest() == expected)
    folder.files.broker_has(range(1, 11))
    assert wait_until(lambda: folder.newest()[MOST_HELD] == (11, False))
    assert folder.newest()[-1] == (MOST_HELD + 10, False)


def test_a_folder_that_cannot_be_written_is_said_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "updates").write_text("a file where the folder should be")
    folder = Folder(tmp_path / "updates")
    folder.files.keep_desired(b"one")
    assert wait_until(lambda: folder.files.trouble is not None)
    assert "cannot be written down" in str(folder.files.trouble)
    (tmp_path / "updates").unlink()
    assert wait_until((tmp_path / "updates" / "desired").exists)
    assert wait_until(lambda: folder.files.trouble is None)
    folder.files.stop()
