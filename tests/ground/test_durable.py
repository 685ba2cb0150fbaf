"""Files are whole or absent, whatever happens while they are written."""

import hashlib
import os
from pathlib import Path

import pytest

from edge_runtime.durable import sha256_file, staged_directory, write_file


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "a").write_bytes(data)
    assert sha256_file(tmp_path / "a") == hashlib.sha256(data).hexdigest()


def test_a_failed_write_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a"
    write_file(target, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_unfinished_file_has_the_name_that_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real = os.fsync

    def look(handle: int) -> None:
        seen.extend(path.name for path in tmp_path.iterdir() if path.name != "a")
        real(handle)

    monkeypatch.setattr(os, "fsync", look)
    write_file(tmp_path / "a", b"new", 0o600, part=".a.part")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert seen == [".a.part"]
    (tmp_path / ".b.part").touch()
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "b", b"new", part=".b.part")


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "package"
    with staged_directory(target) as staged:
        (staged / "inner").mkdir()
        (staged / "inner" / "a").write_bytes(b"a")
        assert not target.exists()
    assert (target / "inner" / "a").read_bytes() == b"a"
    assert list(target.parent.iterdir()) == [target]


def test_an_error_keeps_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "package"
    target.mkdir()
    (target / "old").write_bytes(b"old")

    def interrupted() -> None:
        with staged_directory(target) as staged:
            (staged / "new").write_bytes(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert [path.name for path in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "package"
    for name in ("old", "new"):
        with staged_directory(target) as staged:
            (staged / name).write_bytes(b"")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [target]
