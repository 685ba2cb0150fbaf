"""COCO-format ground truth: read, checked, and matched to a model's labels by name.

Ids are never matched: COCO numbers its 80 categories 1 to 90 with gaps, models 0 to 79, and a table shifted by
one reports persons as bicycles without any error.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from edge_runtime.config.regular_file import open_regular
from edge_runtime.errors import ConfigError
from edge_runtime.packages.validation import explain

_LONGEST_PATH = 4095  # bytes, PATH_MAX of Linux without its closing NUL

_RENAMED = {
    "aeroplane": "airplane",
    "diningtable": "dining table",
    "motorbike": "motorcycle",
    "pottedplant": "potted plant",
    "sofa": "couch",
    "tvmonitor": "tv",
    "hair dryer": "hair drier",
}
"""Names of Pascal VOC and darknet for COCO categories."""


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class CocoImage(_Read):
    """One image; the size is that of the annotations, where they say it."""

    id: int
    file_name: str
    width: int | None = None
    height: int | None = None

    @field_validator("file_name")
    @classmethod
    def _can_be_a_file(cls, name: str) -> str:
        if not name or "\0" in name or len(name.encode()) > _LONGEST_PATH:
            raise ValueError(
                f"no file can have this name: it is empty, holds a NUL, or is over {_LONGEST_PATH} bytes long"
            )
        return name


class CocoBox(_Read):
    """One annotated object; `bbox` is x, y, width, height in pixels."""

    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    area: float | None = None
    iscrowd: int = 0


class CocoCategory(_Read):
    """One category."""

    id: int
    name: str


class CocoSet(_Read):
    """Ground truth of a set of images."""

    images: tuple[CocoImage, ...]
    annotations: tuple[CocoBox, ...]
    categories: tuple[CocoCategory, ...]


def read_coco(path: Path) -> CocoSet:
    """Read an annotation file.

    Raises:
        ConfigError: it cannot be read, is not COCO format, or contradicts itself.
    """
    try:
        with open_regular(path) as file:
            truth = CocoSet.model_validate_json(file.read())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"{explain(str(path), error)} (COCO format is needed)") from error
    if not truth.images:
        raise ConfigError(f"{path}: lists no images")
    if not truth.annotations:
        raise ConfigError(f"{path}: holds no boxes, so nothing can be measured")
    _require_unique(path, "image", [image.id for image in truth.images])
    _require_unique(path, "category", [category.id for category in truth.categories])
    images = {image.id for image in truth.images}
    categories = {category.id for category in truth.categories}
    for box in truth.annotations:
        if box.image_id not in images:
            raise ConfigError(f"{path}: a box belongs to image {box.image_id}, which is not listed")
        if box.category_id not in categories:
            raise ConfigError(f"{path}: a box belongs to category {box.category_id}, which is not listed")
    return truth


def _require_unique(path: Path, what: str, ids: Sequence[int]) -> None:
    (value, count), *_ = Counter(ids).most_common(1) or [(0, 0)]
    if count > 1:
        raise ConfigError(f"{path}: the {what} id {value} is given to {count} entries")


@dataclass(frozen=True, slots=True)
class Scored:
    """What is measured.

    Attributes:
        categories: id → name of the categories that count.
        category_of_label: index into the label map → category id; labels that are not scored are absent.
    """

    categories: dict[int, str]
    category_of_label: dict[int, int]


def plain_name(name: str) -> str:
    """A category name without case, separators and old spellings: `TV-Monitor` → `tv`."""
    words = re.sub(r"[^a-z0-9]+", " ", name.casefold()).strip()
    return _RENAMED.get(words, _RENAMED.get(words.replace(" ", ""), words)).replace(" ", "")


def match_labels(labels: Sequence[str], truth: CocoSet, classes: Sequence[str]) -> Scored:
    """Find the category of each label by its name.

    Args:
        labels: the model's label map.
        truth: the ground truth.
        classes: names to score; empty scores every category that has a box.

    Raises:
        ConfigError: a class to score is unknown to the ground truth or to the model. Scoring only what
            happens to match would make a wrong label map look like a good one.
    """
    names = {category.id: category.name for category in truth.categories}
    by_name: dict[str, int] = {}
    annotated = {box.category_id for box in truth.annotations}
    for number, name in names.items():
        plain = plain_name(name)
        if plain in by_name and number in annotated and by_name[plain] in annotated:
            raise ConfigError(f"the annotations have two categories called '{name}'")
        if plain not in by_name or number in annotated:
            by_name[plain] = number
    if classes:
        unknown = [name for name in classes if plain_name(name) not in by_name]
        if unknown:
            raise ConfigError(
                f"the annotations have no category {_some(unknown)}; they have {_some(names.values())}"
            )
        wanted = {by_name[plain_name(name)] for name in classes}
    else:
        wanted = annotated
    of_label = {index: by_name.get(plain_name(label)) for index, label in enumerate(labels)}
    found = {index: number for index, number in of_label.items() if number in wanted and number is not None}
    missing = [names[number] for number in sorted(wanted) if number not in found.values()]
    if len(missing) == len(wanted):
        raise ConfigError(
            f"the model's labels ({_some(labels)}) match none of the annotated categories ({_some(missing)}): "
            "one of the two label sets is wrong"
        )
    if missing:
        raise ConfigError(
            f"the model has no label for {_some(missing)}: score what it knows with "
            f"--classes {','.join(sorted(names[number] for number in set(found.values()))[:3])}, "
            "or correct its labels"
        )
    return Scored({number: names[number] for number in sorted(wanted)}, found)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(f"'{name}'" for name in listed[:4]) + more
