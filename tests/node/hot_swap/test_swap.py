"""Real models change places on a real clip, over the real socket, while every frame is looked at."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge_runtime.packages import open_package
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.swap import (
    MAX_LINE_BYTES,
    Activate,
    CandidateState,
    Discard,
    Load,
    Look,
    Revert,
    Settle,
    Shadow,
    SwapRecord,
)
from edge_runtime.protocol.update import UpdateCode
from tests.rigs.swapping import Exchanging, exchanged, labels_of, release_of, swap_config

pytestmark = pytest.mark.timeout(400)
"""A candidate is opened behind everything else: on a machine with work to do that takes its time."""

ONE = release_of(1)


def test_a_model_takes_over_and_is_taken_back_and_no_frame_is_missing(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    better = other(thresholds={"score": 0.5})
    first, second = open_package(fast_package).digest, open_package(better).digest
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        loaded = device.opened(1, better)
        assert loaded.candidate is not None
        assert (loaded.candidate.state, loaded.candidate.package) == (CandidateState.LOADED, second)
        assert (loaded.running.release, loaded.running.package) == (None, first)
        assert loaded.running.p50_ms is not None
        device.tell(Shadow(slot="m", on=True))
        device.wait(lambda: shadow_frames(device) >= 3)
        compared = device.look()
        assert compared.candidate is not None
        assert compared.candidate.shadow.running_objects > 0
        assert compared.candidate.shadow.found == compared.candidate.shadow.running_objects
        assert compared.candidate.shadow.candidate_objects > compared.candidate.shadow.confirmed
        assert compared.candidate.shadow.running_ms is not None
        assert compared.candidate.shadow.candidate_ms is not None
        device.tell(Activate(slot="m", release=ONE))
        taken = device.in_use(ONE)
        assert taken.candidate is None
        assert taken.previous is not None
        assert (taken.previous.release, taken.previous.package) == (None, first)
        device.wait(lambda: device.look().running.frames >= 20)
        assert device.look().running.package == second
        assert device.node.snapshot().models["m"].release == ONE
        back = device.tell(Revert(slot="m"))
        assert (back.running.release, back.previous) == (None, None)
        device.wait(lambda: device.look().running.frames >= 20)
        assert device.look().running.unanswered == 0
    watching = device.watching
    assert watching.gaps() == []
    assert all(watching.seen)
    assert device.result is not None
    assert set(device.result.cameras["street"].drops) <= {"stopped"}
    models = [event.model for event in watching.events]
    assert models[0] == models[-1] == first
    assert set(models) == {first, second}
    order = [model for index, model in enumerate(models) if index == 0 or models[index - 1] != model]
    assert order == [first, second, first], "each event names the model that saw it"


def shadow_frames(device: Exchanging) -> int:
    candidate = device.look().candidate
    assert candidate is not None
    return candidate.shadow.frames


def test_what_is_no_longer_loaded_is_opened_to_go_back_to(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    """As perception that was started anew with a release on trial: the one before was never loaded there."""
    better, later = other(), other()
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        for number, package in ((1, better), (2, later)):
            device.opened(number, package)
            device.tell(Activate(slot="m", release=release_of(number)))
            device.in_use(release_of(number))
            device.tell(Settle(slot="m"))
        back = Revert(slot="m", release=ONE, package_dir=str(better))
        for _ in range(3):  # whoever was interrupted asks again
            device.tell(back)
        found = device.in_use(ONE)
        assert found.running.package == open_package(better).digest
        device.tell(Revert(slot="m"))
        found = device.in_use(None)
        assert found.running.package == open_package(fast_package).digest
        device.wait(lambda: device.look().running.frames >= 10)
    assert device.watching.gaps() == []
    assert all(device.watching.seen)


def test_labels_are_those_of_the_model_that_saw(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    labels = labels_of(fast_package)
    renamed = other(labels=exchanged(labels, "person", "chair"))
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        device.opened(1, renamed)
        device.tell(Activate(slot="m", release=ONE, trackers=TrackerRule.CONTINUE))
        device.in_use(ONE)
        device.wait(lambda: device.look().running.frames >= 10)
    numbers = [int(label) for found in device.watching.tracks if found is not None for label in found.label]
    assert labels[numbers[0]] == "person"
    assert labels[numbers[-1]] == "chair", "whoever it is, this model calls them so"


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"labels": "no person"}, UpdateCode.LABELS, "does not know person"),
        ({"data_classes": ["public"]}, UpdateCode.BAD_PACKAGE, "may see public"),
        ({"licence": {"spdx": "CC-BY-NC-4.0", "evidence": "a test"}}, UpdateCode.LICENCE, "CC-BY-NC-4.0"),
    ],
)
def test_what_does_not_fit_the_configuration_is_refused_at_once(
    tmp_path: Path,
    fast_package: Path,
    other: Callable[..., Path],
    street: dict[str, Any],
    fields: dict[str, Any],
    code: UpdateCode,
    words: str,
) -> None:
    if "labels" in fields:
        fields = {"labels": ["human" if name == "person" else name for name in labels_of(fast_package)]}
    package = other(**fields)
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        answer = device.ask(Load(slot="m", release=ONE, package_dir=str(package)))
        assert (answer.ok, answer.code) == (False, code)
        assert words in answer.text
        assert device.look().candidate is None


def test_what_cannot_be_done_is_refused_and_the_cameras_go_on(
    tmp_path: Path, fast_package: Path, street: dict[str, Any]
) -> None:
    refused: list[tuple[SwapRecord, UpdateCode]] = [
        (Look(slot="n"), UpdateCode.SLOT_UNKNOWN),
        (Load(slot="m", release=ONE, package_dir=str(tmp_path / "nowhere")), UpdateCode.BAD_PACKAGE),
        (Shadow(slot="m", on=True), UpdateCode.ACTIVATION),
        (Activate(slot="m", release=ONE), UpdateCode.ACTIVATION),
    ]
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        for record, code in refused:
            answer = device.ask(record)
            assert (answer.ok, answer.code) == (False, code), record
            assert answer.text
        for line in (b"\n", b"\xff\xfe\n", b'{"do": "reboot"}\n', b"x" * (MAX_LINE_BYTES + 1)):
            answer = device.send(line)
            assert (answer.ok, answer.code) == (False, UpdateCode.DEFECT)
        for harmless in (
            Settle(slot="m"),
            Discard(slot="m"),
            Revert(slot="m"),
            Shadow(slot="m", on=False),
            Look(),
        ):
            device.tell(harmless)
        before = len(device.watching.frames)
        device.wait(lambda: len(device.watching.frames) > before + 5)
    assert device.watching.gaps() == []


def test_who_was_interrupted_asks_again(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    package = other()
    load = Load(slot="m", release=ONE, package_dir=str(package))
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        device.opened(1, package)
        again = device.tell(load)
        assert again.candidate is not None
        assert again.candidate.state is CandidateState.LOADED
        for _ in range(2):
            device.tell(Activate(slot="m", release=ONE))
        device.in_use(ONE)
        device.tell(Activate(slot="m", release=ONE))
        for _ in range(2):
            assert device.tell(Settle(slot="m")).previous is None
        gone_back = device.tell(Revert(slot="m", release=ONE, package_dir=str(tmp_path)))
        assert gone_back.running.release == ONE, "it runs what it is to go back to"


def test_a_process_that_is_killed_is_a_candidate_that_failed(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    package = other()
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        device.opened(1, package)
        (child,) = trials()
        assert child.nice() == 10
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text(encoding="ascii").strip() == "1000"
        os.kill(child.pid, signal.SIGKILL)
        device.wait(lambda: state_of(device) is CandidateState.FAILED)
        failed = device.look().candidate
        assert failed is not None
        assert (failed.code, "SIGKILL" in failed.text) == (UpdateCode.LOAD, True)
        assert device.ask(Activate(slot="m", release=ONE)).code is UpdateCode.ACTIVATION
        assert device.opened(2, package).candidate is not None
        assert state_of(device) is CandidateState.LOADED
        assert device.tell(Discard(slot="m")).candidate is None
        assert trials() == []
    assert device.watching.gaps() == []


def state_of(device: Exchanging) -> CandidateState | None:
    candidate = device.look().candidate
    return None if candidate is None else candidate.state


def trials() -> list[psutil.Process]:
    """Processes in which candidates are tried."""
    return [
        child
        for child in psutil.Process().children()
        if any(word.endswith("trial_process") for word in child.cmdline())
    ]


def test_nothing_is_left_behind_by_swaps(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    packages = [other(), other()]
    process = psutil.Process()
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        left = []
        for number in range(2):
            device.opened(number, packages[number % 2])
            device.tell(Activate(slot="m", release=release_of(number)))
            device.in_use(release_of(number))
            device.tell(Settle(slot="m"))
            device.wait(lambda: not {"retire-model", "swap-ask"} & {t.name for t in threading.enumerate()})
            left.append((threading.active_count(), process.num_fds(), len(trials())))
        assert left[0] == left[1]
        assert left[0][2] == 0
    assert device.watching.gaps() == []
