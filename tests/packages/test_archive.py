"""Archives are deterministic, and what comes out of one is only what a package holds."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from edge_runtime.errors import PackageError
from edge_runtime.packages.archive import MAX_MEMBERS, default_cache, pack, unpacked


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def plain(name: str, data: bytes = b"{}") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), data


def special(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


MANIFEST = plain("manifest.json")


@pytest.mark.parametrize(
    "member",
    [
        plain("/etc/passwd"),
        plain("../outside"),
        plain("golden/../../outside"),
        plain("./manifest2.json"),
        special("link", tarfile.SYMTYPE, "/etc/passwd"),
        special("hard", tarfile.LNKTYPE, "manifest.json"),
        special("pipe", tarfile.FIFOTYPE),
        special("device", tarfile.CHRTYPE),
        special("folder", tarfile.DIRTYPE),
    ],
    ids=lambda member: member[0].name,
)
def test_what_a_package_never_holds_is_refused(tmp_path: Path, member: tuple[tarfile.TarInfo, bytes]) -> None:
    archive = tar(tmp_path / "bad.tar", plain("manifest.json"), member)
    with pytest.raises(PackageError, match="not a plain file inside the package"):
        unpacked(archive, tmp_path / "cache")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [archive]


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    archive = tar(tmp_path / "twice.tar", plain("manifest.json"), plain("manifest.json", b"other"))
    with pytest.raises(PackageError, match="twice"):
        unpacked(archive, tmp_path / "cache")


def test_an_archive_of_thousands_of_files_is_refused(tmp_path: Path) -> None:
    archive = tar(tmp_path / "many.tar", *(plain(f"f{number}") for number in range(MAX_MEMBERS + 1)))
    with pytest.raises(PackageError, match="more than"):
        unpacked(archive, tmp_path / "cache")


@pytest.mark.parametrize("data", [b"", b"no archive at all", b"\x1f\x8b\x08rubbish"])
def test_what_is_no_archive_says_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(PackageError, match=r"archive|manifest"):
        unpacked(path, tmp_path / "cache")


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "packed.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("manifest.json"), io.BytesIO())
    with pytest.raises(PackageError, match="neither a package folder nor an archive"):
        unpacked(path, tmp_path / "cache")


def test_an_archive_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"no manifest.json"):
        unpacked(tar(tmp_path / "a.tar", plain("weights.onnx")), tmp_path / "cache")


def test_an_archive_is_unpacked_once(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar", plain("manifest.json"), plain("golden/a.npz", b"golden"))
    first = unpacked(archive, tmp_path / "cache")
    stamp = (first / "golden/a.npz").stat().st_ino
    assert unpacked(archive, tmp_path / "cache") == first
    assert (first / "golden/a.npz").stat().st_ino == stamp
    assert (first / "golden/a.npz").read_bytes() == b"golden"


def test_the_same_files_give_the_same_bytes_whenever_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"content")
    members = {"weights.onnx": file, "manifest.json": file}
    pack(members, tmp_path / "one.tar")
    os.utime(file, (1, 1))
    file.chmod(0o600)
    pack(dict(reversed(members.items())), tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as archive:
        assert archive.getnames()[0] == "manifest.json"


def test_a_member_that_is_gone_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="gone"):
        pack({"manifest.json": tmp_path / "gone"}, tmp_path / "a.tar")
    assert not (tmp_path / "a.tar").exists()


def test_a_name_too_long_for_the_format_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"content")
    with pytest.raises(PackageError, match="cannot be written"):
        pack({"manifest.json": file, "x" * 200: file}, tmp_path / "a.tar")


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EDGE_RUNTIME_CACHE", raising=False)
    assert default_cache() == tmp_path / "edge-runtime"
    monkeypatch.setenv("EDGE_RUNTIME_CACHE", str(tmp_path / "own"))
    assert default_cache() == tmp_path / "own"
    monkeypatch.delenv("EDGE_RUNTIME_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "edge-runtime"
