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
from edge_runtime.updates.store.starting import MAX_WATCHED_STARTS, WATCHED_S, stayed
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


def accepted(store: ReleaseStore, content: bytes) -> str:
    sha256 = put(store, {"manifest.json": content})
    store.begin_trial("people", sha256)
    begin_start(store.places.root, "people")
    store.commit("people")
    return sha256


def test_a_good_release_starts_as_often_as_it_likes(store: ReleaseStore, root: Path) -> None:
    sha256 = accepted(store, b"{}")
    stayed(root, "people", sha256, WATCHED_S)
    for _ in range(10):
        found = begin_start(root, "people")
        assert (found.release, found.files) == (sha256, store.files(sha256))
    assert list((root / "watched-starts").iterdir()) == [], "nothing is written at its starts any more"


def test_one_that_was_accepted_and_does_not_stay_is_given_up_after_five_starts(
    store: ReleaseStore, root: Path
) -> None:
    good, bad = accepted(store, b"1"), accepted(store, b"2")
    for _ in range(MAX_WATCHED_STARTS):
        assert begin_start(root, "people").release == bad
    for _ in range(3):
        found = begin_start(root, "people")
        assert (found.release, found.gave_up) == (good, bad)
        assert "5 times in a row" in found.why
    store.give_up("people", "f" * 64)
    assert store.slots().of("people").active == bad
    store.give_up("people", bad)
    assert store.slots().of("people").active == good
    for _ in range(10):
        assert begin_start(root, "people").release == good, "what was good before is not watched anew"


def test_what_was_given_up_stays_so_after_a_reboot(store: ReleaseStore, root: Path) -> None:
    good, bad = accepted(store, b"1"), accepted(store, b"2")
    for _ in range(MAX_WATCHED_STARTS + 1):
        found = begin_start(root, "people", boot="first")
    assert found.gave_up == bad
    for boot in ("second", "third"):
        found = begin_start(root, "people", boot=boot)
        assert (found.release, found.gave_up) == (good, bad)


def test_starts_that_ended_with_the_device_are_no_crashes(store: ReleaseStore, root: Path) -> None:
    """A robot that is switched on and off by hand: nobody asks perception to end."""
    accepted(store, b"1")
    sha256 = accepted(store, b"2")
    for boot in range(3 * MAX_WATCHED_STARTS):
        assert begin_start(root, "people", boot=f"boot-{boot}").release == sha256
    # what crashes and takes now and then the device along is given up for its crashes alone
    opened = [begin_start(root, "people", boot=f"late-{start // 2}").release for start in range(20)]
    assert opened.index(next(one for one in opened if one != sha256)) == 2 * MAX_WATCHED_STARTS - 1


def test_a_later_trial_leaves_the_watch_as_it_was(store: ReleaseStore, root: Path) -> None:
    good, bad = accepted(store, b"1"), accepted(store, b"2")
    later = put(store, {"manifest.json": b"3"})
    for _ in range(MAX_WATCHED_STARTS - 1):
        assert begin_start(root, "people").release == bad
    store.begin_trial("people", later)
    assert begin_start(root, "people").release == later
    store.revert("people")
    assert begin_start(root, "people").release == bad
    for _ in range(3):
        found = begin_start(root, "people")
        assert (found.release, found.gave_up) == (good, bad)


def test_a_trial_goes_back_past_what_does_not_stay(store: ReleaseStore, root: Path) -> None:
    """Both do not stay, and nobody writes slots: perception comes to the one that did by itself."""
    good, bad = accepted(store, b"1"), accepted(store, b"2")
    later = put(store, {"manifest.json": b"3"})
    store.begin_trial("people", later)
    opened = [begin_start(root, "people").release for _ in range(MAX_TRIAL_STARTS + MAX_WATCHED_STARTS + 3)]
    assert opened == [later] * MAX_TRIAL_STARTS + [bad] * MAX_WATCHED_STARTS + [good] * 3
    stayed(root, "people", later, 3600.0)
    assert begin_start(root, "people").gave_up == later
    store.revert("people")
    assert begin_start(root, "people").gave_up == bad


@pytest.mark.parametrize("lived_s", [600.0, 1e4, 0.0])
def test_starts_that_stayed_or_ended_in_order_are_not_held_against_it(
    store: ReleaseStore, root: Path, lived_s: float
) -> None:
    sha256 = accepted(store, b"1")
    for _ in range(20):
        for _ in range(MAX_WATCHED_STARTS - 1):
            assert begin_start(root, "people").release == sha256
        stayed(root, "people", sha256, lived_s)


def test_the_watch_is_a_day_in_use_and_not_a_day_off(store: ReleaseStore, root: Path) -> None:
    sha256, file = accepted(store, b"1"), root / "watched-starts" / "people"
    for _ in range(WATCHED_S // 3600 - 1):
        stayed(root, "people", sha256, 3600.0)
        assert file.exists()
    stayed(root, "people", "f" * 64, 1e9)
    assert file.exists(), "another release's time is not its own"
    stayed(root, "people", sha256, 3600.0)
    assert not file.exists()
    stayed(root, "people", sha256, 3600.0)
    assert not file.exists()


def test_values_of_an_accepted_release_are_a_trial_of_their_own(store: ReleaseStore, root: Path) -> None:
    sha256 = accepted(store, b"1")
    for _ in range(MAX_WATCHED_STARTS - 1):
        begin_start(root, "people")
    store.begin_trial("people", sha256, {"limit": 2})
    for _ in range(MAX_TRIAL_STARTS):
        assert begin_start(root, "people").release == sha256
    assert begin_start(root, "people").gave_up == sha256


def test_a_trial_is_not_ended_by_staying(store: ReleaseStore, root: Path) -> None:
    sha256 = put(store, {"manifest.json": b"1"})
    store.begin_trial("people", sha256)
    begin_start(root, "people")
    stayed(root, "people", sha256, 3600.0)
    assert trial_starts(root, "people", sha256) == 1


def test_what_was_accepted_is_not_given_up_for_a_full_disk_or_a_damaged_count(
    store: ReleaseStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = accepted(store, b"1")
    (root / "watched-starts" / "people").write_bytes(b"rubbish")
    assert begin_start(root, "people").release == sha256
    (root / "watched-starts" / "people").write_text(f"{sha256} 3 0\n")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(starting, "write_file", full)
    for _ in range(10):
        assert begin_start(root, "people").release == sha256


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
