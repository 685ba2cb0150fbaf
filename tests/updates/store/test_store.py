"""The store: content by digest, releases as links to it, and what may and may not happen to them."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.store import ReleaseStore
from edge_runtime.updates.wants import Want
from tests.rigs.small_disk import fill_up, small_disk
from tests.rigs.stored_releases import bring, digest, made, put, want

WEIGHTS = os.urandom(50_000)
FIRST = {"manifest.json": b'{"labels": ["person"]}', "weights/model.onnx": WEIGHTS}
SECOND = {"manifest.json": b'{"labels": ["human"]}', "weights/model.onnx": WEIGHTS}


@contextlib.contextmanager
def refused(code: UpdateCode, *, again: bool) -> Iterator[None]:
    with pytest.raises(UpdateRefused) as caught:
        yield
    assert (caught.value.code, caught.value.again) == (code, again)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_again(store: ReleaseStore, sha256: str) -> list[Want]:
    """What a process that begins anew finds damaged in a release: it believes no file before it has read it."""
    anew = ReleaseStore(store.places.root)
    bundle = anew.bundle(sha256)
    assert bundle is not None
    return anew.missing(bundle)


def test_a_release_is_its_files(store: ReleaseStore) -> None:
    bundle, terms, sha256 = made(FIRST)
    assert {one.sha256 for one in store.missing(bundle)} == {digest(data) for data in FIRST.values()}
    bring(store, FIRST, bundle)
    assert store.missing(bundle) == []
    folder = store.keep(bundle, terms)
    assert folder == store.files(sha256)
    assert tree(folder) == FIRST
    assert (store.bundle(sha256), store.terms(sha256)) == (bundle, terms)
    assert store.places.blob(digest(WEIGHTS)).is_file()
    again = ReleaseStore(store.places.root)
    assert (again.bundle(sha256), again.terms(sha256), again.missing(bundle)) == (bundle, terms, [])


def test_a_change_of_labels_does_not_fetch_the_weights_again(store: ReleaseStore) -> None:
    put(store, FIRST)
    bundle, terms, _ = made(SECOND, counter=2)
    assert bring(store, SECOND, bundle) == [digest(SECOND["manifest.json"])]
    folder = store.keep(bundle, terms)
    assert tree(folder) == SECOND
    blob = store.places.blob(digest(WEIGHTS))
    assert (folder / "weights" / "model.onnx").samefile(blob)
    assert blob.stat().st_nlink == 3


def test_one_content_under_two_names(store: ReleaseStore) -> None:
    files = {"a.txt": b"same", "b/c.txt": b"same"}
    bundle, terms, _ = made(files)
    assert len(store.missing(bundle)) == 1
    bring(store, files, bundle)
    assert tree(store.keep(bundle, terms)) == files


def test_only_the_right_content_is_taken(store: ReleaseStore, tmp_path: Path) -> None:
    part = store.places.parts / "x.part"
    for data in (b"other", b"right!", b""):
        part.write_bytes(data)
        assert not store.take(part, want(b"right"))
        assert part.read_bytes() == data
    assert not store.places.blob(digest(b"right")).is_file()
    part.unlink()
    (tmp_path / "elsewhere").write_bytes(b"right")
    part.symlink_to(tmp_path / "elsewhere")
    assert not store.take(part, want(b"right")), "a link is none of ours"


def test_kind_24_a_release_holds_what_its_list_says_and_no_links(store: ReleaseStore, tmp_path: Path) -> None:
    """model-transparency #549: a link within a model's folder was an error, or was followed."""
    sha256 = put(store, FIRST)
    blob, elsewhere = store.places.blob(digest(WEIGHTS)), tmp_path / "elsewhere"
    elsewhere.write_bytes(WEIGHTS)
    blob.unlink()
    blob.symlink_to(elsewhere)
    assert read_again(store, sha256) == [want(WEIGHTS)], (
        "the content is right, and may become another at any time"
    )
    assert not blob.is_symlink()
    assert elsewhere.read_bytes() == WEIGHTS
    bundle, terms, _ = made(FIRST)
    bring(store, FIRST, bundle)
    (store.files(sha256) / "added.txt").write_text("by hand")
    folder = store.files(sha256)
    (folder / "weights" / "model.onnx").unlink()
    (folder / "weights" / "model.onnx").symlink_to(elsewhere)
    assert tree(store.keep(bundle, terms)) == FIRST
    assert not any(path.is_symlink() for path in store.files(sha256).rglob("*"))


