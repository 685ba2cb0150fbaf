"""Acceptance 4: every odd clip gives its true frames or one clear sentence."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from av.container import InputContainer
from av.video.stream import VideoStream

from edge_runtime.clock import SystemClock
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.source import FileSource
from edge_runtime.sources import Frame, SourceRunner, SourceState, open_source
from edge_runtime.sources.address import LiveTimes, file_address
from edge_runtime.sources.pyav import PyavReader
from edge_runtime.sources.reader import SourceSilent
from tests.rigs.cameras import drain, picture, write_clip

MS = 1_000_000


def player(path: Path, **fields: object) -> SourceRunner:
    config = FileSource.model_validate({"kind": "file", "path": path.name, **fields})
    return open_source("cam", config, base=path.parent, clock=SystemClock())


def brightness(frames: list[Frame]) -> list[int]:
    """What `picture` wrote into each frame."""
    return [int(np.median(frame.image)) for frame in frames]


def assert_pictures(frames: list[Frame], numbers: list[int]) -> None:
    assert len(frames) == len(numbers)
    for found, number in zip(brightness(frames), numbers, strict=True):
        assert abs(found - (40 + number * 7 % 200)) <= 6, numbers


ODD = [
    # Name, frames, width, height, rotation, media time of the last frame in ms. Of the cut off file 17 packets
    # are complete; decoders with several threads lose the last 2 of them.
    ("av1_video.mkv", 125, 640, 360, 0, 4960),
    ("bt709_full_range.mp4", 30, 1280, 720, 0, 966),
    ("corrupt_packets.ts", 30, 384, 288, 0, 2900),
    ("gray_pixfmt.mp4", 40, 384, 288, 0, 3900),
    ("h264_10bits.mp4", 30, 200, 200, 0, 966),
    ("h265_video.mp4", 10, 128, 128, 0, 900),
    ("mjpeg_384x288_10fps.avi", 40, 384, 288, 0, 3900),
    ("odd_size_427x241_yuv444.mp4", 40, 427, 241, 0, 3900),
    ("rotated_by_metadata_90.mp4", 40, 216, 384, 90, 3900),
    ("truncated_moov_first.mp4", 17, 384, 216, 0, 1600),
    ("vfr_gaps.mp4", 55, 384, 288, 0, 7900),
]


@pytest.mark.parametrize(("name", "count", "width", "height", "rotation", "last_ms"), ODD)
def test_odd_clips_give_their_true_frames(
    media: Path, name: str, count: int, width: int, height: int, rotation: int, last_ms: int
) -> None:
    runner = player(media / "odd" / name)
    frames = drain(runner)
    status = runner.status()
    assert status.state is SourceState.ENDED
    assert len(frames) == count
    assert {(frame.width, frame.height) for frame in frames} == {(width, height)}
    assert [frame.sequence for frame in frames] == list(range(count))
    assert {frame.epoch for frame in frames} == {0}
    assert frames[-1].media_ns // MS == last_ms
    assert status.stream is not None
    assert (status.stream.width, status.stream.height, status.stream.rotation) == (width, height, rotation)
    assert not any(frame.dark or frame.frozen for frame in frames)
    if name.startswith("truncated"):
        assert status.error == "truncated_moov_first.mp4 ends after 17 of 60 frames: it is cut off or damaged"
    else:
        assert status.error is None


# OpenCV reads these right (it opens AV1 and reads nothing, and hides damage).
SAME_AS_OPENCV = [
    name
    for name, *_ in ODD
    if name not in ("av1_video.mkv", "corrupt_packets.ts", "truncated_moov_first.mp4")
]


@pytest.mark.parametrize("name", SAME_AS_OPENCV)
def test_odd_clips_show_the_same_pictures_in_the_same_order_as_opencv(media: Path, name: str) -> None:
    frames = drain(player(media / "odd" / name))
    capture = cv2.VideoCapture(str(media / "odd" / name))
    for frame in frames:
        ok, peer = capture.read()
        assert ok
        difference = np.abs(frame.image.astype(np.int16) - peer)
        # Both round; 10-bit chroma is interpolated here and replicated there.
        assert difference.mean() < (4.0 if name == "h264_10bits.mp4" else 1.0)
    assert not capture.read()[0]
    capture.release()


def test_gaps_of_a_variable_rate_are_in_the_media_time(media: Path) -> None:
    frames = drain(player(media / "odd" / "vfr_gaps.mp4"))
    steps = {round((b.media_ns - a.media_ns) / 1e8) / 10 for a, b in pairwise(frames)}
    assert steps == {0.1, 0.6}


def test_damage_is_counted(media: Path) -> None:
    runner = player(media / "odd" / "corrupt_packets.ts")
    drain(runner)
    status = runner.status()
    assert status.damaged + status.drops.get("corrupt", 0) >= 1


def make(kind: str, folder: Path) -> Path:
    """A file that is no video, of a kind that people offer as one."""
    path = folder / f"{kind}.mp4"
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "web page":
        path.write_text("<!DOCTYPE html><html><body>moved</body></html>" * 40)
    elif kind == "random":
        path.write_bytes(np.random.default_rng(0).bytes(50_000))
    elif kind == "text":
        path = folder / "text.txt"
        path.write_text("hello\nworld\n" * 50)
    elif kind == "sound":
        path = folder / "sound.m4a"
        with av.open(str(path), "w", format="mp4") as container:
            sound = container.add_stream("aac", rate=8000, layout="mono")
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 8192), np.float32), format="fltp", layout="mono")
            frame.sample_rate = 8000
            container.mux(sound.encode(frame))
            container.mux(sound.encode(None))
    elif kind == "cut before its index":
        whole = write_clip(folder / "whole.mp4", [picture(i) for i in range(20)])
        path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    return path


def song_with_cover(path: Path) -> Path:
    """An MP3 whose ID3 tag holds a picture, which FFmpeg lists as a video stream."""
    with av.open(str(path), "w") as container:
        sound = container.add_stream("libmp3lame", rate=44100, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 44100), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        container.mux(sound.encode(frame))
        container.mux(sound.encode(None))
    ok, cover = cv2.imencode(".jpg", picture(3))
    assert ok
    body = b"\0image/jpeg\0\x03\0" + cover.tobytes()
    part = b"APIC" + len(body).to_bytes(4, "big") + b"\0\0" + body
    size = len(part)
    syncsafe = bytes((size >> shift) & 0x7F for shift in (21, 14, 7, 0))
    path.write_bytes(b"ID3\x03\0\0" + syncsafe + part + path.read_bytes())
    return path


def test_the_cover_of_a_song_is_no_video(tmp_path: Path) -> None:
    path = song_with_cover(tmp_path / "song.mp3")
    with av.open(str(path)) as container:
        assert len(container.streams.video) == 1
    runner = player(path)
    assert drain(runner) == []
    assert "song.mp3 holds no video stream" in (runner.status().error or "")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("empty", "is empty"),
        ("folder", "is a folder, not a video; kind: images"),
        ("web page", "is not a video that can be read"),
        ("random", "is not a video that can be read"),
        ("text", "is a text file, not a video"),
        ("sound", "holds no video stream, only audio"),
        ("cut before its index", "is not a video that can be read"),
        ("missing", "does not exist"),
    ],
)
def test_what_is_no_video_is_refused_in_one_sentence(tmp_path: Path, kind: str, sentence: str) -> None:
    path = make(kind, tmp_path)
    runner = player(path)
    assert drain(runner) == []
    status = runner.status()
    assert status.state is SourceState.FAILED
    assert status.error is not None
    assert status.error.startswith(path.name)
    assert sentence in status.error
    assert "\n" not in status.error


@pytest.mark.parametrize("kind", ["pipe", "socket", "character device"])
def test_what_is_no_file_is_refused_instead_of_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "clip.mp4"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        path.symlink_to("/dev/zero")
    runner = player(path)
    assert drain(runner) == []
    assert runner.status().state is SourceState.FAILED
    assert f"clip.mp4 is a {kind}, not a video file" in (runner.status().error or "")


def test_the_clip_without_an_index_is_refused(media: Path) -> None:
    runner = player(media / "odd" / "truncated_no_moov.mp4")
    assert drain(runner) == []
    assert "is not a video that can be read" in (runner.status().error or "")


def test_a_url_is_not_a_file(tmp_path: Path) -> None:
    config = FileSource(kind="file", path="rtsp://bob:hunter22@cam/live")
    runner = open_source("cam", config, base=tmp_path, clock=SystemClock())
    assert drain(runner) == []
    error = runner.status().error or ""
    assert "use kind: rtsp" in error
    assert "hunter22" not in error


CLIPS: list[tuple[str, str]] = [
    ("clip.mp4", "mpeg4"),
    ("clip.mkv", "libx264"),
    ("clip.mpg", "mpeg2video"),
    ("clip.webm", "libvpx"),
    ("clip.avi", "mjpeg"),
    ("clip.h264", "libx264"),
    ("clip.flv", "flv"),
    ("clip.mov", "libx265"),
    ("na me: 50%d.mp4", "mpeg4"),
]


@pytest.mark.parametrize(("name", "codec"), CLIPS)
def test_containers_and_codecs(tmp_path: Path, name: str, codec: str) -> None:
    path = write_clip(tmp_path / name, [picture(i) for i in range(25)], codec=codec)
    frames = drain(player(path))
    assert_pictures(frames, list(range(25)))
    steps = np.diff([frame.media_ns for frame in frames])
    # A raw stream has no stamps: FFmpeg takes 25 a second.
    assert abs(steps / MS - (40 if name.endswith(".h264") else 100)).max() <= 1


DEEP: list[tuple[str, str, str, dict[str, str], str | None]] = [
    ("colours.mkv", "libx264rgb", "rgb24", {}, None),
    ("twelve.mkv", "libx265", "yuv420p12le", {"x265-params": "log-level=none"}, None),
    ("grey.mkv", "libx265", "gray10le", {"x265-params": "log-level=none"}, None),
    ("sixteen.mkv", "ffv1", "yuv444p16le", {}, None),
    ("alpha.webm", "libvpx-vp9", "yuva420p", {}, None),
    ("master.mov", "prores_ks", "yuv422p10le", {}, None),
    ("packed.mkv", "rawvideo", "yuyv422", {}, None),
    ("moving.apng", "apng", "rgb24", {}, None),
    ("reordered.ts", "libx264", "yuv420p", {"bf": "3"}, None),
    ("interlaced.ts", "libx264", "yuv420p", {"flags": "+ildct+ilme", "x264-params": "tff=1"}, None),
    ("fragments.mp4", "libx264", "yuv420p", {}, "frag_keyframe+empty_moov"),
]


@pytest.mark.parametrize(("name", "codec", "pix_fmt", "coder", "movflags"), DEEP)
def test_depths_layouts_and_orders(
    tmp_path: Path, name: str, codec: str, pix_fmt: str, coder: dict[str, str], movflags: str | None
) -> None:
    images = [picture(i) for i in range(12)]
    path = write_clip(tmp_path / name, images, codec=codec, pix_fmt=pix_fmt, coder=coder, movflags=movflags)
    frames = drain(player(path))
    assert_pictures(frames, list(range(12)))
    assert [round(frame.media_ns / MS) for frame in frames] == list(range(0, 1200, 100))


def test_the_counter_of_a_transport_stream_wraps(tmp_path: Path) -> None:
    begin = ((1 << 33) // 90 - 500) // 100 * 100  # in ms: half a second before the wrap
    path = write_clip(
        tmp_path / "wrap.ts",
        [picture(i) for i in range(12)],
        codec="libx264",
        pts=[begin + i * 100 for i in range(12)],
    )
    frames = drain(player(path))
    assert [(frame.epoch, round(frame.media_ns / MS)) for frame in frames] == [
        (0, i * 100) for i in range(12)
    ]


def test_a_recording_whose_stamps_are_reset_goes_on_in_a_new_epoch(tmp_path: Path) -> None:
    once = write_clip(tmp_path / "once.ts", [picture(i) for i in range(12)], codec="libx264")
    twice = tmp_path / "twice.ts"
    twice.write_bytes(once.read_bytes() * 2)
    frames = drain(player(twice))
    assert_pictures(frames, [*range(12), *range(12)])
    assert [(f.epoch, f.sequence) for f in frames] == [(epoch, i) for epoch in (0, 1) for i in range(12)]
    assert [round(frame.media_ns / MS) for frame in frames[12:]] == list(range(0, 1200, 100))


def test_a_header_without_frames_is_one_sentence(tmp_path: Path) -> None:
    whole = write_clip(tmp_path / "whole.mkv", [picture(i) for i in range(5)], codec="libx264")
    (tmp_path / "head.mkv").write_bytes(whole.read_bytes()[:600])
    runner = player(tmp_path / "head.mkv")
    assert drain(runner) == []
    assert runner.status().error == "head.mkv: not one frame of it can be decoded"


def test_a_clip_that_begins_late_begins_at_zero(tmp_path: Path) -> None:
    path = write_clip(
        tmp_path / "late.mkv", [picture(i) for i in range(5)], pts=[7000 + i * 100 for i in range(5)]
    )
    assert [round(frame.media_ns / MS) for frame in drain(player(path))] == [0, 100, 200, 300, 400]


def test_one_of_several_streams(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "two.mkv", [picture(i) for i in range(6)], streams=2, audio=True)
    assert_pictures(drain(player(path)), list(range(6)))
    second = brightness(drain(player(path, stream=1)))
    assert [abs(value - (215 - 7 * i)) <= 6 for i, value in enumerate(second)] == [True] * 6
    runner = player(path, stream=2)
    assert drain(runner) == []
    assert runner.status().error == "two.mkv has 2 video streams; there is no stream 2, they count from 0"


@pytest.mark.parametrize("size", [(64, 48), (1600, 1200)])
def test_a_file_with_its_index_first_gives_every_complete_frame(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    whole = write_clip(
        tmp_path / "whole.mp4", [picture(i, *size) for i in range(12)], codec="libx264", movflags="faststart"
    )
    with av.open(str(whole)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    ends = sorted((packet.pos or 0) + packet.size for packet in packets)
    path = tmp_path / "cut.mp4"
    path.write_bytes(whole.read_bytes()[: ends[8] + 5])
    runner = player(path)
    frames = drain(runner)
    assert len(frames) == 9
    assert (runner.status().error or "").startswith("cut.mp4 ends after 9 of 12 frames")


def test_a_cut_off_file_gives_the_frames_before_the_cut(tmp_path: Path) -> None:
    whole = write_clip(tmp_path / "whole.mkv", [picture(i) for i in range(60)], codec="mjpeg")
    path = tmp_path / "cut.mkv"
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    frames = drain(player(path))
    assert 20 <= len(frames) <= 40
    assert_pictures(frames, list(range(len(frames))))


def test_damage_in_the_middle_is_passed_over_and_counted(tmp_path: Path) -> None:
    whole = write_clip(tmp_path / "whole.avi", [picture(i) for i in range(40)], codec="mjpeg")
    data = bytearray(whole.read_bytes())
    pictures = [at for at in range(len(data)) if data[at : at + 3] == b"\xff\xd8\xff"]
    data[pictures[20] : pictures[20] + 1000] = bytes(1000)
    path = tmp_path / "hurt.avi"
    path.write_bytes(data)
    runner = player(path)
    frames = drain(runner)
    assert len(frames) == 39
    assert runner.status().drops == {"corrupt": 1}


def test_a_change_of_size_is_a_new_epoch(tmp_path: Path) -> None:
    small = write_clip(tmp_path / "small.ts", [picture(i) for i in range(6)], codec="libx264")
    large = write_clip(tmp_path / "large.ts", [picture(i, 96, 64) for i in range(6)], codec="libx264")
    both = tmp_path / "both.ts"
    both.write_bytes(small.read_bytes() + large.read_bytes())
    frames = drain(player(both))
    sizes = [(frame.epoch, frame.width, frame.height) for frame in frames]
    assert sizes[0] == (0, 64, 48)
    assert sizes[-1] == (1, 96, 64)
    first = next(frame for frame in frames if frame.epoch == 1)
    assert (first.sequence, first.media_ns) == (0, 0)


def test_looping_gives_every_pass_its_epoch(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "loop.mp4", [picture(i) for i in range(4)])
    runner = player(path, loop=True)
    runner.start()
    frames: list[Frame] = []
    while len(frames) < 12:
        frame = runner.poll()
        if frame is not None:
            frames.append(frame)
    assert runner.stop()
    assert [(frame.epoch, frame.sequence) for frame in frames] == [(e, s) for e in range(3) for s in range(4)]
    assert runner.finished


MATRICES: dict[str, tuple[int, int, int, int]] = {
    "0": (1, 0, 0, 1),
    "90": (0, -1, 1, 0),
    "180": (-1, 0, 0, -1),
    "270": (0, 1, -1, 0),
}


@pytest.mark.parametrize("degrees", MATRICES)
def test_rotation_in_the_track_header_is_honoured(tmp_path: Path, degrees: str) -> None:
    path = write_clip(tmp_path / "turned.mp4", [picture(i, 96, 48) for i in range(3)])
    data = bytearray(path.read_bytes())
    a, b, c, d = (value * 65536 for value in MATRICES[degrees])
    # ISO/IEC 14496-12, 8.3.2: the matrix lies 40 bytes behind the version of `tkhd`.
    at = data.index(b"tkhd") + 4 + 40
    for offset, value in enumerate((a, b, 0, c, d, 0, 0, 0, 1 << 30)):
        data[at + 4 * offset : at + 4 * offset + 4] = value.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    runner = player(path)
    frames = drain(runner)
    assert len(frames) == 3
    status = runner.status()
    assert status.stream is not None
    assert status.stream.rotation == int(degrees)
    # OpenCV turns the same file by its own reading of the matrix.
    capture = cv2.VideoCapture(str(path))
    ok, peer = capture.read()
    capture.release()
    assert ok
    assert frames[0].image.shape == peer.shape
    assert np.abs(frames[0].image.astype(int) - peer).mean() < 1.0
    corner = frames[0].image.mean(axis=2) > 200
    rows, columns = np.nonzero(corner)
    expected = {"0": (False, False), "90": (True, False), "180": (True, True), "270": (False, True)}[degrees]
    assert (rows.mean() > frames[0].height / 2, columns.mean() > frames[0].width / 2) == expected


def test_privacy_masks_are_black_in_the_frames(media: Path) -> None:
    """Bug of many kinds: the mask must lie on the upright picture, before anybody sees it."""
    mask = PrivacyMask(polygon=((0.25, 0.25), (0.75, 0.25), (0.75, 0.75), (0.25, 0.75)))
    clip = media / "odd" / "rotated_by_metadata_90.mp4"
    config = FileSource(kind="file", path=clip.name)
    masked = drain(open_source("cam", config, masks=[mask], base=clip.parent, clock=SystemClock()))
    plain = drain(player(clip))
    for seen, original in zip(masked, plain, strict=True):
        expected = original.image.copy()
        expected[96:288, 54:162] = 0
        assert np.array_equal(seen.image, expected)


def test_a_mask_that_covers_nothing_fails_the_source(media: Path) -> None:
    mask = PrivacyMask(polygon=((9000, 9000), (9100, 9000), (9100, 9100)), units="pixels")
    config = FileSource(kind="file", path="vtest.avi")
    runner = open_source("cam", config, masks=[mask], base=media, clock=SystemClock())
    assert drain(runner) == []
    assert runner.status().state is SourceState.FAILED
    assert "masks[0] covers no pixel" in (runner.status().error or "")


def test_dark_pictures_are_marked(tmp_path: Path) -> None:
    images = [picture(0), np.zeros((48, 64, 3), np.uint8), picture(2)]
    path = write_clip(tmp_path / "dark.avi", images, codec="mjpeg")
    assert [frame.dark for frame in drain(player(path))] == [False, True, False]


def test_damage_looks_the_same_in_every_run(media: Path) -> None:
    first, again = (
        [frame.image for frame in drain(player(media / "odd" / "corrupt_packets.ts"))] for _ in "12"
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("size", [(320, 240), (1600, 1200)])
def test_large_pictures_are_decoded_by_several_threads_in_order(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    path = write_clip(tmp_path / "clip.mp4", [picture(i, *size) for i in range(12)], codec="libx264")
    assert_pictures(drain(player(path)), list(range(12)))


@pytest.mark.parametrize("break_it", [lambda path: path.chmod(0)])
def test_a_file_that_may_not_be_read(tmp_path: Path, break_it: Callable[[Path], None]) -> None:
    path = write_clip(tmp_path / "mine.mp4", [picture(0)])
    break_it(path)
    try:
        path.read_bytes()
    except PermissionError:
        runner = player(path)
        assert drain(runner) == []
        assert "may not be read" in (runner.status().error or "")
    else:
        # Root reads everything: then the frame must be there.
        assert len(drain(player(path))) == 1


class AskedWithoutWaiting:
    """A container whose driver has no picture yet two times out of three, as a V4L2 camera's has not."""

    def __init__(self, container: InputContainer, ready: bool = True) -> None:
        self._container = container
        self._packets: Iterator[object] = iter(())
        self._asked = 0
        self._ready = ready
        self.format = container.format

    def demux(self, stream: VideoStream) -> Iterator[object]:
        if self._asked == 0:
            self._packets = self._container.demux(stream)
        more = True
        while more:
            self._asked += 1
            if not self._ready or self._asked % 3:
                raise av.error.BlockingIOError(11, "Resource temporarily unavailable")
            packet = next(self._packets, None)
            more = packet is not None
            if more:
                yield packet

    def close(self) -> None:
        self._container.close()


@pytest.mark.parametrize("ready", [True, False])
def test_a_camera_that_is_asked_without_waiting(tmp_path: Path, ready: bool) -> None:
    path = write_clip(tmp_path / "clip.mp4", [picture(i) for i in range(5)])
    address = replace(file_address(path.name, tmp_path), times=LiveTimes(1, 0.2, 10**9))
    reader = PyavReader(address, SystemClock(), threading.Event())
    reader._container = AskedWithoutWaiting(reader._container, ready)  # type: ignore[assignment]
    if ready:
        assert len(list(iter(reader.read, None))) == 5
    else:
        with pytest.raises(SourceSilent, match=r"gave no picture for 0\.2 s"):
            reader.read()
    reader.close()
