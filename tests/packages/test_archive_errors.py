"""Errors about an archive speak of the archive; the cache keeps only what is valid."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from edge_runtime.errors import PackageError
from edge_runtime.packages import open_package, read_manifest


def tar(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name.replace("__", "/").replace("_json", ".json"))
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"manifest_json": b"{}"}, "a.tar/manifest.json: .*Field required"),
        ({"manifest_json": b"not json"}, "a.tar/manifest.json: "),
        (
            {"manifest_json": b"{}", "m" * 260: b""},
            "a.tar: its member 'm+' cannot be unpacked: File name too",
        ),
        ({"a": b"", "a__b": b"", "manifest_json": b"{}"}, "a.tar: its member 'a/b' cannot be unpacked"),
    ],
)
def test_errors_name_the_archive_and_nothing_stays(
    tmp_path: Path, members: dict[str, bytes], sentence: str
) -> None:
    cache = tmp_path / "cache"
    archive = tar(tmp_path / "a.tar", **members)
    for _ in range(2):
        with pytest.raises(PackageError, match=sentence) as caught:
            open_package(archive, cache=cache)
        assert str(cache) not in str(caught.value)
        assert list((cache / "packages").iterdir()) == []


def test_a_pipe_is_called_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PackageError, match="neither a folder nor a regular file"):
        read_manifest(tmp_path / "pipe")
