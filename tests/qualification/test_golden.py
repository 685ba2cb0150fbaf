"""Golden vectors survive being written, stay small, and damaged ones are refused."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.errors import PackageError
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.detections import Detections
from edge_runtime.qualification.agreement import TOLERANCES, disagreement, unmatched
from edge_runtime.qualification.golden import (
    SAMPLE,
    read_golden,
    take_sample,
    write_inputs,
    write_outputs,
)
from edge_runtime.qualification.scenes import scene


def detections(*rows: tuple[float, float, float, float, float, int]) -> Detections:
    table = np.array(rows, np.float32).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a.inputs.npz", tmp_path / "a.outputs.npz"


def test_a_vector_survives(files: tuple[Path, Path]) -> None:
    rng = np.random.default_rng(0)
    feeds: dict[str, Tensor] = {
        "images": rng.random((1, 3, 32, 32), np.float32),
        "orig_target_sizes": np.array([[32, 32]]),
    }
    outputs: dict[str, Tensor] = {
        "small:0": rng.random((1, 100, 4), np.float32),
        "large/1": rng.normal(size=(1, 84, 2100)).astype(np.float16),
        "count": np.array([3], np.int32),
        "scalar": np.array(2.5, np.float32),
    }
    found = detections((1, 2, 30, 40, 0.9, 7))
    files[0].write_bytes(write_inputs(scene("clock").image, feeds))
    files[1].write_bytes(write_outputs(outputs, found))
    golden = read_golden(*files)
    assert golden.picture is not None
    np.testing.assert_array_equal(golden.picture, scene("clock").image)
    for name, tensor in feeds.items():
        np.testing.assert_array_equal(golden.inputs[name], tensor)
    assert list(golden.outputs) == list(outputs)
    for name, tensor in outputs.items():
        sample = golden.outputs[name]
        assert sample.shape == tensor.shape
        np.testing.assert_array_equal(sample.values, sample.of(tensor))
        assert disagreement(sample, tensor, atol=0, rtol=0) == 0
    assert golden.detections is not None
    np.testing.assert_array_equal(golden.detections.xyxy, found.xyxy)
    np.testing.assert_array_equal(golden.detections.label, found.label)


def test_the_same_vector_gives_the_same_bytes() -> None:
    outputs = {"file": np.arange(12.0).reshape(3, 4)}  # numpy's own writer cannot name an array `file`
    assert write_outputs(outputs, detections()) == write_outputs(outputs, detections())


def test_a_sample_holds_the_largest_values_and_an_even_spread() -> None:
    tensor = np.zeros((1, 85, 3549), np.float32)
    tensor[0, 40, 1234] = -9
    sample = take_sample(tensor)
    assert sample.index is not None
    assert SAMPLE // 2 <= len(sample.values) <= SAMPLE
    assert -9 in sample.values
    assert sample.index[0] == 0
    assert sample.index[-1] == tensor.size - 1


def test_disagreement_counts_values_beyond_the_tolerance_and_what_is_not_finite() -> None:
    recorded = take_sample(np.array([0.0, 1.0, 100.0, 2.0], np.float32))
    live = np.array([0.05, 1.0, 104.0, np.nan], np.float32)
    assert disagreement(recorded, live, atol=0.01, rtol=0.01) == 0.75
    assert disagreement(recorded, live, atol=0.1, rtol=0.05) == 0.25


@pytest.mark.parametrize(
    ("live", "missing"),
    [
        (detections((10, 10, 50, 50, 0.9, 1)), []),
        (detections((10, 10, 50, 50, 0.9, 2)), [0]),
        (detections((10, 10, 50, 50, 0.5, 1)), [0]),
        (detections((20, 10, 60, 50, 0.9, 1)), [0]),
        (detections(), [0]),
    ],
)
def test_a_detection_is_matched_by_place_label_and_score(live: Detections, missing: list[int]) -> None:
    recorded = detections((10, 10, 50, 50, 0.9, 1))
    assert unmatched(recorded, live, TOLERANCES["fp32"]) == missing


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def pickled() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, y=np.array([{"a": 1}], dtype=object))
    return buffer.getvalue()


def bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", bytes(1000))
        archive.filelist[0].file_size = 300 << 20  # what the directory says is believed before unpacking
    return buffer.getvalue()


@pytest.mark.parametrize(
    "outputs",
    [
        b"",
        b"no archive",
        pickled(),
        npz(**{"y": np.zeros(5), "y@shape": np.array([2, 3])}),
        npz(**{"y": np.zeros(5), "y@shape": np.array([9]), "y@index": np.array([0, 1, 2, 3, 9])}),
    ],
)
def test_damaged_outputs_are_refused(files: tuple[Path, Path], outputs: bytes) -> None:
    files[0].write_bytes(write_inputs(scene("clock").image, {}))
    files[1].write_bytes(outputs)
    with pytest.raises(PackageError, match=r"a\.outputs\.npz"):
        read_golden(*files)


def test_an_archive_that_unpacks_to_too_much_is_refused(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(write_inputs(scene("clock").image, {}))
    files[1].write_bytes(bomb())
    with pytest.raises(PackageError, match="unpacks to more than"):
        read_golden(*files)


def test_a_picture_that_is_none_is_refused(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(npz(**{"@picture": np.zeros(30, np.uint8)}))
    files[1].write_bytes(npz(y=np.zeros(3)))
    with pytest.raises(PackageError, match="is not a picture"):
        read_golden(*files)


def test_a_vector_without_picture_or_detections_is_allowed(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(npz(x=np.zeros((1, 3, 8, 8))))
    files[1].write_bytes(npz(y=np.zeros((2, 3))))
    golden = read_golden(*files)
    assert golden.picture is None
    assert golden.detections is None
    assert golden.outputs["y"].shape == (2, 3)
