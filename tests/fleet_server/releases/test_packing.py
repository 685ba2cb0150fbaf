"""A folder becomes one file, the same bytes each time, and nothing that could be executed gets into it."""

import io
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError, EdgeRuntimeError, PackageError
from edge_runtime.protocol.release import BUNDLE_NAME
from fleet_server.releases.packing import content_of, parse_bundle, read_bundle, unpack_release, write_release
from fleet_server.releases.problems import ReleaseRefused
from tests.rigs.release_parties import configuration


@pytest.fixture
def folder(packages: Callable[..., Path], tmp_path: Path) -> Path:
    """A package to spoil."""
    return shutil.copytree(packages(seed=1), tmp_path / "package")


def test_the_same_folder_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    first = write_release(content_of(folder), tmp_path / "a.release")
    again = shutil.copytree(folder, tmp_path / "elsewhere")
    for number, path in enumerate(sorted(again.rglob("*"), reverse=True)):
        os.utime(path, (number, number))
    (again / "manifest.json").chmod(0o600)
    assert write_release(content_of(again), tmp_path / "b.release") == first
    assert (tmp_path / "a.release").read_bytes() == (tmp_path / "b.release").read_bytes()


def test_what_was_packed_comes_out_again(folder: Path, tmp_path: Path) -> None:
    content = content_of(folder)
    write_release(content, tmp_path / "a.release")
    out = unpack_release(tmp_path / "a.release", tmp_path / "out")
    assert out.bundle == content.bundle == read_bundle(tmp_path / "a.release")
    assert {path: place.read_bytes() for path, place in out.files.items()} == {
        path: place.read_bytes() for path, place in content.files.items()
    }
    assert [file.path for file in content.bundle.files] == sorted(content.files)


def test_a_configuration_is_packed_under_a_name_that_is_given(tmp_path: Path) -> None:
    folder = configuration(tmp_path / "c")
    with pytest.raises(ConfigError, match="--name"):
        content_of(folder)
    (folder / "policy.yaml").write_text("a: 1\n")
    assert [file.path for file in content_of(folder, "base").bundle.files] == ["overlay.yaml", "policy.yaml"]
    with pytest.raises(ConfigError):
        content_of(folder, "Not A Name")


def _symlink(folder: Path) -> None:
    (folder / "CARD.md").unlink()
    (folder / "CARD.md").symlink_to("/etc/passwd")


def _linked_folder(folder: Path) -> None:
    (folder / "golden").rename(folder.parent / "golden")
    (folder / "golden").symlink_to(folder.parent / "golden")


def _executable(folder: Path) -> None:
    (folder / "CARD.md").chmod(0o755)


def _script(folder: Path) -> None:
    (folder / "CARD.md").write_text("#!/bin/sh\nrm -r /\n")


def _foreign(folder: Path) -> None:
    (folder / "notes.txt").write_text("hello")


def _hidden(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _damaged(folder: Path) -> None:
    (folder / "yard.onnx").write_bytes(b"\x08\x07other")


@pytest.mark.parametrize(
    ("spoil", "error", "sentence"),
    [
        (_symlink, ReleaseRefused, "a symbolic link"),
        (_linked_folder, ReleaseRefused, "a symbolic link"),
        (_executable, ReleaseRefused, "marked executable"),
        (_script, ReleaseRefused, "a script"),
        (_foreign, ReleaseRefused, "is no part of the model"),
        (_hidden, ReleaseRefused, "is no part of the model"),
        (_fifo, ReleaseRefused, "no regular file"),
        (_damaged, PackageError, "is not the file that the manifest names"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_may_not_be_in_a_release(
    folder: Path, spoil: Callable[[Path], None], error: type[EdgeRuntimeError], sentence: str
) -> None:
    """Report 24 of research/ota.md: a link, or a path that a list leaves out, is refused when packed."""
    spoil(folder)
    with pytest.raises(error, match=sentence):
        content_of(folder)


def test_a_file_that_is_no_release_is_said_to_be_none(tmp_path: Path) -> None:
    for data in (b"", b"hello", b"\0" * 4096):
        (tmp_path / "x").write_bytes(data)
        for ask in (read_bundle, lambda path: unpack_release(path, tmp_path / "out")):
            with pytest.raises(ConfigError, match="is no release"):
                ask(tmp_path / "x")
    with pytest.raises(ConfigError):
        read_bundle(tmp_path / "absent")


@pytest.mark.parametrize("where", ["length", "content", "more", "less", "outside"])
def test_an_archive_that_was_tampered_with_is_refused(folder: Path, tmp_path: Path, where: str) -> None:
    write_release(content_of(folder), tmp_path / "a.release")
    with tarfile.open(tmp_path / "a.release") as tar:
        members = [(info.name, (tar.extractfile(info) or io.BytesIO()).read()) for info in tar]
    if where == "length":
        members[1] = (members[1][0], members[1][1] + b"x")
    elif where == "content":
        members[1] = (members[1][0], bytes(len(members[1][1])))
    elif where == "more":
        members.append(("files/run.py", b"import os"))
    elif where == "less":
        members.pop()
    else:
        members.append(("../../evil", b"x"))
    with tarfile.open(tmp_path / "b.release", "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with pytest.raises(EdgeRuntimeError):
        unpack_release(tmp_path / "b.release", tmp_path / "out")
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path.parent / "evil").exists()


def test_a_bundle_has_one_form(folder: Path) -> None:
    data = content_of(folder).bundle.canonical_bytes()
    assert parse_bundle(data).canonical_bytes() == data
    for other in (data + b" ", b" " + data, b"{}", data.replace(b'"kind"', b'"kind" ')):
        with pytest.raises(ReleaseRefused):
            parse_bundle(other)
    assert BUNDLE_NAME not in content_of(folder).files