def test_content_that_is_here_is_never_written_over(store: ReleaseStore) -> None:
    put(store, FIRST)
    blob = store.places.blob(digest(WEIGHTS))
    before = blob.stat()
    part = store.places.parts / "again.part"
    part.write_bytes(WEIGHTS)
    assert store.take(part, want(WEIGHTS))
    assert not part.exists()
    assert (blob.stat().st_ino, blob.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert blob.stat().st_mode & 0o222 == 0


def test_new_terms_for_the_same_files(store: ReleaseStore) -> None:
    sha256 = put(store, FIRST, counter=1)
    inode = store.files(sha256).stat().st_ino
    put(store, FIRST, counter=1)
    assert store.files(sha256).stat().st_ino == inode, "asked again, nothing happens"
    bundle, terms, _ = made(FIRST, counter=9)
    store.keep(bundle, terms)
    found = store.terms(sha256)
    assert found is not None
    assert found.counter == 9


def test_nothing_is_kept_without_its_content(store: ReleaseStore) -> None:
    bundle, terms, sha256 = made(FIRST)
    with refused(UpdateCode.CONTENT_MISMATCH, again=True):
        store.keep(bundle, terms)
    assert not store.places.release(sha256).exists()
    with refused(UpdateCode.ACTIVATION, again=True):
        store.begin_trial("people", sha256)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("run.py", b"print()"),
        ("weights.onnx", b"\x7fELF" + bytes(100)),
        ("notes.txt", b"#!/bin/sh\n"),
        ("model.pt", b"PK\x03\x04" + bytes(100)),
    ],
)
def test_what_can_be_executed_is_refused(store: ReleaseStore, path: str, data: bytes) -> None:
    files = {"manifest.json": b"{}", path: data}
    bundle, terms, sha256 = made(files)
    bring(store, files, bundle)
    with refused(UpdateCode.EXECUTABLE_CONTENT, again=False):
        store.keep(bundle, terms)
    assert not store.places.release(sha256).exists()


def test_a_damaged_blob_is_found_and_fetched_again(store: ReleaseStore) -> None:
    sha256 = put(store, FIRST)
    store.begin_trial("people", sha256)
    assert read_again(store, sha256) == []
    blob = store.places.blob(digest(WEIGHTS))
    blob.chmod(0o600)
    with blob.open("r+b") as file:
        file.seek(1000)
        file.write(b"\x00\x01\x02")
    assert read_again(store, sha256) == [want(WEIGHTS)]
    assert not store.places.blob(digest(WEIGHTS)).is_file()
    bundle, terms, _ = made(FIRST)
    with refused(UpdateCode.CONTENT_MISMATCH, again=True):
        store.keep(bundle, terms)
    bring(store, FIRST, bundle)
    assert tree(store.keep(bundle, terms)) == FIRST
    assert read_again(store, sha256) == []
    assert store.slots().of("people").active == sha256


