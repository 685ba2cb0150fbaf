"""Perception's start with a release on trial: counted, bounded, and never without something to run."""

import errno
import os
from pathlib import Path

import pytest

from edge_runtime.updates.store import (
    MAX_TRIAL_STARTS,
    ReleaseStore,
    begin_start,
    starting,
    trial_starts,
)
from tests.rigs.stored_releases import put


@pytest.fixture
def root(store: ReleaseStore) -> Path:
    return store.places.root


def test_without_any_release(root: Path) -> None:
    found = begin_start(root, "people")
    assert (found.release, found.files, found.gave_up) == (None, None, None)
    assert not (root / "trial-starts").exists()


def test_without_any_state_at_all(tmp_path: Path) -> None:
    assert begin_start(tmp_path / "absent", "people").release is None


def test_a_good_release_starts_as_often_as_it_likes(store: ReleaseStore, root: Path) -> None:
    sha256 = put(store, {"manifest.json": b"{}"})
    store.begin_trial("people", sha256)
    store.commit("people")
    for _ in range(10):
        found = begin_start(root, "people")
        assert (found.release, found.files) == (sha256, store.files(sha256))
    assert trial_starts(root, "people", sha256) == 0


def test_the_third_start_on_trial_is_the_last(store: ReleaseStore, root: Path) -> None:
    good, bad = put(store, {"manifest.json": b"1"}), put(store, {"manifest.json": b"2"})
    store.begin_trial("people", good, {"limit": 1})
    store.commit("people")
    store.begin_trial("people", bad)
    for start in range(1, MAX_TRIAL_STARTS + 1):
        assert begin_start(root, "people").release == bad
        assert trial_starts(root, "people", bad) == start
    for _ in range(3):
        found = begin_start(root, "people")
        assert (found.release, found.files, found.gave_up) == (good, store.files(good), bad)
        assert found.values == {"limit": 1}
        assert "3 times" in found.why
    assert store.slots().of("people").active == bad, "only the process of updates writes slots"
    # the same release, assigned once more, has its starts again
    store.revert("people")
    store.begin_trial("people", bad)
    assert begin_start(root, "people").release == bad


def test_back_to_what_the_configuration_names(store: ReleaseStore, root: Path) -> None:
    bad = put(store, {"manifest.json": b"2"})
    store.begin_trial("people", bad)
    for _ in range(MAX_TRIAL_STARTS):
        begin_start(root, "people")
    found = begin_start(root, "people")
    assert (found.release, found.files, found.gave_up) == (None, None, bad)


def test_slots_are_counted_apart(store: ReleaseStore, root: Path) -> None:
    one, two = put(store, {"a": b"1"}), put(store, {"a": b"2"})
    store.begin_trial("people", one)
    store.begin_trial("vehicles", two)
    for _ in range(5):
        begin_start(root, "people")
    assert begin_start(root, "vehicles").release == two


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xfe", b"a" * 64 + b" -1"])
def test_a_count_that_cannot_be_read_counts_as_enough(
    store: ReleaseStore, root: Path, content: bytes
) -> None:
    sha256 = put(store, {"a": b"1"})
    store.begin_trial("people", sha256)
    begin_start(root, "people")
    (root / "trial-starts" / "people").write_bytes(content)
    assert begin_start(root, "people").gave_up == sha256


def test_a_count_of_another_release_is_none(store: ReleaseStore, root: Path) -> None:
    sha256 = put(store, {"a": b"1"})
    store.begin_trial("people", sha256)
    (root / "trial-starts").mkdir()
    (root / "trial-starts" / "people").write_text("f" * 64 + " 3\n")
    assert begin_start(root, "people").release == sha256


def test_a_start_that_cannot_be_counted_is_not_made(
    store: ReleaseStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: without its count a release that kills perception would kill it for ever."""
    sha256 = put(store, {"a": b"1"})
    store.begin_trial("people", sha256)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(starting, "write_file", full)
    found = begin_start(root, "people")
    assert (found.release, found.gave_up) == (None, sha256)
    assert "No space left" in found.why


def test_a_release_that_is_gone(store: ReleaseStore, root: Path) -> None:
    import shutil

    good, bad = put(store, {"a": b"1"}), put(store, {"a": b"2"})
    for sha256 in (good, bad):
        store.begin_trial("people", sha256)
        store.commit("people")
    shutil.rmtree(root / "releases" / bad)
    assert begin_start(root, "people").release == good
    shutil.rmtree(root / "releases" / good)
    found = begin_start(root, "people")
    assert (found.release, found.gave_up) == (None, bad)
