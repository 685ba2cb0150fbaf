"""Real weights through the whole road: calibrated, measured, let through or refused, written.

The short form takes few pictures and allows a drop that so few can show by chance. The trials are the figures:
half of the 128 pictures calibrate, the other half is measured on.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_runtime.authoring.calibration import choose_pictures
from edge_runtime.authoring.coco import CocoSet, read_coco
from edge_runtime.authoring.quantize import Evaluated, Outcome, Settings, quantize_package
from edge_runtime.authoring.quantize_graph import require_symmetric
from edge_runtime.authoring.quantized_package import write_quantized
from edge_runtime.errors import ConfigError, PackageError
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.qualification import check_package
from tests.rigs.detectors import REAL_MODELS

Quantize = Callable[..., Outcome]


@pytest.fixture(scope="module")
def coco(truth: Path) -> Path:
    return truth / "coco_val128"


@pytest.fixture(scope="module")
def package(yolox_package: Path) -> ModelPackage:
    return open_package(yolox_package)


def some(coco: Path, count: int) -> CocoSet:
    """Every so many images, and not the first ones: those calibrate."""
    whole = read_coco(coco / "instances.json")
    images = whole.images[1 :: len(whole.images) // count][:count]
    numbers = {image.id for image in images}
    boxes = tuple(box for box in whole.annotations if box.image_id in numbers)
    return whole.model_copy(update={"images": images, "annotations": boxes})


@pytest.fixture(scope="module")
def short(coco: Path, package: ModelPackage) -> Quantize:
    """Few pictures."""
    evaluated = Evaluated(some(coco, 8), coco / "images", "val8")

    def quantize(calibration: Path | None = None, count: int = 8, **settings: Any) -> Outcome:
        chosen = choose_pictures(calibration or coco / "images", count)
        asked = Settings(
            **{"precision": "int8", "method": "minmax", "max_drop": 6.0, "threads": 2, **settings}
        )
        return quantize_package(package, chosen, evaluated, asked)

    return quantize


@pytest.fixture(scope="module")
def in_8_bits(short: Quantize) -> Outcome:
    return short()


@pytest.fixture(scope="module")
def in_16_bits(short: Quantize) -> Outcome:
    return short(precision="fp16", max_drop=2.0)


def test_8_bits_are_let_through_without_the_worst_layers(in_8_bits: Outcome) -> None:
    first, *others = in_8_bits.attempts
    assert first.verdict.refused is not None  # one layer ruins it
    assert in_8_bits.accepted is others[-1]
    left = others[-1].candidate.left
    assert set(first.candidate.left) < set(left)
    assert "Conv_44" in left
    assert len(others[-1].candidate.weights) <= 0.4 * in_8_bits.package.manifest.weights.bytes
    assert in_8_bits.parent.images == 8


def test_the_8_bit_package(in_8_bits: Outcome, package: ModelPackage, tmp_path: Path) -> None:
    import onnx

    written = write_quantized(in_8_bits, tmp_path / "p")
    manifest, parent = written.manifest, package.manifest
    assert open_package(tmp_path / "p").digest == written.digest != package.digest
    assert manifest.name == f"{parent.name}-int8"
    assert manifest.quantisation == "int8-qdq"
    assert manifest.runtime.opset == 13
    assert manifest.licence == parent.licence
    assert manifest.accuracy_floor == parent.accuracy_floor
    assert manifest.weights.original_sha256 == parent.weights.sha256
    assert (manifest.input, manifest.head, manifest.labels) == (parent.input, parent.head, parent.labels)
    made = manifest.derivation
    assert made is not None
    assert made.parent == package.digest
    assert made.calibration.images == 8
    assert made.calibration.sha256 == in_8_bits.calibration.digest()
    assert made.measured.child == pytest.approx(in_8_bits.best.report.precision.mean, abs=1e-6)
    assert manifest.evaluation[0].value == round(made.measured.child, 4)
    assert manifest.golden != parent.golden
    require_symmetric(onnx.load(str(written.weights)))
    assert check_package(written).fit
    card = (written.directory / "CARD.md").read_text()
    assert package.digest in card
    assert "Conv_44" in card


def test_a_golden_vector_tells_the_8_bit_weights_from_the_parents(
    in_8_bits: Outcome, package: ModelPackage, tmp_path: Path
) -> None:
    """The child's vectors are its own, to the tolerance of its precision."""
    written = write_quantized(in_8_bits, tmp_path / "p")
    for vector in written.manifest.golden:
        mine = np.load(written.file(vector.outputs))["output"]
        theirs = next(other for other in package.manifest.golden if other.name == vector.name)
        assert not np.array_equal(mine, np.load(package.file(theirs.outputs))["output"])


def test_16_bits(in_16_bits: Outcome, package: ModelPackage, tmp_path: Path) -> None:
    (attempt,) = in_16_bits.attempts
    assert attempt.candidate.stand_in is not None
    assert abs(attempt.verdict.drop) < 1.0
    written = write_quantized(in_16_bits, tmp_path / "p", name="Yolox Half")
    assert written.manifest.name == "yolox-half"
    assert written.manifest.quantisation == "fp16"
    assert written.manifest.weights.bytes < 0.55 * package.manifest.weights.bytes
    assert written.manifest.derivation is not None
    assert written.manifest.derivation.calibration.method == "peak"
    assert written.manifest.input.dtype == "float32"
    assert check_package(written).fit


