"""Uploads: only what a decision let go, resumed where they stood, whole or not at all; no name becomes a path."""

import contextlib
import hashlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from fleet_server.evidence import (
    EvidenceBusy,
    EvidenceStore,
    EvidenceTooLong,
    NotExpected,
    QuotaFull,
    StorageFull,
    Upload,
    WrongDigest,
    WrongOffset,
)
from fleet_server.evidence.folder import EvidenceFolder
from fleet_server.settings import EvidenceSettings
from fleet_server.storage import Store
from fleet_server.storage.event_tables import EvidenceRow
from tests.rigs.deliveries import FakeClock

CROP = bytes(range(256)) * 40
SHA = hashlib.sha256(CROP).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evidence").mkdir()
    return tmp_path / "evidence"


@pytest.fixture
def evidence(store: Store, folder: Path) -> EvidenceStore:
    _expect(store, "dev-1", SHA, len(CROP))
    return EvidenceStore(folder, store, EvidenceSettings(keep_free_bytes=0), FakeClock())


def _expect(store: Store, device: str, sha256: str, size: int) -> None:
    with store.write() as session:
        session.add(
            EvidenceRow(
                device=device,
                sha256=sha256,
                bytes=size,
                mode="crop",
                state="expected",
                received=0,
                changed_ms=1,
            )
        )


def _row(store: Store, device: str = "dev-1") -> tuple[str, int]:
    with store.read() as session:
        row = session.get_one(EvidenceRow, (device, SHA))
        return row.state, row.received


def test_an_upload_in_pieces(evidence: EvidenceStore, store: Store, folder: Path) -> None:
    assert evidence.status("dev-1", SHA) == Upload(0, len(CROP), complete=False)
    assert evidence.append("dev-1", SHA, 0, CROP[:100]) == Upload(100, len(CROP), complete=False)
    assert _row(store) == ("partial", 100)
    assert evidence.append("dev-1", SHA, 100, CROP[100:5000]).offset == 5000
    assert evidence.append("dev-1", SHA, 5000, CROP[5000:]).complete

    assert _row(store) == ("complete", len(CROP))
    assert evidence.path("dev-1", SHA).read_bytes() == CROP
    with evidence.reading("dev-1", SHA) as descriptor:
        assert os.read(descriptor, 20_000) == CROP
    assert list((folder / "partial").iterdir()) == []
    assert evidence.path("dev-1", SHA).stat().st_mode & 0o077 == 0


def test_a_complete_upload_takes_no_more_and_stays(evidence: EvidenceStore) -> None:
    evidence.append("dev-1", SHA, 0, CROP)
    assert evidence.append("dev-1", SHA, 0, b"other") == Upload(len(CROP), len(CROP), complete=True)
    assert evidence.path("dev-1", SHA).read_bytes() == CROP


@pytest.mark.parametrize("offset", [0, 50, 150, -1, 1 << 60])
def test_a_piece_from_elsewhere_says_where_to_go_on(evidence: EvidenceStore, offset: int) -> None:
    evidence.append("dev-1", SHA, 0, CROP[:100])
    with pytest.raises(WrongOffset) as caught:
        evidence.append("dev-1", SHA, offset, CROP[:10])
    assert caught.value.offset == 100
    assert evidence.status("dev-1", SHA).offset == 100


def test_other_bytes_are_thrown_away(evidence: EvidenceStore, store: Store) -> None:
    with pytest.raises(WrongDigest):
        evidence.append("dev-1", SHA, 0, bytes(len(CROP)))
    assert evidence.status("dev-1", SHA) == Upload(0, len(CROP), complete=False)
    assert _row(store) == ("expected", 0)
    assert evidence.append("dev-1", SHA, 0, CROP).complete


def test_more_than_the_decision_lets_go_is_refused(evidence: EvidenceStore) -> None:
    evidence.append("dev-1", SHA, 0, CROP[:-1])
    with pytest.raises(EvidenceTooLong):
        evidence.append("dev-1", SHA, len(CROP) - 1, CROP[-1:] + b"x")
    assert evidence.append("dev-1", SHA, len(CROP) - 1, CROP[-1:]).complete


