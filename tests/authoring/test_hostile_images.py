"""Images and file names of a COCO set that cannot be read."""

import json
import os
import struct
import zlib
from pathlib import Path

import pytest

from edge_runtime.authoring.coco import CocoImage, read_coco
from edge_runtime.authoring.evaluate import read_image
from edge_runtime.errors import ConfigError, ImageError


def test_a_header_that_promises_too_many_pixels(tmp_path: Path) -> None:
    head = b"IHDR" + struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    (tmp_path / "huge.png").write_bytes(png + b"\0" * 64)
    with pytest.raises(ImageError, match="can be decoded"):
        read_image(tmp_path, CocoImage(id=1, file_name="huge.png"))


def test_a_name_that_is_too_long_for_the_disk_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="File name too long"):
        read_image(tmp_path, CocoImage(id=1, file_name="a" * 300))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path, CocoImage(id=1, file_name="pipe.png"))


@pytest.mark.parametrize("name", ["", "a\0b.jpg", "a" * 5000])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    document = {
        "images": [{"id": 1, "file_name": name}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}],
        "categories": [{"id": 1, "name": "cat"}],
    }
    (tmp_path / "truth.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"images\[0\]\.file_name: no file can have this name") as caught:
        read_coco(tmp_path / "truth.json")
    assert len(str(caught.value)) < 500
