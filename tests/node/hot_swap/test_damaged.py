"""Real models with real defects beside a real one: each is refused when it is opened, or its figures tell."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.protocol.swap import Activate, CandidateState, Shadow, ShadowFigures
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.qualification.golden import read_golden
from tests.rigs.swapping import (
    Exchanging,
    derived,
    exchanged,
    labels_of,
    release_of,
    swap_config,
    without_numbers,
)

FRAMES = 8

YOLOX = "yolox_nano_coco_416.onnx"


def refused(
    tmp_path: Path, running: Path, source: dict[str, Any], package: Path
) -> tuple[UpdateCode | None, str]:
    """What is said of a candidate that must not be loaded."""
    with Exchanging(swap_config(tmp_path, running, source), tmp_path) as device:
        look = device.opened(1, package)
        assert look.candidate is not None
        assert look.candidate.state is CandidateState.FAILED
        assert not device.ask(Activate(slot="m", release=release_of(1))).ok
        assert device.look().running.release is None
    assert device.watching.gaps() == []
    return look.candidate.code, look.candidate.text


def shadowed(tmp_path: Path, running: Path, source: dict[str, Any], package: Path) -> ShadowFigures:
    """Figures of a candidate that opens, after some frames."""
    with Exchanging(swap_config(tmp_path, running, source), tmp_path) as device:
        look = device.opened(1, package)
        assert look.candidate is not None
        assert look.candidate.state is CandidateState.LOADED, look.candidate
        device.tell(Shadow(slot="m", on=True))

        def figures() -> ShadowFigures:
            candidate = device.look().candidate
            assert candidate is not None
            return candidate.shadow

        device.wait(lambda: figures().frames + figures().unanswered >= FRAMES)
        found = figures()
    assert device.watching.gaps() == []
    return found


def test_a_model_that_gives_no_numbers_is_refused_with_golden_vectors_and_without(
    tmp_path: Path, yolox_package: Path, fast_package: Path, street: dict[str, Any]
) -> None:
    broken = without_numbers(yolox_package / YOLOX)
    for golden in (True, False):
        folder = tmp_path / str(golden)
        folder.mkdir()
        package = derived(yolox_package, folder / "nan", weights=broken, golden=golden)
        code, text = refused(folder, fast_package, street, package)
        assert code is UpdateCode.GOLDEN_VECTORS
        assert "NaN or infinite" in text


def test_a_model_that_gives_no_numbers_for_these_cameras_alone_is_seen_in_the_shadow(
    tmp_path: Path, yolox_package: Path, fast_package: Path, street: dict[str, Any]
) -> None:
    means = [
        float(
            read_golden(path, path.with_name(path.name.replace("inputs", "outputs"))).inputs["images"].mean()
        )
        for path in (yolox_package / "golden").glob("*.inputs.npz")
    ]
    limit = np.floor(min(means)) if min(means) > 130 else None
    weights = without_numbers(yolox_package / YOLOX, below_mean=float(limit or 0.0))
    package = derived(yolox_package, tmp_path / "dark", weights=weights)
    found = shadowed(tmp_path, fast_package, street, package)
    assert found.nonfinite == found.unanswered >= FRAMES
    assert found.frames == 0


def test_a_model_whose_labels_are_exchanged_agrees_about_nothing(
    tmp_path: Path, yolox_package: Path, street: dict[str, Any]
) -> None:
    labels = exchanged(labels_of(yolox_package), "person", "car")
    package = derived(yolox_package, tmp_path / "exchanged", labels=labels)
    found = shadowed(tmp_path, yolox_package, street, package)
    assert found.running_objects >= 10
    assert found.agreement is not None
    assert found.agreement < 0.3, "bicycles are still bicycles"


def test_a_model_that_was_ruined_by_quantisation_agrees_about_little(
    tmp_path: Path, yolox_package: Path, package_of: Callable[[str], Path], street: dict[str, Any]
) -> None:
    package = package_of("deimv2_atto_coco_int8_320_damaged")
    found = shadowed(tmp_path, yolox_package, street, package)
    assert found.running_objects >= 10
    assert found.agreement is not None
    assert found.agreement < 0.5


@pytest.mark.trial
def test_a_sound_model_of_another_kind_agrees_about_much(
    tmp_path: Path, yolox_package: Path, package_of: Callable[[str], Path], street: dict[str, Any]
) -> None:
    found = shadowed(tmp_path, yolox_package, street, package_of("nanodet_m_coco_416"))
    assert found.agreement is not None
    assert found.agreement >= 0.5


def test_a_model_that_does_not_run_at_its_declared_size_is_refused(
    tmp_path: Path,
    yolox_package: Path,
    onnx_models: Path,
    package_of: Callable[[str], Path],
    street: dict[str, Any],
) -> None:
    repaired = package_of("yolov10n_coco_int8_declares320_runs640")
    weights = (onnx_models / "yolov10n_coco_int8_declares320_runs640.onnx").read_bytes()
    package = derived(
        repaired, tmp_path / "wrong", weights=weights, golden=False, input={"height": 320, "width": 320}
    )
    code, text = refused(tmp_path, yolox_package, street, package)
    assert code is UpdateCode.LOAD
    assert text


@pytest.mark.trial
def test_what_is_no_model_is_refused(
    tmp_path: Path, yolox_package: Path, onnx_models: Path, street: dict[str, Any]
) -> None:
    page = (onnx_models / "not_a_model_saved_web_page.onnx").read_bytes()
    package = derived(yolox_package, tmp_path / "page", weights=page, golden=False)
    code, text = refused(tmp_path, yolox_package, street, package)
    assert code is UpdateCode.LOAD
    assert "does not load" in text
