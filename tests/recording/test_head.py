"""The head of a recording: one sentence for whatever is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.config import load_config
from edge_runtime.recording import Head, RecordingError, open_recording
from edge_runtime.recording.head import HEAD
from tests.rigs.recordings import Field, write_config


@pytest.fixture
def head(tmp_path: Path) -> dict[str, Any]:
    return Field(load_config(write_config(tmp_path)), tmp_path / "r").head().model_dump(mode="json")


def put(folder: Path, text: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / HEAD).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_a_newer_minor_version_is_read_and_another_major_one_is_refused(tmp_path: Path, head: Any) -> None:
    newer = put(tmp_path / "newer", json.dumps({**head, "v": [1, 7], "mood": "good"}))
    assert Head.read(newer).v == (1, 7)
    other = put(tmp_path / "other", json.dumps({**head, "v": [2, 0]}))
    with pytest.raises(
        RecordingError, match=r"version 2\.0 .* reads 1: replay it with the software that recorded"
    ):
        open_recording(other)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        (b"\xff\x00\x01", "is not JSON"),
        ('{"format": "edge-runtime rec', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is no head of a recording"),
        ('{"format": "video"}', "is no head of a recording"),
        ('{"format": "edge-runtime recording"}', "declares no version"),
        ('{"format": "edge-runtime recording", "v": [1, true]}', "declares no version"),
        ('{"format": "edge-runtime recording", "v": [1, 0]}', "is damaged"),
    ],
)
def test_what_is_no_head_is_said_in_one_sentence(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(RecordingError, match=said) as caught:
        open_recording(put(tmp_path / "r", text))
    assert "\n" not in str(caught.value)


def test_a_field_of_our_own_version_that_nobody_knows_is_refused(tmp_path: Path, head: Any) -> None:
    with pytest.raises(RecordingError, match="is damaged"):
        Head.read(put(tmp_path / "r", json.dumps({**head, "mood": "good"})))


def test_folders_that_hold_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="is not there"):
        open_recording(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(RecordingError, match="is no folder"):
        open_recording(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordingError, match="holds no recording"):
        open_recording(tmp_path / "empty")
