"""Golden vectors: inputs and outputs that the author measured, so that a device can tell whether it agrees.

A vector starts at a picture, not at a tensor: the recorded tensor proves that this device prepares pictures as
the author did (size, colour order, scale), the recorded outputs that it computes the same, the recorded
detections that it reads them the same. Both files are `.npz`; arrays are named by tensor, and

- `@picture` in the inputs is the picture as PNG bytes;
- an output of more than 4096 values is a sample: the values, `NAME@index` (flat) and `NAME@shape`;
- `@xyxy`, `@score`, `@label` in the outputs are the detections in pixels of the picture.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from edge_runtime.errors import PackageError
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.detections import Detections
from edge_runtime.sources.frame import Image

SAMPLE: Final = 4096
"""Values kept of a larger output: half of them spread evenly, half the largest in magnitude."""

_MAX_BYTES: Final = 256 << 20
_PICTURE: Final = "@picture"
_PNG_FAST: Final = 6


@dataclass(frozen=True, slots=True)
class Sample:
    """Some values of one output tensor.

    Attributes:
        shape: of the whole tensor.
        index: flat positions; None where `values` is the whole tensor, flattened.
        values: in the tensor's dtype.
    """

    shape: tuple[int, ...]
    index: Tensor | None
    values: Tensor

    def of(self, tensor: Tensor) -> Tensor:
        """The same positions of another tensor of this shape."""
        flat = tensor.reshape(-1)
        return flat if self.index is None else flat[self.index]


@dataclass(frozen=True, slots=True)
class Golden:
    """One golden vector.

    Attributes:
        picture: what was shown, (H, W, 3) uint8 BGR, or None for a vector that starts at a tensor.
        inputs: arrays by input name.
        outputs: samples by output name.
        detections: what was found at the package's threshold, or None where it was not recorded.
    """

    picture: Image | None
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Sample]
    detections: Detections | None


def take_sample(tensor: Tensor) -> Sample:
    """All of a small tensor; of a larger one an even spread and the largest values."""
    flat = tensor.reshape(-1)
    if flat.size <= SAMPLE:
        return Sample(tensor.shape, None, flat)
    spread = np.linspace(0, flat.size - 1, SAMPLE // 2).astype(np.int64)
    magnitude = np.abs(flat.astype(np.float32))
    largest = np.argsort(-magnitude, kind="stable")[: SAMPLE // 2]
    index = np.unique(np.concatenate([spread, largest])).astype(np.int64)
    return Sample(tensor.shape, index, flat[index])


def write_inputs(picture: Image, feeds: Mapping[str, Tensor]) -> bytes:
    """The `.npz` of a vector's inputs."""
    done, png = cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, _PNG_FAST])
    if not done:
        raise PackageError("the golden picture could not be encoded as PNG")
    return _npz({_PICTURE: png.reshape(-1), **feeds})


def write_outputs(outputs: Mapping[str, Tensor], detections: Detections) -> bytes:
    """The `.npz` of a vector's outputs."""
    arrays: dict[str, Tensor] = {
        "@xyxy": detections.xyxy,
        "@score": detections.score,
        "@label": detections.label,
    }
    for name, tensor in outputs.items():
        sample = take_sample(tensor)
        arrays[name] = sample.values
        arrays[f"{name}@shape"] = np.array(sample.shape, np.int64)
        if sample.index is not None:
            arrays[f"{name}@index"] = sample.index
    return _npz(arrays)


def read_golden(inputs: Path, outputs: Path) -> Golden:
    """Read the two files of a vector.

    Raises:
        PackageError: they do not hold what a golden vector holds.
    """
    given, measured = _load(inputs), _load(outputs)
    encoded = given.pop(_PICTURE, None)
    picture: Image | None = None
    if encoded is not None:
        decoded = cv2.imdecode(encoded.astype(np.uint8), cv2.IMREAD_COLOR)
        if decoded is None:
            raise PackageError(f"{inputs.name}: {_PICTURE} is not a picture")
        picture = decoded.astype(np.uint8, copy=False)
    names = [
        name for name in measured if not name.startswith("@") and not name.endswith(("@shape", "@index"))
    ]
    try:
        samples = {name: _sample(measured, name) for name in names}
    except (IndexError, ValueError) as error:
        raise PackageError(f"{outputs.name} is not a golden vector's output: {error}") from error
    detections = None
    if {"@xyxy", "@score", "@label"} <= measured.keys():
        detections = Detections(measured["@xyxy"], measured["@score"], measured["@label"])
    return Golden(picture, given, samples, detections)


def _sample(arrays: Mapping[str, Tensor], name: str) -> Sample:
    values = arrays[name]
    shape = arrays.get(f"{name}@shape")
    dims = values.shape if shape is None else tuple(int(dim) for dim in shape)
    index = arrays.get(f"{name}@index")
    if index is None and int(np.prod(dims)) != values.size:
        raise ValueError(f"{name} has {values.size} values for the shape {dims}")
    if index is not None and (index.shape != values.shape or index.min() < 0 or index.max() >= np.prod(dims)):
        raise ValueError(f"the positions of {name} do not fit its shape {dims}")
    return Sample(dims, index, values.reshape(-1))


def _npz(arrays: Mapping[str, Tensor]) -> bytes:
    """What numpy reads as `.npz`; the same arrays give the same bytes, and any tensor name is allowed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980-01-01
            entry.compress_type = zipfile.ZIP_DEFLATED
            data = io.BytesIO()
            np.lib.format.write_array(data, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(entry, data.getvalue())
    return buffer.getvalue()


def _load(path: Path) -> dict[str, Tensor]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
                raise PackageError(f"{path.name} unpacks to more than {_MAX_BYTES >> 20} MiB: refused")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, zipfile.BadZipFile, KeyError) as error:
        raise PackageError(f"{path.name} is not a golden vector: {error}") from error
