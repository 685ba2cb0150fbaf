"""The two versions of the demo's model: one a little stricter, and one that is damaged and does not look it.

The damaged one has no numbers for the sizes of boxes in pictures darker than those it was tried on. Its golden
vectors hold, because the reference scenes are bright, and so are the frames on which its accuracy was measured: it
is published, as a real one would be, and only live frames tell.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper

from edge_runtime.authoring.coco import CocoBox, CocoCategory, CocoImage, CocoSet
from edge_runtime.authoring.evaluate import evaluate_package, record
from edge_runtime.authoring.golden_vectors import record_golden
from edge_runtime.authoring.write_package import write_files
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.perception.backends import load_backend
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.detector import Detector
from edge_runtime.sources.frame import Image

DARK = 108.0
"""Mean of a picture below which the damaged version has no numbers: the reference scenes of the golden vectors lie
at 115, the camera's clip at 96 to 103, and its frames as they are measured, brightened, at 120."""

DATASET = "frames of carphone, brightened, as the model of 2023 sees them"
_BRIGHTER = 1.22
_EVERY = 6
_SIZES = "538"


@dataclass(frozen=True, slots=True)
class Versions:
    """Packages of the demo.

    Attributes:
        first: what all devices were set up with.
        good, damaged: to be released, one after the other.
    """

    first: ModelPackage
    good: ModelPackage
    damaged: ModelPackage


def make_versions(base: Path, clip: Path, folder: Path) -> Versions:
    """Make both versions, measured on the same frames.

    Args:
        base: package of the demo's model.
        clip: of the camera.
        folder: made.

    Raises:
        EdgeRuntimeError: the package or the clip cannot be used.
    """
    folder.mkdir(parents=True)
    first = open_package(base)
    truth = _annotate(first, clip, folder / "frames")
    good = _good(first, folder / "good")
    damaged = _damaged(first, folder / "damaged")
    for package in (good, damaged):
        _measure(package, truth, folder / "frames")
    return Versions(first, open_package(good.directory), open_package(damaged.directory))


def frames_of(clip: Path) -> Iterator[Image]:
    """Pictures of a video, (H, W, 3) uint8, BGR."""
    with av.open(str(clip)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="bgr24")


def sees(package: ModelPackage, pictures: Sequence[Image]) -> list[Detections]:
    """What a version makes of pictures."""
    backend = load_backend(package.weights)
    try:
        detector = Detector(package, backend)
        return [detector.detect(picture) for picture in pictures]
    finally:
        backend.close()


def _good(first: ModelPackage, folder: Path) -> ModelPackage:
    """The same weights under a stricter threshold: a device fetches a manifest, and no weights again."""
    shutil.copytree(first.directory, folder)
    manifest = first.manifest
    thresholds = manifest.thresholds.model_copy(update={"score": 0.4})
    return _rewritten(folder, manifest.model_copy(update={"thresholds": thresholds}))


def _damaged(first: ModelPackage, folder: Path) -> ModelPackage:
    data = _dark_is_no_number(first.weights.read_bytes())
    manifest = first.manifest
    weights = manifest.weights.model_copy(
        update={
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "source": "made by the demo from the first version",
            "original_sha256": manifest.weights.sha256,
            "repairs": (),
        }
    )
    bare = manifest.model_copy(
        update={"version": f"sha256:{weights.sha256}", "weights": weights, "golden": ()}
    )
    scratch = folder.with_suffix(".onnx")
    scratch.write_bytes(data)
    backend = load_backend(scratch)
    try:
        vectors = record_golden(bare, backend)
    finally:
        backend.close()
        scratch.unlink()
    files = {weights.file: data, "CARD.md": b"# Damaged on purpose\n\nMade by `make demo-rollout`.\n"}
    for one in vectors:
        files |= {one.vector.inputs: one.inputs, one.vector.outputs: one.outputs}
    return write_files(
        bare.model_copy(update={"golden": tuple(one.vector for one in vectors)}), files, folder
    )


def _dark_is_no_number(data: bytes) -> bytes:
    """Sizes of boxes times √x/√x, where x is how much brighter the picture is than `DARK`: 1, or no number."""
    model = onnx.load_model_from_string(data)
    graph = model.graph
    picture = graph.input[0].name
    for node in graph.node:
        for place, name in enumerate(node.output):
            if name == _SIZES:
                node.output[place] = "sizes"
    graph.initializer.append(helper.make_tensor("dark", TensorProto.FLOAT, [1], [DARK]))
    graph.node.extend(
        [
            helper.make_node("ReduceMean", [picture], ["brightness"], axes=[1, 2, 3], keepdims=1),
            helper.make_node("Sub", ["brightness", "dark"], ["above"]),
            helper.make_node("Sqrt", ["above"], ["root"]),
            helper.make_node("Div", ["root", "root"], ["one"]),
            helper.make_node("Mul", ["sizes", "one"], [_SIZES]),
        ]
    )
    found: bytes = model.SerializeToString()
    return found


def _annotate(first: ModelPackage, clip: Path, folder: Path) -> CocoSet:
    """Frames of a clip as pictures, brightened, with the boxes that the first version finds in them."""
    chosen = [
        np.clip(picture * _BRIGHTER, 0, 255).astype(np.uint8) for picture in list(frames_of(clip))[::_EVERY]
    ]
    folder.mkdir()
    images: list[CocoImage] = []
    boxes: list[CocoBox] = []
    for number, (picture, found) in enumerate(zip(chosen, sees(first, chosen), strict=True), 1):
        cv2.imwrite(str(folder / f"{number}.png"), picture)
        images.append(CocoImage(id=number, file_name=f"{number}.png"))
        for x1, y1, x2, y2 in found.xyxy.tolist():
            boxes.append(CocoBox(image_id=number, category_id=1, bbox=(x1, y1, x2 - x1, y2 - y1)))
    (label,) = first.manifest.labels
    return CocoSet(
        images=tuple(images), annotations=tuple(boxes), categories=(CocoCategory(id=1, name=label),)
    )


def _measure(package: ModelPackage, truth: CocoSet, images: Path) -> None:
    backend = load_backend(package.weights)
    try:
        record(package, evaluate_package(package, backend, truth, images), DATASET)
    finally:
        backend.close()


def _rewritten(folder: Path, manifest: ModelManifest) -> ModelPackage:
    path = folder / "manifest.json"
    path.write_text(json.dumps(manifest.model_dump(mode="json", exclude_none=True), indent=2) + "\n")
    return open_package(folder)
