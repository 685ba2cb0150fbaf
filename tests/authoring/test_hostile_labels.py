"""Label files that no person means are refused in one sentence."""

import os
from pathlib import Path

import pytest

from edge_runtime.authoring.labels import read_labels
from edge_runtime.errors import PackageError


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.json", '["cat", "\\ud800"]', r"class 1, '.ud800', is not printable"),
        ("a.json", '["cat", "\\u0000"]', "not printable|not valid"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.yaml", "names: [2001-99-99]", "not valid YAML"),
        ("a.txt", "person\n" * 80, "'person' is given to 80 classes"),
        ("a.txt", "cat\n\x1b[2Jdog\n", "not printable"),
    ],
)
def test_hostile_files(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(PackageError, match=sentence) as caught:
        read_labels(tmp_path / name)
    str(caught.value).encode()


def test_a_pipe_and_a_huge_file_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PackageError, match="not a regular file"):
        read_labels(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(PackageError, match="larger than a label file"):
        read_labels(tmp_path / "huge")