@pytest.mark.parametrize(
    ("device", "sha256"),
    [
        ("dev-2", SHA),
        ("dev-1", "0" * 64),
        ("dev-1", SHA.upper()),
        ("dev-1", SHA + "\n"),
        ("dev-1", "../" * 21 + "x"),
        ("dev-1", "/etc/passwd"),
        ("dev-1", SHA[:63] + "\0"),
        ("dev-1", ""),
        ("../dev-1", SHA),
        ("dev-1\n", SHA),
        ("", SHA),
    ],
)
def test_nothing_else_is_expected_and_nothing_is_written(
    evidence: EvidenceStore, folder: Path, device: str, sha256: str
) -> None:
    for attempt in (
        lambda: evidence.status(device, sha256),
        lambda: evidence.append(device, sha256, 0, CROP),
        lambda: evidence.path(device, sha256),
    ):
        with pytest.raises(NotExpected) as caught:
            attempt()
        assert caught.value.status == 403
    assert list(folder.rglob("*")) == []


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_leads_out_of_the_folder(device: str, sha256: str) -> None:
    folder = EvidenceFolder(Path("/evidence"))
    try:
        path = folder.partial(device, sha256)
    except NotExpected:
        return
    assert path.parent == Path("/evidence/partial")


def test_a_link_in_the_way_is_not_followed(evidence: EvidenceStore, folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    (folder / "partial").mkdir()
    (folder / "partial" / f"dev-1.{SHA}").symlink_to(victim)
    with pytest.raises((StorageFull, WrongOffset)):
        evidence.append("dev-1", SHA, 0, CROP)
    assert victim.read_bytes() == b""


def test_two_devices_with_the_same_crop_do_not_disturb_each_other(
    evidence: EvidenceStore, store: Store
) -> None:
    _expect(store, "dev-2", SHA, len(CROP))
    evidence.append("dev-1", SHA, 0, CROP[:100])
    evidence.append("dev-2", SHA, 0, CROP[:7000])
    assert evidence.append("dev-1", SHA, 100, CROP[100:]).complete
    # what is whole already need not be sent again
    assert evidence.status("dev-2", SHA).complete
    assert _row(store, "dev-2") == ("complete", len(CROP))


def test_a_crash_between_file_and_row_is_healed(evidence: EvidenceStore, store: Store) -> None:
    evidence.append("dev-1", SHA, 0, CROP)
    with store.write() as session:
        row = session.get_one(EvidenceRow, ("dev-1", SHA))
        row.state, row.received = "partial", 100
    assert evidence.status("dev-1", SHA).complete
    assert _row(store) == ("complete", len(CROP))


def test_the_file_knows_how_much_is_here(evidence: EvidenceStore, store: Store, folder: Path) -> None:
    evidence.append("dev-1", SHA, 0, CROP[:100])
    with (folder / "partial" / f"dev-1.{SHA}").open("ab") as file:  # a piece whose row was never written
        file.write(CROP[100:300])
    assert evidence.status("dev-1", SHA).offset == 300
    assert evidence.append("dev-1", SHA, 300, CROP[300:]).complete


def _left_without_a_name(evidence: EvidenceStore, folder: Path, data: bytes) -> None:
    """As a server that was killed between the last byte and the name leaves it."""
    evidence.append("dev-1", SHA, 0, CROP[:100])
    (folder / "partial" / f"dev-1.{SHA}").write_bytes(data)


def test_what_is_here_without_a_name_is_finished_before_it_is_called_here(
    evidence: EvidenceStore, store: Store, folder: Path
) -> None:
    _left_without_a_name(evidence, folder, CROP)
    assert evidence.status("dev-1", SHA) == Upload(len(CROP), len(CROP), complete=True)
    assert (folder / SHA[:2] / SHA).read_bytes() == CROP
    assert _row(store) == ("complete", len(CROP))


@pytest.mark.parametrize("data", [bytes(len(CROP)), CROP + b"x"])
def test_other_bytes_without_a_name_begin_anew(
    evidence: EvidenceStore, store: Store, folder: Path, data: bytes
) -> None:
    _left_without_a_name(evidence, folder, data)
    assert evidence.status("dev-1", SHA) == Upload(0, len(CROP), complete=False)
    assert _row(store) == ("expected", 0)
    assert evidence.append("dev-1", SHA, 0, CROP).complete


def test_nothing_without_a_name_is_called_here_while_it_cannot_be_named(
    evidence: EvidenceStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _left_without_a_name(evidence, folder, CROP)
    with evidence._folder.growing("dev-1", SHA), pytest.raises(EvidenceBusy):
        evidence.status("dev-1", SHA)

    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StorageFull, match="Input/output"):
            evidence.status("dev-1", SHA)
    assert evidence.status("dev-1", SHA).complete


def test_only_one_request_writes(evidence: EvidenceStore) -> None:
    folder = evidence._folder
    with folder.growing("dev-1", SHA), pytest.raises(EvidenceBusy):
        evidence.append("dev-1", SHA, 0, CROP)
    assert evidence.append("dev-1", SHA, 0, CROP).complete


def test_concurrent_uploads_of_one_piece_end_whole(evidence: EvidenceStore) -> None:
    def upload() -> None:
        is_here = False
        while not is_here:
            with contextlib.suppress(WrongOffset, EvidenceBusy):
                standing = evidence.status("dev-1", SHA)
                is_here = standing.complete
                assert is_here == (standing.offset == len(CROP))
                evidence.append("dev-1", SHA, standing.offset, CROP[standing.offset : standing.offset + 500])

    threads = [threading.Thread(target=upload) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert evidence.path("dev-1", SHA).read_bytes() == CROP


def test_the_quota_holds_for_what_began(store: Store, folder: Path) -> None:
    settings = EvidenceSettings(quota_bytes=1 << 20, max_bytes=1 << 20, keep_free_bytes=0)
    evidence = EvidenceStore(folder, store, settings, FakeClock())
    _expect(store, "dev-1", "a" * 64, 700_000)
    _expect(store, "dev-1", "b" * 64, 700_000)
    _expect(store, "dev-1", "c" * 64, 2_000_000)
    evidence.append("dev-1", "a" * 64, 0, b"x")
    assert evidence.used_bytes() == 700_000
    with pytest.raises(QuotaFull):
        evidence.append("dev-1", "b" * 64, 0, b"x")
    with pytest.raises(EvidenceTooLong):
        evidence.append("dev-1", "c" * 64, 0, b"x")
    assert evidence.append("dev-1", "a" * 64, 1, b"x").offset == 2


def test_a_disk_with_too_little_room_is_left_alone(store: Store, folder: Path) -> None:
    _expect(store, "dev-1", SHA, len(CROP))
    evidence = EvidenceStore(folder, store, EvidenceSettings(keep_free_bytes=1 << 60), FakeClock())
    with pytest.raises(StorageFull) as caught:
        evidence.append("dev-1", SHA, 0, CROP)
    assert caught.value.status == 507


def test_a_disk_that_refuses_is_said_in_one_sentence(
    evidence: EvidenceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(StorageFull, match="the disk is full"):
            evidence.append("dev-1", SHA, 0, CROP)
    assert evidence.append("dev-1", SHA, 0, CROP).complete


def test_what_is_forgotten_is_gone_when_nobody_else_needs_it(evidence: EvidenceStore, store: Store) -> None:
    _expect(store, "dev-2", SHA, len(CROP))
    evidence.append("dev-1", SHA, 0, CROP)
    path = evidence.path("dev-1", SHA)
    with store.write() as session:
        evidence.forget(session, "dev-1", SHA)
    assert path.exists()
    with pytest.raises(NotExpected):
        evidence.status("dev-1", SHA)
    with store.write() as session:
        evidence.forget(session, "dev-2", SHA)
        evidence.forget(session, "dev-2", SHA)
    assert not path.exists()
    with store.read() as session:
        assert list(session.scalars(select(EvidenceRow))) == []
