"""Real models with real defects beside a real one: each is refused when it is opened, or its figures tell.

The cameras run once for all of them: that one candidate after the other leaves them alone is part of it.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.protocol.swap import Activate, Candidate, CandidateState, Discard, Shadow, ShadowFigures
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

FRAMES = 4
pytestmark = pytest.mark.timeout(400)

YOLOX = "yolox_nano_coco_416.onnx"


class Beside:
    """Cameras that run, and one candidate after the other beside their model."""

    def __init__(self, device: Exchanging) -> None:
        self._device = device
        self._numbers = itertools.count(1)

    def refused(self, package: Path) -> tuple[UpdateCode | None, str]:
        """What is said of a candidate that must not be loaded."""
        number, candidate = self._opened(package)
        assert candidate.state is CandidateState.FAILED
        assert not self._device.ask(Activate(slot="m", release=release_of(number))).ok
        self._put_away()
        return candidate.code, candidate.text

    def shadowed(self, package: Path) -> ShadowFigures:
        """Figures of a candidate that opens, after some frames."""
        _, candidate = self._opened(package)
        assert candidate.state is CandidateState.LOADED, candidate
        self._device.tell(Shadow(slot="m", on=True))
        self._device.wait(lambda: self._figures().frames + self._figures().unanswered >= FRAMES)
        found = self._figures()
        self._put_away()
        return found

    def _opened(self, package: Path) -> tuple[int, Candidate]:
        number = next(self._numbers)
        candidate = self._device.opened(number, package).candidate
        assert candidate is not None
        return number, candidate

    def _figures(self) -> ShadowFigures:
        candidate = self._device.look().candidate
        assert candidate is not None
        return candidate.shadow

    def _put_away(self) -> None:
        look = self._device.tell(Discard(slot="m"))
        assert (look.candidate, look.running.release) == (None, None)
        frames = look.running.frames
        self._device.wait(lambda: self._device.look().running.frames > frames)
        assert self._device.watching.gaps() == []


@pytest.fixture(scope="module")
def beside(
    request: pytest.FixtureRequest,
    fast_package: Path,
    yolox_package: Path,
    street: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Beside]:
    """Cameras whose model leaves time for others, or whose model sees much: one of them at a time."""
    folder = tmp_path_factory.mktemp(request.param)
    package = {"fast": fast_package, "yolox": yolox_package}[request.param]
    with Exchanging(swap_config(folder, package, street), folder) as device:
        yield Beside(device)
    assert device.watching.gaps() == []


FAST = pytest.mark.parametrize("beside", ["fast"], indirect=True)
SEES_MUCH = pytest.mark.parametrize("beside", ["yolox"], indirect=True)


@FAST
def test_a_model_that_gives_no_numbers_is_refused_with_golden_vectors_and_without(
    tmp_path: Path, yolox_package: Path, beside: Beside
) -> None:
    broken = without_numbers(yolox_package / YOLOX)
    for golden in (True, False):
        folder = tmp_path / str(golden)
        folder.mkdir()
        package = derived(yolox_package, folder / "nan", weights=broken, golden=golden)
        code, text = beside.refused(package)
        assert code is UpdateCode.GOLDEN_VECTORS
        assert "NaN or infinite" in text


@FAST
def test_a_model_that_gives_no_numbers_for_these_cameras_alone_is_seen_in_the_shadow(
    tmp_path: Path, yolox_package: Path, beside: Beside
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
    found = beside.shadowed(package)
    assert found.nonfinite == found.unanswered >= FRAMES
    assert found.frames == 0


@FAST
def test_a_model_that_does_not_run_at_its_declared_size_is_refused(
    tmp_path: Path, onnx_models: Path, package_of: Callable[[str], Path], beside: Beside
) -> None:
    repaired = package_of("yolov10n_coco_int8_declares320_runs640")
    weights = (onnx_models / "yolov10n_coco_int8_declares320_runs640.onnx").read_bytes()
    package = derived(
        repaired, tmp_path / "wrong", weights=weights, golden=False, input={"height": 320, "width": 320}
    )
    code, text = beside.refused(package)
    assert code is UpdateCode.LOAD
    assert text


@pytest.mark.trial
@FAST
def test_what_is_no_model_is_refused(
    tmp_path: Path, yolox_package: Path, onnx_models: Path, beside: Beside
) -> None:
    page = (onnx_models / "not_a_model_saved_web_page.onnx").read_bytes()
    package = derived(yolox_package, tmp_path / "page", weights=page, golden=False)
    code, text = beside.refused(package)
    assert code is UpdateCode.LOAD
    assert "does not load" in text


@SEES_MUCH
def test_a_model_whose_labels_are_exchanged_agrees_about_nothing(
    tmp_path: Path, yolox_package: Path, beside: Beside
) -> None:
    labels = exchanged(labels_of(yolox_package), "person", "car")
    package = derived(yolox_package, tmp_path / "exchanged", labels=labels)
    found = beside.shadowed(package)
    assert found.running_objects >= 10
    assert found.agreement is not None
    assert found.agreement < 0.3, "bicycles are still bicycles"


@SEES_MUCH
def test_a_model_that_was_ruined_by_quantisation_agrees_about_little(
    package_of: Callable[[str], Path], beside: Beside
) -> None:
    found = beside.shadowed(package_of("deimv2_atto_coco_int8_320_damaged"))
    assert found.running_objects >= 10
    assert found.agreement is not None
    assert found.agreement < 0.5


@pytest.mark.trial
@SEES_MUCH
def test_a_sound_model_of_another_kind_agrees_about_much(
    package_of: Callable[[str], Path], beside: Beside
) -> None:
    found = beside.shadowed(package_of("nanodet_m_coco_416"))
    assert found.agreement is not None
    assert found.agreement >= 0.5
