import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.config.source import ImagesSource
from edge_runtime.sources import SourceRunner, SourceState, open_source
from tests.rigs.cameras import drain, picture


def folder(path: Path, **fields: object) -> SourceRunner:
    config = ImagesSource.model_validate({"kind": "images", "path": path.name, **fields})
    return open_source("cam", config, base=path.parent, clock=SystemClock())


def write(path: Path, image: np.ndarray) -> None:
    assert cv2.imwrite(str(path), image)


def test_pictures_in_name_order_on_their_own_timeline(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        write(tmp_path / f"{number}.png", picture(number))
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "sub.png").mkdir()
    runner = folder(tmp_path, interval=0.5)
    frames = drain(runner)
    assert [np.array_equal(frame.image, picture(i)) for i, frame in enumerate(frames)] == [True] * 3
    assert [frame.media_ns for frame in frames] == [0, 500_000_000, 1_000_000_000]
    status = runner.status()
    assert status.state is SourceState.ENDED
    assert status.stream is not None
    assert (status.stream.frames, status.stream.fps, status.stream.width) == (3, 2.0, 64)


def test_a_broken_picture_is_skipped_counted_and_told(tmp_path: Path) -> None:
    write(tmp_path / "0.jpg", picture(0))
    (tmp_path / "1.jpg").write_bytes(b"<html>not found</html>")
    (tmp_path / "2.jpg").touch()
    write(tmp_path / "3.jpg", picture(3))
    runner = folder(tmp_path)
    frames = drain(runner)
    assert [frame.media_ns // 10**9 for frame in frames] == [0, 3]
    status = runner.status()
    assert status.drops == {"corrupt": 2}
    assert status.error == f"{tmp_path.name}: 2 of 4 files are no pictures and were skipped"


@pytest.mark.parametrize(
    ("image", "suffix"),
    [
        (np.full((20, 30), 200, np.uint8), ".png"),
        (np.full((20, 30), 200 * 257, np.uint16), ".png"),
        (np.full((20, 30, 4), 200, np.uint8), ".png"),
        (np.full((20, 30, 3), 200, np.uint8), ".webp"),
        (np.full((20, 30, 3), 200, np.uint8), ".tiff"),
        (np.full((20, 30, 3), 200, np.uint8), ".JPG"),
    ],
)
def test_any_depth_and_channels_become_bgr(tmp_path: Path, image: np.ndarray, suffix: str) -> None:
    write(tmp_path / f"x{suffix}", image)
    (frame,) = drain(folder(tmp_path))
    assert frame.image.shape == (20, 30, 3)
    assert frame.image.dtype == np.uint8
    assert abs(int(frame.image.mean()) - 200) <= 2


def test_exif_orientation_is_honoured(tmp_path: Path) -> None:
    image = np.zeros((20, 40, 3), np.uint8)
    image[:, :20] = 250
    ok, data = cv2.imencode(".jpg", image)
    assert ok
    # EXIF, big endian, one entry: orientation (0x0112), SHORT, 1 value, 6 = turn clockwise by 90 degrees.
    tiff = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    exif = b"Exif\0\0" + tiff
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    (tmp_path / "x.jpg").write_bytes(data.tobytes()[:2] + segment + data.tobytes()[2:])
    (frame,) = drain(folder(tmp_path))
    assert (frame.width, frame.height) == (20, 40)
    assert frame.image[:18].mean() > 200
    assert frame.image[22:].mean() < 50


def test_another_size_is_another_epoch(tmp_path: Path) -> None:
    write(tmp_path / "0.png", picture(0))
    write(tmp_path / "1.png", picture(1, 80, 60))
    assert [(f.epoch, f.sequence, f.width) for f in drain(folder(tmp_path))] == [(0, 0, 64), (1, 0, 80)]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("missing", "does not exist"),
        ("file", "is not a folder; kind: file"),
        ("empty", "holds no picture"),
        ("junk", "none of them is a picture"),
        ("pipe", "holds no picture"),
    ],
)
def test_no_folder_of_pictures_is_one_sentence(tmp_path: Path, kind: str, sentence: str) -> None:
    path = tmp_path / kind
    if kind == "file":
        path.touch()
    elif kind != "missing":
        path.mkdir()
    if kind == "junk":
        (path / "a.png").write_bytes(b"junk")
    if kind == "pipe":
        os.mkfifo(path / "a.png")
    runner = folder(path)
    assert drain(runner) == []
    assert runner.status().state is SourceState.FAILED
    assert sentence in (runner.status().error or "")
