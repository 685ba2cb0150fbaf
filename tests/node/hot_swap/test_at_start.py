"""What a model opens at a start: the release that slots.json names, unless it has proved that it does not stay."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from edge_runtime.node.hot_swap.at_start import Opening, is_slot, openings
from edge_runtime.node.models import load_models
from edge_runtime.packages import open_package
from edge_runtime.protocol.swap import GivenUp
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import Slots, SlotState, write_slots
from edge_runtime.updates.store.starting import MAX_TRIAL_STARTS, trial_starts
from tests.rigs.swapping import labels_of, release_of, swap_config

GOOD, NEW = release_of(1), release_of(2)


@pytest.fixture
def updates(tmp_path: Path) -> Path:
    folder = tmp_path / "updates"
    folder.mkdir()
    return folder


def keep(updates: Path, release: str, package: Path) -> None:
    """A release in the store, its files where the store puts them."""
    files = Places(updates).files(release)
    files.parent.mkdir(parents=True)
    files.symlink_to(package)


def assign(updates: Path, **state: Any) -> None:
    write_slots(Places(updates), Slots(slots={"m": SlotState(**state)}))


@pytest.mark.parametrize(
    ("name", "expected"), [("m", True), ("yolox_nano-2", True), ("Camera", False), ("configuration", False)]
)
def test_which_models_releases_can_be_assigned_to(name: str, expected: bool) -> None:
    assert is_slot(name) is expected


def test_a_device_without_releases_opens_what_its_configuration_names(updates: Path) -> None:
    assert list(openings(None, "m")) == [Opening()]
    assert list(openings(updates, "m")) == [Opening()]
    assert list(openings(updates, "Camera")) == [Opening()]


def test_the_assigned_release_first_then_the_good_one_then_the_configured_one(
    updates: Path, tmp_path: Path
) -> None:
    keep(updates, GOOD, tmp_path)
    keep(updates, NEW, tmp_path)
    assign(updates, active=NEW, last_good=GOOD)
    assert [each.release for each in openings(updates, "m")] == [NEW, GOOD, None]


def test_a_release_on_trial_is_counted_before_it_is_opened_and_given_up_after_three_starts(
    updates: Path, tmp_path: Path
) -> None:
    keep(updates, GOOD, tmp_path)
    keep(updates, NEW, tmp_path)
    assign(updates, active=NEW, trial=True, last_good=GOOD)
    for start in range(1, MAX_TRIAL_STARTS + 1):
        first = next(iter(openings(updates, "m")))
        assert (first.release, first.given_up) == (NEW, None)
        assert trial_starts(updates, "m", NEW) == start
    given_up = next(iter(openings(updates, "m")))
    assert given_up.release == GOOD
    assert given_up.given_up is not None
    assert (given_up.given_up.release, given_up.given_up.code) == (NEW, UpdateCode.CRASH_LOOP)


def test_a_run_looks_through_the_assigned_release(
    tmp_path: Path, updates: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    package = other()
    keep(updates, NEW, package)
    assign(updates, active=NEW, trial=True)
    (ready,) = load_models(swap_config(tmp_path, fast_package, street), updates=updates).values()
    ready.close()
    assert (ready.release, ready.given_up) == (NEW, None)
    assert ready.model.package.digest == open_package(package).digest


@pytest.mark.parametrize("damage", ["weights", "labels", "manifest"])
def test_one_that_does_not_open_is_given_up_for_the_good_one_and_no_start_is_lost(
    tmp_path: Path,
    updates: Path,
    fast_package: Path,
    other: Callable[..., Path],
    street: dict[str, Any],
    damage: str,
) -> None:
    good, bad = other(), other()
    if damage == "labels":
        bad = other(labels=["human" if name == "person" else name for name in labels_of(fast_package)])
    elif damage == "manifest":
        (bad / "manifest.json").write_text(json.dumps({"schema_version": 1}), encoding="utf-8")
    else:
        (bad / "fastestdet_coco_352.onnx").write_bytes(b"<html>")
    keep(updates, GOOD, good)
    keep(updates, NEW, bad)
    assign(updates, active=NEW, trial=True, last_good=GOOD)
    with capture_logs() as logs:
        (ready,) = load_models(swap_config(tmp_path, fast_package, street), updates=updates).values()
    ready.close()
    assert ready.release == GOOD
    assert isinstance(ready.given_up, GivenUp)
    assert ready.given_up.release == NEW
    expected = UpdateCode.LABELS if damage == "labels" else UpdateCode.BAD_PACKAGE
    assert (ready.given_up.code, bool(ready.given_up.text)) == (expected, True)
    assert [(line["log_level"], line["release"]) for line in logs if "release" in line] == [("error", NEW)]


def test_where_no_release_opens_the_configured_package_looks(
    tmp_path: Path, updates: Path, fast_package: Path, street: dict[str, Any]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    keep(updates, GOOD, empty)
    keep(updates, NEW, empty)
    assign(updates, active=NEW, last_good=GOOD)
    (ready,) = load_models(swap_config(tmp_path, fast_package, street), updates=updates).values()
    ready.close()
    assert ready.release is None
    assert ready.given_up is not None
    assert ready.given_up.release == NEW
    assert ready.model.package.digest == open_package(fast_package).digest
