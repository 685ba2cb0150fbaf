"""The ring of crops: bounded, in order, healed after a kill, and careful with what is not its own."""

import hashlib
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.events import EvidenceRing, EvidenceUnavailable
from edge_runtime.events.evidence import MARKER
from edge_runtime.protocol import EventState
from tests.rigs.events import Camera, FakeClock, Seen, rule

BOX = np.array([10.0, 10.0, 70.0, 70.0])
UP = ((0.5, 1.0), (0.5, 0.0))


def picture(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (100, 100, 3), np.uint8)


def ring(
    directory: Path, *, quota: int = 65_536, largest: int = 4096, clock: FakeClock | None = None
) -> EvidenceRing:
    return EvidenceRing(
        directory, quota_bytes=quota, max_bytes=largest, margin=0.1, clock=clock or FakeClock()
    )


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 64 bytes: writes fail half-way, as on a disk that is just full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_crop_is_what_its_reference_says(tmp_path: Path) -> None:
    kept = ring(tmp_path / "deep" / "ring")
    reference = kept.keep(picture(1), BOX)
    data = kept.path(reference.name).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (reference.bytes, reference.sha256)
    assert reference.bytes <= 4096
    assert cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) is not None
    assert kept.names() == [reference.name]


def test_the_oldest_go_before_the_quota_is_exceeded(tmp_path: Path) -> None:
    kept = ring(tmp_path / "ring", quota=10_000)
    names = []
    for seed in range(12):
        names.append(kept.keep(picture(seed), BOX).name)
        on_disk = sorted(tmp_path.joinpath("ring").glob("*.jpg"))
        assert sum(path.stat().st_size for path in on_disk) == kept.used_bytes <= 10_000
    assert kept.names() == names[-len(kept.names()) :]
    assert kept.deleted == 12 - len(kept.names()) > 5
    assert [path.name for path in on_disk] == kept.names()


def test_it_goes_on_after_a_restart_whatever_the_clocks_say(tmp_path: Path) -> None:
    first = ring(tmp_path / "ring", quota=20_000, clock=FakeClock(unix_ns=1_900_000_000 * 10**9))
    before = [first.keep(picture(seed), BOX).name for seed in range(3)]
    first.close()
    second = ring(tmp_path / "ring", quota=20_000, clock=FakeClock(now_ns=1, unix_ns=0, synced=False))
    assert second.names() == before
    assert second.used_bytes == first.used_bytes
    after = second.keep(picture(9), BOX).name
    assert second.names() == [*before, after]
    assert sorted(second.names()) == second.names()


def test_a_smaller_quota_is_met_when_it_is_opened(tmp_path: Path) -> None:
    first = ring(tmp_path / "ring")
    names = [first.keep(picture(seed), BOX).name for seed in range(4)]
    first.close()
    assert ring(tmp_path / "ring", quota=8000).names() == names[-2:]


class TestOthersFiles:
    def test_a_directory_with_other_files_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "holiday.jpg").write_bytes(b"mine")
        with pytest.raises(ConfigError, match=r"evidence\.directory: .* holds other files"):
            ring(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]

    def test_files_that_come_later_are_never_deleted_nor_counted(self, tmp_path: Path) -> None:
        first = ring(tmp_path)
        first.keep(picture(0), BOX)
        first.close()
        target = tmp_path.parent / "outside.jpg"
        target.write_bytes(b"x")
        (tmp_path / "note.txt").write_text("please keep")
        (tmp_path / "000000000000-0123456789abcdef.jpg").symlink_to(target)
        (tmp_path / "000000000000-fedcba9876543210.jpg").mkdir()
        second = ring(tmp_path, quota=9000)
        for seed in range(8):
            second.keep(picture(seed), BOX)
        left = {path.name for path in tmp_path.iterdir()} - set(second.names())
        assert left == {
            MARKER,
            "note.txt",
            "000000000000-0123456789abcdef.jpg",
            "000000000000-fedcba9876543210.jpg",
        }
        assert target.read_bytes() == b"x"

    def test_two_cannot_share_a_directory(self, tmp_path: Path) -> None:
        first = ring(tmp_path)
        with pytest.raises(ConfigError, match="in use by another process"):
            ring(tmp_path)
        first.close()
        ring(tmp_path).keep(picture(0), BOX)

    def test_a_fresh_partition_with_lost_and_found_is_empty(self, tmp_path: Path) -> None:
        (tmp_path / "lost+found").mkdir()
        assert ring(tmp_path).keep(picture(0), BOX).bytes > 0


