"""The recorder never slows a live loop, loses no frame of a recording, and survives a full disk."""

import threading
from pathlib import Path

import av
import cv2
import pytest

from edge_runtime.annotation import Annotator, ContactSheet, Recorder, VideoWriter
from edge_runtime.annotation.recorder import _CAPACITY
from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import EventRecord
from edge_runtime.sources.frame import Frame, Image
from tests.annotation.conftest import MakeEvent, MakeFrame, MakeTracks


class GatedAnnotator(Annotator):
    """The real annotator behind a gate, to hold the recorder's thread up as a slow disk would."""

    def __init__(self) -> None:
        super().__init__(["person"])
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.seen: list[tuple[float, int]] = []

    def draw(
        self,
        frame: Frame,
        tracks: Tracks | None,
        events: tuple[EventRecord, ...] = (),  # type: ignore[override]
        notice: str | None = None,
    ) -> Image:
        self.entered.set()
        assert self.gate.wait(30)
        self.seen.append((frame.media_ns / 1e9, len(events)))
        return super().draw(frame, tracks, events, notice)


def test_a_recording_is_written_whole(
    tmp_path: Path, make_frame: MakeFrame, make_tracks: MakeTracks, make_event: MakeEvent
) -> None:
    video, sheet = tmp_path / "a.mp4", tmp_path / "a.png"
    recorder = Recorder(
        Annotator(["person"]),
        video=VideoWriter(video, 10),
        sheet=ContactSheet(every_s=2.0, tile_width=160),
        sheet_path=sheet,
        title="dock",
    )
    for index in range(50):
        events = [make_event(media_s=index / 10, direction="enter")] if index == 25 else []
        recorder.add(
            make_frame(media_s=index / 10), make_tracks((10 * index, 20, 10 * index + 30, 90)), events
        )
    status = recorder.close()
    assert (status.written, status.dropped, status.failed, status.error) == (50, 0, 0, None)
    assert (status.video_written, status.sheet_written) == (True, True)
    assert recorder.close() == status
    with av.open(str(video)) as container:
        assert sum(1 for _ in container.decode(video=0)) == 50
    image = cv2.imread(str(sheet))
    assert image is not None
    assert image.shape[0] > 120


def test_a_live_camera_is_never_held_up_and_no_event_is_lost(
    make_frame: MakeFrame, make_event: MakeEvent
) -> None:
    annotator = GatedAnnotator()
    recorder = Recorder(annotator, wait=False)
    recorder.add(make_frame(media_s=0.0), Tracks.empty())
    assert annotator.entered.wait(30)
    for index in range(1, _CAPACITY + 4):  # the last three find the recorder full
        recorder.add(make_frame(media_s=float(index)), Tracks.empty(), [make_event(id=f"e{index}")])
    assert recorder.status().dropped == 3
    annotator.gate.set()
    while len(annotator.seen) <= _CAPACITY:
        threading.Event().wait(0.01)
    recorder.add(make_frame(media_s=99.0), Tracks.empty())
    status = recorder.close()
    assert status.dropped == 3
    assert status.written == len(annotator.seen) == _CAPACITY + 2
    assert annotator.seen[-1] == (99.0, 3), "events of frames left out come with the next one"


def test_a_recording_waits_instead(make_frame: MakeFrame) -> None:
    annotator = GatedAnnotator()
    recorder = Recorder(annotator, wait=True)
    done = threading.Event()

    def feed() -> None:
        for index in range(_CAPACITY + 5):
            recorder.add(make_frame(media_s=float(index)), Tracks.empty())
        done.set()

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert annotator.entered.wait(30)
    assert not done.wait(0.05)
    annotator.gate.set()
    assert done.wait(30)
    feeder.join()
    assert recorder.close().written == _CAPACITY + 5


def test_a_full_disk_is_counted_and_reported_once_and_the_sheet_is_still_written(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    (tmp_path / "v.mp4").symlink_to("/dev/full")
    sheet = tmp_path / "sheet.png"
    recorder = Recorder(
        Annotator([]), video=VideoWriter(tmp_path / "v.mp4"), sheet=ContactSheet(), sheet_path=sheet
    )
    for index in range(20):
        recorder.add(make_frame(media_s=index / 10), Tracks.empty())
    status = recorder.close()
    assert status.written + status.failed == 20
    assert status.failed >= 18
    assert status.error is not None
    assert "No space left on device" in status.error
    assert sheet.stat().st_size > 1000
    assert (status.video_written, status.sheet_written) == (False, True)


def test_what_an_earlier_run_left_does_not_pass_for_this_one(tmp_path: Path, make_frame: MakeFrame) -> None:
    video, sheet = tmp_path / "v.mp4", tmp_path / "sheet.png"
    video.write_bytes(b"old")
    sheet.write_bytes(b"old")

    class Broken(Annotator):
        def draw(self, *_: object, **__: object) -> Image:
            raise ValueError("three corners expected")

    recorder = Recorder(Broken([]), video=VideoWriter(video), sheet=ContactSheet(), sheet_path=sheet)
    recorder.add(make_frame(), Tracks.empty())
    status = recorder.close()
    assert (status.video_written, status.sheet_written) == (False, False)
    assert list(tmp_path.iterdir()) == []


def test_a_sheet_that_cannot_be_written_is_reported(tmp_path: Path, make_frame: MakeFrame) -> None:
    (tmp_path / "file").write_text("")
    recorder = Recorder(Annotator([]), sheet=ContactSheet(), sheet_path=tmp_path / "file" / "s.png")
    recorder.add(make_frame(), Tracks.empty())
    status = recorder.close()
    assert status.written == 1
    assert status.error is not None
    assert "contact sheet" in status.error


def test_frames_after_the_end_are_counted_as_failed(make_frame: MakeFrame) -> None:
    recorder = Recorder(Annotator([]))
    recorder.close()
    recorder.add(make_frame(), Tracks.empty())
    assert recorder.status().failed == 1


@pytest.mark.parametrize("wait", [True, False])
def test_a_defect_in_drawing_does_not_hold_up_the_loop(make_frame: MakeFrame, *, wait: bool) -> None:
    class Broken(Annotator):
        def draw(self, *_: object, **__: object) -> Image:
            raise ValueError("three corners expected")

    recorder = Recorder(Broken([]), wait=wait)
    for _ in range(3 * _CAPACITY):
        recorder.add(make_frame(), Tracks.empty())
    status = recorder.close()
    assert status.written == 0
    assert status.failed + status.dropped == 3 * _CAPACITY
    assert status.error == "annotation stopped: unexpected ValueError: three corners expected"
