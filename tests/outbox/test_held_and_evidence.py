"""What waits for a person, and the crops that wait for a person or an upload."""

from pathlib import Path
from typing import Any

import pytest

from edge_runtime.gate.crops import store_crop
from edge_runtime.outbox import EvidenceFile, NotAccepted, Outbox, OutboxSettings, Put, PutResult, Submission
from edge_runtime.protocol.vocabulary import DecisionKind
from edge_runtime.state import StateDirectory
from tests.rigs.outbox import BootClock, hand_out, key_of, opened, quiet_settings, receipt, submission


@pytest.fixture
def clock() -> BootClock:
    return BootClock()


def crop(folder: Path, number: int, size: int = 1000) -> EvidenceFile:
    folder.mkdir(exist_ok=True)
    found = EvidenceFile(f"{number:064x}", size)
    (folder / f"{found.sha256}.jpg").write_bytes(bytes(size))
    return found


def crops(folder: Path) -> list[int]:
    return sorted(int(entry.stem, 16) for entry in folder.iterdir())


def hold(number: int, severity: int = 1, **more: Any) -> Submission:
    return submission(number, severity, kind=DecisionKind.HOLD, **more)


def test_held_events_have_a_quota_of_their_own(tmp_path: Path, clock: BootClock) -> None:
    limits = quiet_settings(held_quota_bytes=64 * 1024)
    with opened(tmp_path / "outbox", clock, limits) as outbox:
        for n in range(20):
            outbox.put([hold(n, n % 2, body=bytes(4096 - 128))])
        assert [entry.key for entry in outbox.held(100)][:3] == [key_of(1), key_of(3), key_of(5)]
        status = outbox.status()
        assert (status.held, status.gate["held_evicted"]) == (16, 4)
        assert status.held_bytes <= 64 * 1024
        assert status.ledger.accepted == 0
        outbox.put([hold(n, 2, body=bytes(4096 - 128)) for n in range(50, 66)])
        assert outbox.put([hold(99, 1)])[0] == PutResult(Put.NOT_ACCEPTED, NotAccepted.FULL)


def test_held_events_expire(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path / "outbox", clock) as outbox:
        outbox.put([hold(1, ttl_s=10), hold(2, ttl_s=100)])
        clock.pass_s(11)
        outbox.upkeep_now()
        assert [(entry.key, entry.left_ms) for entry in outbox.held(10)] == [(key_of(2), 89_000)]
        assert outbox.status().gate["held_expired"] == 1


def test_a_release_that_the_queue_refuses_stays_held(tmp_path: Path, clock: BootClock) -> None:
    limits = quiet_settings(quota_bytes=64 * 1024, reserve_share=0)
    with opened(tmp_path / "outbox", clock, limits) as outbox:
        outbox.put([submission(n, 3, body=bytes(4096 - 128)) for n in range(16)])
        outbox.put([hold(50)])
        assert outbox.release(key_of(50), submission(51)) == PutResult(Put.NOT_ACCEPTED, NotAccepted.FULL)
        assert len(outbox.held(10)) == 1
        point = outbox.sync_point()
        hand_out(outbox)
        outbox.settle(point.epoch, receipt(point.epoch, high=16))
        assert outbox.release(key_of(50), submission(51)) == PutResult(Put.ACCEPTED)
        assert outbox.held(10) == []


def test_a_crop_goes_its_way_with_its_event(tmp_path: Path, clock: BootClock) -> None:
    folder = tmp_path / "evidence"
    with opened(tmp_path / "outbox", clock) as outbox:
        outbox.put(
            [submission(n, ttl_s=10 if n == 3 else 3600, evidence=crop(folder, n)) for n in range(1, 4)]
        )
        assert outbox.evidence_due(10) == []
        clock.pass_s(11)
        outbox.upkeep_now()
        assert crops(folder) == [1, 2]  # the third expired with its event
        point = outbox.sync_point()
        hand_out(outbox)
        outbox.settle(point.epoch, receipt(point.epoch, accepted=[(1, 1)]))
        (due,) = outbox.evidence_due(10)
        assert int(due.sha256, 16) == 1
        outbox.evidence_failed(due.sha256, True)
        assert crops(folder) == [2]
        evidence = outbox.status().evidence
        assert (evidence["waiting"], evidence["due"], evidence["bytes"]) == (1, 0, 1000)
        assert (evidence["expired"], evidence["failed"]) == (1, 1)


def test_an_upload_that_fails_is_tried_again_later_and_not_for_ever(tmp_path: Path, clock: BootClock) -> None:
    folder = tmp_path / "evidence"
    with opened(tmp_path / "outbox", clock, quiet_settings(evidence_keep_s=3600)) as outbox:
        outbox.put([submission(1, ttl_s=60, evidence=crop(folder, 1))])
        point = outbox.sync_point()
        hand_out(outbox)
        outbox.settle(point.epoch, receipt(point.epoch, high=1))
        for pause in (10, 20, 40):
            (due,) = outbox.evidence_due(10)
            outbox.evidence_failed(due.sha256, False)
            assert outbox.evidence_due(10) == []
            clock.pass_s(pause)
        assert len(outbox.evidence_due(10)) == 1
        clock.pass_s(3600)
        outbox.upkeep_now()
        assert crops(folder) == []