def picture_folder(folder: Path, coco: Path, change: Callable[[Any], Any]) -> Path:
    folder.mkdir()
    for path in sorted((coco / "images").iterdir())[:8]:
        cv2.imwrite(str(folder / f"{path.stem}.png"), change(cv2.imread(str(path))))
    return folder


def test_a_bad_calibration_is_refused(short: Quantize, coco: Path, tmp_path: Path) -> None:
    """Pictures on a wrong scale make ranges that real ones do not fit into."""
    folder = picture_folder(tmp_path / "dark", coco, lambda picture: picture // 16)
    outcome = short(folder)
    assert outcome.accepted is None
    assert len(outcome.attempts) == 4
    assert outcome.best.verdict.drop > 6
    with pytest.raises(PackageError, match="not written: mAP falls by"):
        write_quantized(outcome, tmp_path / "p")
    assert not (tmp_path / "p").exists()


def test_layers_that_a_person_names_stay(short: Quantize, in_8_bits: Outcome) -> None:
    outcome = short(count=4, leave=("Conv_41", "Conv_44"), max_drop=30.0)
    (attempt,) = outcome.attempts
    assert {"Conv_41", "Conv_44"} < set(attempt.candidate.left)
    for precision in ("int8", "fp16"):
        with pytest.raises(ConfigError, match="--leave Conv_0: the graph has no such layer"):
            short(count=1, leave=("Conv_0",), precision=precision)


def test_what_is_quantised_already_is_refused(onnx_models: Path, coco: Path, tmp_path: Path) -> None:
    package = open_package(REAL_MODELS["yolov8n"].write(onnx_models, tmp_path / "package"))
    manifest = package.manifest.model_copy(update={"quantisation": "int8-dynamic"})
    again = ModelPackage(manifest, package.directory, package.weights, package.digest)
    evaluated = Evaluated(some(coco, 1), coco / "images", "val1")
    with pytest.raises(PackageError, match="is int8-dynamic already: quantise the 32-bit package"):
        quantize_package(again, choose_pictures(coco / "images", 1), evaluated, Settings("int8"))


def test_a_ruined_parent_is_refused(short: Quantize, package: ModelPackage, coco: Path) -> None:
    """Near nothing, a small drop says nothing: here the labels are wrong by one."""
    labels = (*package.manifest.labels[1:], package.manifest.labels[0])
    wrong = package.manifest.model_copy(update={"labels": labels})
    shifted = ModelPackage(wrong, package.directory, package.weights, package.digest)
    evaluated = Evaluated(some(coco, 4), coco / "images", "val4")
    with pytest.raises(PackageError, match=r"is unfit itself: map 0\.0\d+ is below the floor of 0\.1"):
        quantize_package(shifted, choose_pictures(coco / "images", 1), evaluated, Settings("int8"))


@pytest.mark.trial
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("model", "precision", "method", "size"),
    [
        ("yolox_nano_coco_416", "int8", "entropy", 0.40),
        ("yolox_nano_coco_416", "int8", "minmax", 0.40),
        ("yolox_nano_coco_416", "int8", "percentile", 0.40),
        ("yolox_nano_coco_416", "fp16", "entropy", 0.55),
        ("nanodet_m_coco_416", "int8", "entropy", 0.40),
        ("nanodet_m_coco_416", "fp16", "entropy", 0.55),
        ("fastestdet_coco_352", "int8", "entropy", 0.40),
        ("fastestdet_coco_352", "fp16", "entropy", 0.55),
    ],
)
def test_figures_on_half_of_the_set(
    model: str,
    precision: str,
    method: str,
    size: float,
    package_of: Callable[[str], Path],
    coco: Path,
    tmp_path: Path,
) -> None:
    package = open_package(package_of(model))
    evaluated = Evaluated(read_coco(coco / "instances.json"), coco / "images", "coco_val128")
    settings = Settings(precision=precision, method=method, threads=2)  # type: ignore[arg-type]
    outcome = quantize_package(package, choose_pictures(coco / "images", 64), evaluated, settings)
    best = outcome.best
    ratio = len(best.candidate.weights) / package.manifest.weights.bytes
    print(
        f"\n{model} {precision} {method}: mAP {best.verdict.child:.4f} of {best.verdict.parent:.4f}, "
        f"{best.verdict.drop:.2f} points lost, {ratio:.3f} of the size, {len(outcome.attempts)} candidates, "
        f"{len(best.candidate.left)} layers left"
    )
    assert outcome.parent.images == 64
    assert best.verdict.refused is None
    assert best.verdict.drop <= 2.0
    assert ratio <= size
    assert check_package(write_quantized(outcome, tmp_path / "p")).fit


@pytest.mark.trial
@pytest.mark.timeout(900)
@pytest.mark.parametrize("darker", [255, 16])
def test_a_bad_calibration_on_the_whole_set(
    darker: int, package: ModelPackage, coco: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "dark"
    folder.mkdir()
    for path in sorted((coco / "images").iterdir())[::2]:
        picture = cv2.imread(str(path))
        assert picture is not None
        cv2.imwrite(str(folder / f"{path.stem}.png"), picture // darker)
    evaluated = Evaluated(read_coco(coco / "instances.json"), coco / "images", "coco_val128")
    outcome = quantize_package(package, choose_pictures(folder, 64), evaluated, Settings("int8", threads=2))
    print(f"\ncalibrated on pictures {darker} times darker: {outcome.best.verdict.refused}")
    assert outcome.accepted is None
