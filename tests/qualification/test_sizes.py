"""Sizes are found by running the graph, not by reading what it declares."""

from pathlib import Path

import numpy as np
import pytest

from edge_runtime.errors import BackendError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.qualification.sizes import (
    ImageInput,
    SizeProbe,
    loaded,
    plausible_sizes,
    why_not_as_declared,
)

FAST = ImageInput("input.1", "nchw", "float32")


def test_the_real_yolov10_runs_at_640_and_not_at_the_declared_320(onnx_models: Path) -> None:
    weights = onnx_models / "yolov10n_coco_int8_declares320_runs640.onnx"
    image = ImageInput("images", "nchw", "float32")
    reason = why_not_as_declared(weights, image, (320, 320))
    assert reason is not None
    assert "Reshape" in reason
    with SizeProbe(weights, image) as probe:
        assert probe.first([(320, 320), (640, 640)]) == (640, 640)


def test_a_sound_file_runs_as_declared(onnx_models: Path) -> None:
    weights = onnx_models / "fastestdet_coco_352.onnx"
    assert why_not_as_declared(weights, FAST, (352, 352)) is None
    assert why_not_as_declared(weights, FAST, (320, 320)) is not None
    with SizeProbe(weights, FAST) as probe:
        assert probe.first(plausible_sizes()) == (352, 352)
        assert probe.why_not((352, 352), batch=2) is not None
        assert probe.outputs((352, 352))["758"].shape == (1, 85, 22, 22)
        assert probe.first([(320, 320)]) is None


def test_what_is_no_graph_does_not_load() -> None:
    with pytest.raises(BackendError), loaded(b"no graph"):
        pass


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_probe_pictures_fill_the_input(onnx_models: Path, layout: str, dtype: str) -> None:
    image = ImageInput("x", layout, dtype)
    with loaded(onnx_models / "fastestdet_coco_352.onnx") as backend:
        tensor = image.feeds(backend, (48, 96), batch=2)["x"]
    assert tensor.shape == image.dims(2, 48, 96)
    assert tensor.dtype == np.dtype(dtype)
    assert len(np.unique(tensor)) > 10
    assert tensor.max() <= (255 if dtype == "uint8" else 1)


def test_the_size_input_of_detr_is_fed(onnx_models: Path) -> None:
    image = ImageInput("images", "nchw", "float32", "orig_target_sizes")
    assert (
        why_not_as_declared(onnx_models / "deimv2_atto_coco_int8_320_damaged.onnx", image, (320, 320)) is None
    )


def test_the_manifest_describes_the_input() -> None:
    spec = InputSpec(name="x", height=32, width=64, layout="nhwc", dtype="uint8", size_input="sizes")
    assert ImageInput.of(spec) == ImageInput("x", "nhwc", "uint8", "sizes")


def test_hinted_sizes_come_first_and_also_turned() -> None:
    sizes = plausible_sizes([(240, 320)])
    assert sizes[:2] == [(240, 320), (320, 240)]
    assert len(sizes) == len(set(sizes))
    assert (640, 640) in sizes