class TestTorn:
    def test_a_process_killed_between_write_and_rename_leaves_nothing_that_counts(
        self, tmp_path: Path
    ) -> None:
        program = (
            "import os, signal, sys, numpy as np\n"
            "from pathlib import Path\n"
            "from edge_runtime.clock import SystemClock\n"
            "from edge_runtime.events import EvidenceRing\n"
            "ring = EvidenceRing(Path(sys.argv[1]), quota_bytes=65536, max_bytes=4096, margin=0.1,"
            " clock=SystemClock())\n"
            "image, box = np.zeros((64, 64, 3), np.uint8), np.array([0., 0., 64., 64.])\n"
            "ring.keep(image, box)\n"
            "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
            "ring.keep(image, box)\n"
        )
        killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
        assert killed.returncode == -signal.SIGKILL
        parts = [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
        assert len(parts) == 1
        healed = ring(tmp_path)
        assert (len(healed.names()), healed.torn) == (1, 1)
        assert not parts[0].exists()
        assert healed.keep(picture(0), BOX).name.startswith("000000000002-")

    @pytest.mark.parametrize("damage", [b"", b"\xff\xd8", b"\0" * 900, b"\xff\xd8" + b"\0" * 900])
    def test_what_a_power_cut_tore_is_dropped(self, tmp_path: Path, damage: bytes) -> None:
        first = ring(tmp_path)
        good, bad = (first.keep(picture(seed), BOX) for seed in range(2))
        first.close()
        first.path(bad.name).write_bytes(damage)
        healed = ring(tmp_path)
        assert (healed.names(), healed.torn) == ([good.name], 1)
        assert not healed.path(bad.name).exists()


class TestTrouble:
    def test_a_full_disk_is_said_in_words_and_leaves_no_rest(self, tmp_path: Path) -> None:
        clock = FakeClock()
        kept = ring(tmp_path, clock=clock)
        with full_disk(), pytest.raises(EvidenceUnavailable, match="File too large"):
            kept.keep(picture(0), BOX)
        assert [path.name for path in tmp_path.iterdir()] == [MARKER]
        with pytest.raises(EvidenceUnavailable, match="File too large"):  # left alone for a second
            kept.keep(picture(0), BOX)
        clock.pass_s(1)
        assert kept.keep(picture(0), BOX).bytes > 0

    def test_a_directory_that_cannot_be_made_does_not_stop_the_camera(self, tmp_path: Path) -> None:
        (tmp_path / "disk").write_text("not mounted yet")
        clock = FakeClock()
        kept = ring(tmp_path / "disk" / "ring", clock=clock)
        with pytest.raises(EvidenceUnavailable, match="Not a directory"):
            kept.keep(picture(0), BOX)
        (tmp_path / "disk").unlink()
        clock.pass_s(2)
        assert kept.keep(picture(0), BOX).bytes > 0

    def test_a_directory_deleted_under_it_is_made_again(self, tmp_path: Path) -> None:
        clock = FakeClock()
        kept = ring(tmp_path / "ring", clock=clock)
        name = kept.keep(picture(0), BOX).name
        for path in (tmp_path / "ring").iterdir():
            path.unlink()
        (tmp_path / "ring").rmdir()
        with pytest.raises(EvidenceUnavailable):
            kept.keep(picture(1), BOX)
        clock.pass_s(2)
        assert kept.keep(picture(1), BOX).name > name
        assert len(kept.names()) == 1

    def test_a_crop_deleted_by_hand_does_not_disturb_the_ring(self, tmp_path: Path) -> None:
        kept = ring(tmp_path, quota=8000)
        kept.path(kept.keep(picture(0), BOX).name).unlink()
        for seed in range(1, 6):
            kept.keep(picture(seed), BOX)
        assert kept.used_bytes <= 8000

    def test_a_cap_below_any_crop(self, tmp_path: Path) -> None:
        with pytest.raises(EvidenceUnavailable, match="cannot be made smaller than 100 bytes"):
            ring(tmp_path, largest=100).keep(picture(0), BOX)


class TestOnTheDesk:
    def test_a_crop_is_taken_once_and_named_by_every_revision(self, tmp_path: Path) -> None:
        kept = ring(tmp_path)
        camera = Camera([rule("dwell", seconds=0.5, evidence=True)], evidence=kept)
        started, ended = camera.watch(1, Seen(20, 50)) + camera.watch(1)
        assert started.evidence is not None
        assert started.evidence == ended.evidence
        assert kept.names() == [started.evidence.name]
        assert (started.reason, ended.reason) == (None, None)
        counters = camera.desk.counters()
        assert (counters.evidence_kept, counters.evidence_failed) == (1, 0)

    def test_the_crop_shows_the_object_and_masked_pixels_stay_black(self, tmp_path: Path) -> None:
        image = np.full((100, 100, 3), 255, np.uint8)
        image[:, 60:] = 0  # the privacy mask, applied by the source
        kept = ring(tmp_path)
        camera = Camera([rule("line", line=UP, evidence=True)], evidence=kept, image=image)
        camera.watch(0.5, Seen(30, 60, width=20, height=40))
        (record,) = camera.watch(0.5, Seen(58, 60, width=20, height=40))
        assert record.evidence is not None
        crop = cv2.imread(str(kept.path(record.evidence.name)))
        assert crop is not None
        assert crop.shape[:2] == (48, 24)  # 40 by 20 and a tenth on each side
        assert crop[:, :12].mean() > 250
        assert crop[:, -7:].max() < 12

    def test_about_a_zone_the_crop_is_of_the_zone(self, tmp_path: Path) -> None:
        kept = ring(tmp_path)
        zone = ((0.2, 0.2), (0.6, 0.2), (0.6, 0.8))
        camera = Camera([rule("occupancy", hold=0, polygon=zone, evidence=True)], evidence=kept)
        (record,) = camera.see(Seen(50, 50))
        assert record.evidence is not None
        crop = cv2.imread(str(kept.path(record.evidence.name)))
        assert crop is not None
        assert crop.shape[:2] == (72, 48)

    def test_without_a_disk_the_event_goes_out_and_says_why(self, tmp_path: Path) -> None:
        kept = ring(tmp_path)
        camera = Camera([rule("line", line=UP, evidence=True)], evidence=kept)
        camera.watch(0.5, Seen(30, 50))
        with full_disk():
            (record,) = camera.watch(0.5, Seen(70, 50))
        assert record.evidence is None
        assert record.reason == "no evidence: File too large"
        assert camera.desk.counters().evidence_failed == 1

    def test_without_a_ring_the_event_goes_out_and_says_why(self) -> None:
        camera = Camera([rule("line", line=UP, evidence=True)])
        camera.watch(0.5, Seen(30, 50))
        (record,) = camera.watch(0.5, Seen(70, 50))
        assert record.reason == "no evidence: no evidence directory is configured"

    def test_one_reported_late_when_the_track_is_gone_has_no_crop_of_somebody_else(
        self, tmp_path: Path
    ) -> None:
        rules = [rule("dwell", seconds=0.2, grace=30, cooldown=5, evidence=True)]
        camera = Camera(rules, evidence=ring(tmp_path))
        camera.watch(0.5, Seen(20, 50))
        camera.watch(31, step=1)  # it ended; its cause is quiet for 5 s
        camera.watch(0.5, Seen(20, 50))  # and is back
        (record,) = camera.watch(6, step=1)
        assert (record.state, record.evidence) == (EventState.STARTED, None)
        assert record.reason == "no evidence: the track is not in view"

    def test_a_summary_has_no_crop(self, tmp_path: Path) -> None:
        kept = ring(tmp_path)
        camera = Camera([rule("line", line=UP, evidence=True, max_per_minute=1, debounce=0)], evidence=kept)
        records = [r for x in (30, 70, 30) for r in camera.see(Seen(x, 50))]
        assert [(r.kind, r.evidence is None) for r in records] == [("line", False), ("rate_capped", True)]


def test_marker_and_crops_are_private(tmp_path: Path) -> None:
    ring(tmp_path)
    assert (tmp_path / MARKER).stat().st_mode & 0o077 == 0