def test_two_events_with_one_crop(tmp_path: Path, clock: BootClock) -> None:
    folder = tmp_path / "evidence"
    with opened(tmp_path / "outbox", clock) as outbox:
        shared = crop(folder, 7)
        outbox.put([submission(1, ttl_s=10, evidence=shared), submission(2, evidence=shared)])
        clock.pass_s(11)
        outbox.upkeep_now()
        assert crops(folder) == [7]
        point = outbox.sync_point()
        hand_out(outbox)
        outbox.settle(point.epoch, receipt(point.epoch, high=2))
        outbox.evidence_done(shared.sha256)
        assert crops(folder) == []


def test_the_spool_is_bounded_and_the_least_severe_give_way(tmp_path: Path, clock: BootClock) -> None:
    folder = tmp_path / "evidence"
    with opened(tmp_path / "outbox", clock, quiet_settings(evidence_quota_bytes=64 * 1024)) as outbox:
        outbox.put([submission(n, n % 2, evidence=crop(folder, n, 16 * 1024)) for n in range(4)])
        outbox.put([submission(10, 1, evidence=crop(folder, 10, 16 * 1024))])
        assert crops(folder) == [1, 2, 3, 10]
        outbox.put([submission(11, 1, evidence=crop(folder, 11, 32 * 1024))])
        assert crops(folder) == [3, 10, 11]
        outbox.put([submission(12, 0, evidence=crop(folder, 12))])  # finds no room: the event goes without it
        assert outbox.status().evidence["evicted"] == 4
        assert outbox.sync_point().ledger.queued == 7


def test_crops_that_nothing_names_are_swept_after_two_looks(tmp_path: Path, clock: BootClock) -> None:
    folder = tmp_path / "evidence"
    crop(folder, 1)
    (folder / "holiday.jpg").write_bytes(b"not ours")
    with opened(tmp_path / "outbox", clock) as outbox:
        outbox.put([submission(2, evidence=crop(folder, 2))])
        outbox.upkeep_now()
        late = crop(folder, 3)  # written, and its event submitted between the looks
        clock.pass_s(601)
        outbox.put([submission(3, evidence=late)])
        outbox.upkeep_now()
        assert sorted(entry.name for entry in folder.iterdir())[-1] == "holiday.jpg"
        (folder / "holiday.jpg").unlink()
        assert crops(folder) == [2, 3]


def test_a_crop_whose_writer_was_killed_is_swept_as_well(
    tmp_path: Path, clock: BootClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `store_crop` leaves behind, under the name that it really gives, when it is killed before its rename."""

    class Killed(BaseException):
        pass

    def kill(*_: object, **__: object) -> None:
        raise Killed

    state = StateDirectory(tmp_path / "state").ensure()
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", kill)
        patch.setattr("os.unlink", kill)  # a killed process cleans nothing up
        with pytest.raises(Killed):
            store_crop(b"a crop", state)
    assert [entry.read_bytes() for entry in state.evidence.iterdir()] == [b"a crop"]
    with opened(state.outbox, clock, evidence=state.evidence) as outbox:
        outbox.upkeep_now()
        assert len(list(state.evidence.iterdir())) == 1  # its writer may be at work
        clock.pass_s(601)
        outbox.upkeep_now()
    assert list(state.evidence.iterdir()) == []


def test_a_released_event_takes_its_own_crop_and_the_held_one_goes(tmp_path: Path, clock: BootClock) -> None:
    folder = tmp_path / "evidence"
    with opened(tmp_path / "outbox", clock) as outbox:
        outbox.put([hold(1, evidence=crop(folder, 1))])
        redacted = crop(folder, 2)
        item = outbox.held_item(key_of(1))
        assert item is not None
        assert item.evidence == EvidenceFile(f"{1:064x}", 1000)
        outbox.release(key_of(1), submission(10, evidence=redacted))
        assert crops(folder) == [2]


def test_settings_are_finite_and_strict() -> None:
    for wrong in (
        {"quota_bytes": 0},
        {"reserve_share": 1.0},
        {"surprise": 1},
        {"retry_disk_s": float("inf")},
    ):
        with pytest.raises(ValueError, match="validation error"):
            OutboxSettings(**wrong)


def test_a_crop_name_is_never_a_path() -> None:
    for wrong in ("../x", "A" * 64, "ab"):
        with pytest.raises(ValueError, match="64 lower-case"):
            EvidenceFile(wrong, 1)


def test_idle_writes_nothing(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path / "outbox", clock) as outbox:
        outbox.put([submission(1)])
        log = tmp_path / "outbox" / "outbox.db-wal"
        before = log.stat().st_mtime_ns
        for _ in range(50):
            clock.pass_s(1)
            outbox.upkeep_now()
        assert log.stat().st_mtime_ns == before
        clock.pass_s(30)
        outbox.upkeep_now()  # once a minute it saves its time
        assert log.stat().st_mtime_ns > before
        assert isinstance(outbox, Outbox)