def test_damage_behind_the_files_back_is_found_by_reading(store: ReleaseStore) -> None:
    """A disk that rots changes no time of the file."""
    sha256 = put(store, FIRST)
    blob = store.places.blob(digest(WEIGHTS))
    times = blob.stat()
    blob.chmod(0o600)
    with blob.open("r+b") as file:
        file.write(b"\x00")
    os.utime(blob, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read_again(store, sha256) == [want(WEIGHTS)]


def test_damage_is_found_before_reuse_by_another_release(store: ReleaseStore) -> None:
    put(store, FIRST)
    blob = store.places.blob(digest(WEIGHTS))
    blob.chmod(0o600)
    blob.write_bytes(WEIGHTS[:-1] + b"?")
    bundle, _, _ = made(SECOND)
    assert {one.sha256 for one in store.missing(bundle)} == {digest(data) for data in SECOND.values()}


@pytest.mark.parametrize("damage", ["gone", "rubbish", "another"])
def test_a_damaged_list_of_files(store: ReleaseStore, damage: str) -> None:
    sha256 = put(store, FIRST)
    path = store.places.bundle(sha256)
    path.unlink()
    if damage == "rubbish":
        path.write_bytes(b"{")
    if damage == "another":
        path.write_bytes(made(SECOND)[0].canonical_bytes())
    assert store.bundle(sha256) is None
    put(store, FIRST)
    assert read_again(store, sha256) == []


def test_a_small_blob_is_read_whole_or_not_at_all(store: ReleaseStore) -> None:
    put(store, FIRST)
    manifest = FIRST["manifest.json"]
    assert store.read(digest(manifest), len(manifest)) == manifest
    assert store.read(digest(manifest), len(manifest) + 1) is None
    assert store.read("0" * 64, 1) is None


def test_the_quota_takes_the_oldest_and_nothing_that_is_needed(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path / "updates", quota_bytes=500_000, reserve_bytes=0)
    releases = [put(store, {"w": os.urandom(100_000)}, counter=n) for n in range(1, 5)]
    good, old, trial, assigned = releases
    store.begin_trial("people", good)
    store.commit("people")
    store.begin_trial("people", trial)
    store.prune([assigned])
    store.require_space(100_000)
    assert all(store.bundle(one) for one in releases), "there was room"
    store.require_space(200_000)
    assert store.bundle(old) is None
    assert len(list(store.places.blobs.iterdir())) == 3
    for one in (good, trial, assigned):
        assert read_again(store, one) == []
    with refused(UpdateCode.NO_SPACE, again=True):
        store.require_space(200_001)
    assert all(read_again(store, one) == [] for one in (good, trial, assigned))


def test_what_came_for_an_assigned_release_is_not_pushed_out(tmp_path: Path) -> None:
    """Its first half is here, and it is no release yet."""
    store = ReleaseStore(tmp_path / "updates", quota_bytes=300_000, reserve_bytes=0)
    files = {"a": os.urandom(100_000), "b": os.urandom(100_000)}
    bundle, _, sha256 = made(files)
    store.missing(bundle)
    part = store.places.parts / f"{digest(files['a'])}.part"
    part.write_bytes(files["a"])
    assert store.take(part, want(files["a"]))
    with refused(UpdateCode.NO_SPACE, again=True):
        store.require_space(250_000)
    assert store.places.blob(digest(files["a"])).is_file()
    store.prune([sha256])
    assert store.places.blob(digest(files["a"])).is_file()
    store.prune([])
    assert not store.places.blob(digest(files["a"])).is_file()


@pytest.mark.parametrize("damaged", [False, True])
def test_what_came_before_a_restart_stays_for_an_assigned_release(tmp_path: Path, damaged: bool) -> None:
    root = tmp_path / "updates"
    store = ReleaseStore(root, reserve_bytes=0)
    files = {"a": os.urandom(1000), "b": os.urandom(1000)}
    bundle, _, sha256 = made(files)
    first, second = (digest(data) for data in files.values())
    store.missing(bundle)
    (store.places.blobs / sha256).write_bytes(b"{}" if damaged else bundle.canonical_bytes())
    part = store.places.parts / f"{first}.part"
    part.write_bytes(files["a"])
    assert store.take(part, want(files["a"]))
    (store.places.parts / f"{second}.part").write_bytes(files["b"][:500])
    again = ReleaseStore(root, reserve_bytes=0)
    again.prune([sha256])
    assert again.places.blob(first).is_file() is not damaged
    assert (again.places.parts / f"{second}.part").is_file() is not damaged
    again.prune([])
    assert not again.places.blob(first).is_file()
    assert list(again.places.parts.iterdir()) == []


def test_leftovers_are_cleared_away(store: ReleaseStore) -> None:
    bundle, _, sha256 = made(FIRST)
    wanted, other = digest(WEIGHTS), "f" * 64
    for name in (f"{wanted}.part", f"{wanted}.etag", f"{other}.part", f"{other}.etag", f"{sha256}.part"):
        (store.places.parts / name).write_bytes(b"part")
    store.missing(bundle)
    store.prune([sha256])
    left = {path.name for path in store.places.parts.iterdir()}
    assert left == {f"{wanted}.part", f"{wanted}.etag", f"{sha256}.part"}
    store.prune([])
    assert list(store.places.parts.iterdir()) == []


def test_what_a_killed_process_left_is_cleared_away(store: ReleaseStore) -> None:
    root = store.places.root
    sha256 = put(store, FIRST)
    (root / "releases" / f".{'1' * 64}.abc").mkdir()
    (root / "releases" / f".{'1' * 64}.abc" / "files").mkdir()
    (root / ".slots.json.xyz").write_bytes(b"half")
    (root / "parts" / f"{'2' * 64}.local").write_bytes(b"half")
    (root / "parts" / f"{'2' * 64}.part").write_bytes(b"half")
    (root / "journal.json").write_bytes(b"of others")
    (root / ".journal.json.tmp").write_bytes(b"of others")
    again = ReleaseStore(root)
    assert read_again(again, sha256) == []
    assert {path.name for path in root.iterdir()} == {
        "blobs",
        "parts",
        "releases",
        "journal.json",
        ".journal.json.tmp",
    }
    assert {path.name for path in (root / "releases").iterdir()} == {sha256}
    assert {path.name for path in (root / "parts").iterdir()} == {f"{'2' * 64}.part"}


def test_everything_unneeded_on_request(store: ReleaseStore) -> None:
    keep, other = put(store, {"a": b"1"}), put(store, {"a": b"2"})
    store.begin_trial("people", keep)
    store.prune()
    assert store.bundle(other) is not None
    store.prune(all_unneeded=True)
    assert store.bundle(other) is None
    assert read_again(store, keep) == []


def test_use_counts_and_not_the_clock(store: ReleaseStore) -> None:
    """The order is kept where the clock went back by decades."""
    old, new = put(store, {"a": b"1"}), put(store, {"a": b"2"})
    ahead = store.places.release(new).stat().st_mtime_ns + 10**18
    os.utime(store.places.release(new), ns=(ahead, ahead))
    put(store, {"a": b"1"})
    assert store.places.release(old).stat().st_mtime_ns > ahead
    newest = put(store, {"a": b"3"})
    assert store.places.release(newest).stat().st_mtime_ns > ahead


def test_slots_of_the_store(store: ReleaseStore) -> None:
    sha256 = put(store, FIRST)
    assert store.begin_trial("people", sha256, {"x": 1}).trial
    assert store.begin_trial("people", sha256, {"x": 1}) == store.slots().of("people")
    assert store.commit("people").active == sha256
    assert store.commit("people") == store.revert("people") == store.slots().of("people")
    assert not ReleaseStore(store.places.root).slots().of("people").trial


@pytest.mark.parametrize("number", [errno.EPERM, errno.EXDEV])
def test_a_disk_without_hard_links_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As FAT on a memory card."""

    def none(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "hardlink_to", none)
    store = ReleaseStore(tmp_path / "updates", reserve_bytes=0)
    sha256 = put(store, FIRST)
    assert tree(store.files(sha256)) == FIRST
    assert not (store.files(sha256) / "weights/model.onnx").samefile(store.places.blob(digest(WEIGHTS)))
    inode = store.files(sha256).stat().st_ino
    put(store, FIRST)
    assert store.files(sha256).stat().st_ino == inode


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as place:
        store = ReleaseStore(place / "updates", reserve_bytes=1 << 20)
        good, other = put(store, FIRST), put(store, SECOND)
        store.begin_trial("people", good)
        store.commit("people")
        filler = fill_up(place)
        with refused(UpdateCode.NO_SPACE, again=True):
            store.begin_trial("people", other)
        assert store.slots().of("people").active == good
        bundle, terms, sha256 = made({"a": b"1", "b": b"2"})
        with refused(UpdateCode.NO_SPACE, again=True):
            store.require_space(1)
        filler.unlink()
        bring(store, {"a": b"1", "b": b"2"}, bundle)
        filler = fill_up(place)
        with refused(UpdateCode.NO_SPACE, again=True):
            store.keep(bundle, terms)
        assert not store.places.release(sha256).exists()
        assert [path.name for path in (store.places.root / "releases").iterdir() if path.name[0] == "."] == []
        filler.unlink()
        store.keep(bundle, terms)
        assert read_again(store, sha256) == read_again(store, good) == []


def test_check_space_counts_what_is_here(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path / "updates", quota_bytes=100_000, reserve_bytes=0)
    files = {"a": os.urandom(60_000), "b": os.urandom(40_000)}
    bundle, _, _ = made(files)
    store.check_space(bundle)
    (store.places.parts / f"{digest(files['a'])}.part").write_bytes(files["a"][:30_000])
    store.check_space(bundle)
    larger, _, _ = made({**files, "c": b"!"})
    with refused(UpdateCode.NO_SPACE, again=True):
        store.check_space(larger)


def test_names_come_from_digests_only() -> None:
    sha256 = hashlib.sha256(made(FIRST)[0].canonical_bytes()).hexdigest()
    assert made(FIRST)[2] == sha256
    assert Want(sha256, 1) == Want(sha256, 1)
