"""Pictures to calibrate with, prepared as the device prepares frames, and kept out of what is measured."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_runtime.authoring.coco import CocoImage, CocoSet, read_coco
from edge_runtime.authoring.evaluate import read_image
from edge_runtime.durable import sha256_file
from edge_runtime.errors import ConfigError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends import Tensor, TensorSpec
from edge_runtime.perception.preprocess import Preprocessor, size_feeds

_SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp"})


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Chosen pictures.

    Attributes:
        folder: that the names are relative to.
        images: name, and size where annotations say it.
        sha256: hex digest of each file, in the same order.
    """

    folder: Path
    images: tuple[CocoImage, ...]
    sha256: tuple[str, ...]

    def digest(self) -> str:
        """SHA-256 of the list that `sha256sum` prints of the files, sorted by name."""
        lines = sorted(
            (image.file_name, digest) for image, digest in zip(self.images, self.sha256, strict=True)
        )
        text = "".join(f"{digest}  {name}\n" for name, digest in lines)
        return hashlib.sha256(text.encode()).hexdigest()

    def feeds(
        self, spec: InputSpec, inputs: Sequence[TensorSpec], count: int | None = None
    ) -> Iterator[dict[str, Tensor]]:
        """Input tensors by name, one picture at a time; each has a buffer of its own.

        Args:
            spec: the model's input.
            inputs: of the backend.
            count: only so many, spread over the set.

        Raises:
            ImageError: a picture is damaged.
        """
        preprocessor = Preprocessor(spec)
        for image in _spread(self.images, len(self.images) if count is None else count):
            tensor = preprocessor.allocate(1)
            preprocessor.fill(read_image(self.folder, image), tensor, 0, None)
            yield {spec.name: tensor, **size_feeds(spec, inputs, 1)}


def choose_pictures(path: Path, count: int) -> CalibrationSet:
    """Take `count` pictures, spread evenly over a set in the order of names.

    Args:
        path: a folder of pictures, or annotations in COCO format beside them.
        count: how many.

    Raises:
        ConfigError: there are fewer, or none.
    """
    try:
        folder, images = _pictures_in(path)
        if len(images) < count:
            raise ConfigError(
                f"{path} holds {len(images)} pictures, fewer than the {count} to calibrate with: "
                "add pictures, or ask for fewer with --images"
            )
        chosen = tuple(_spread(images, count))
        digests = tuple(_read_digest(folder / image.file_name) for image in chosen)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from error
    return CalibrationSet(folder, chosen, digests)


def _pictures_in(path: Path) -> tuple[Path, tuple[CocoImage, ...]]:
    """Folder and pictures, in the order of names."""
    if path.is_dir():
        found = [
            entry.name for entry in path.iterdir() if entry.suffix.lower() in _SUFFIXES and entry.is_file()
        ]
        return path, tuple(CocoImage(id=number, file_name=name) for number, name in enumerate(sorted(found)))
    if path.is_file():
        return pictures_of(path), tuple(sorted(read_coco(path).images, key=lambda image: image.file_name))
    raise ConfigError(f"{path}: there is neither a folder of pictures nor a COCO file to calibrate with")


def _read_digest(path: Path) -> str:
    if not path.is_file():  # a pipe would be read for ever
        path.stat()
        raise ConfigError(f"{path}: is not a picture's file")
    return sha256_file(path)


def pictures_of(annotations: Path) -> Path:
    """Where the pictures of a COCO file lie: in `images` beside it, else in its own folder."""
    beside = annotations.resolve().parent / "images"
    return beside if beside.is_dir() else beside.parent


def held_out(truth: CocoSet, folder: Path, calibration: CalibrationSet) -> CocoSet:
    """A set without the pictures that were calibrated with, told by their bytes.

    Raises:
        ConfigError: nothing is left.
    """
    used = set(calibration.sha256)
    images = tuple(image for image in truth.images if _digest(folder / image.file_name) not in used)
    numbers = {image.id for image in images}
    boxes = tuple(box for box in truth.annotations if box.image_id in numbers)
    if not boxes:
        raise ConfigError(
            "every annotated picture of --evaluate-on is one that was calibrated with: "
            "evaluate on others, or calibrate with fewer (--images)"
        )
    return truth.model_copy(update={"images": images, "annotations": boxes})


def _digest(path: Path) -> str | None:
    try:
        return _read_digest(path)
    except (OSError, ConfigError):  # the evaluation says what is wrong with it
        return None


def _spread(images: Sequence[CocoImage], count: int) -> Iterator[CocoImage]:
    count = min(count, len(images))
    return (images[place * len(images) // count] for place in range(count))
