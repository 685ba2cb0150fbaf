"""Where the class names come from: a file that a person gives, the model's metadata, or a guess that says so."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from edge_runtime.authoring.findings import Finding, guess, sure
from edge_runtime.authoring.graph import GraphFacts
from edge_runtime.authoring.label_sets import COCO, VOC, coco_by_category_id
from edge_runtime.errors import PackageError

_METADATA_KEYS: Final = ("names", "classes", "class_names", "labels", "categories")
_FACES: Final = ("centerface", "ultraface", "yunet")
_LONGEST: Final = 64
_MAX_BYTES: Final = 1 << 20
_HINTS: Final = (
    "person",
    "pedestrian",
    "face",
    "head",
    "helmet",
    "hand",
    "vehicle",
    "car",
    "plate",
    "fire",
    "smoke",
)


def read_labels(path: Path) -> tuple[str, ...]:
    """Class names from a file: one a line, or a YAML or JSON list, mapping, or `names:` entry.

    Raises:
        PackageError: the file cannot be read or holds no list of names.
    """
    try:
        if path.exists() and not path.is_file():
            raise PackageError(f"{path}: the label file cannot be read: it is not a regular file")
        if path.stat().st_size > _MAX_BYTES:
            raise PackageError(f"{path} is larger than a label file may be ({_MAX_BYTES >> 20} MiB)")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PackageError(f"{path}: the label file cannot be read: {reason}") from error
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        try:
            value = yaml.safe_load(text)
        except RecursionError as error:
            raise PackageError(
                f"{path}: the label file is nested too deeply to be a list of names"
            ) from error
        except (yaml.YAMLError, ValueError) as error:  # ValueError: a day that is none, a number too long
            raise PackageError(f"{path}: the label file is not valid YAML or JSON") from error
        if isinstance(value, dict) and "names" in value:
            value = value["names"]
        names = _listed(value)
    else:
        names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not names:
        raise PackageError(f"{path}: the label file holds no list of class names")
    checked = _checked(names, str(path))
    (name, count), *_ = Counter(checked).most_common(1)
    if count > 1:
        raise PackageError(f"{path}: the name '{name}' is given to {count} classes: each needs its own")
    return checked


def metadata_labels(graph: GraphFacts) -> tuple[str, ...] | None:
    """Class names from the model's metadata, or None."""
    for key in _METADATA_KEYS:
        value = graph.metadata_value(key)
        if isinstance(value, str):
            value = [part.strip() for part in re.split(r"[,\n;]", value) if part.strip()]
        names = _listed(value)
        if names:
            return _checked(names, f"the model's metadata ({key})")
    return None


def choose_labels(
    graph: GraphFacts, given: Sequence[str] | None, classes: int | None, *, family: str, stem: str
) -> tuple[tuple[str, ...], Finding]:
    """The label map, and how it came about.

    Args:
        graph: its metadata may hold names.
        given: from a person's label file, or None.
        classes: how many the head distinguishes, or None where its outputs do not tell.
        family: of the head.
        stem: the file's name without its ending, for the last guess.

    Raises:
        PackageError: the names' number is not the head's, or nothing tells how many there are.
    """
    for names, where in ((given, "the label file"), (metadata_labels(graph), "the model's metadata")):
        if names:
            if classes is not None and len(names) != classes:
                raise PackageError(
                    f"{where} names {len(names)} classes, but the head has {classes}: "
                    f"give the right names with --labels FILE"
                )
            return tuple(names), sure("labels", summary(names), f"from {where}")
    if classes is None:
        raise PackageError(
            "the outputs do not tell how many classes there are and the file names none: give --labels FILE"
        )
    names, why = _guessed(classes, family, stem)
    return names, guess("labels", summary(names), why)


def summary(names: Sequence[str]) -> str:
    """`80 classes: person, bicycle, car, …`."""
    shown = ", ".join(names[:3])
    if len(names) == 1:
        return shown
    return f"{len(names)} classes: {shown}{', …' if len(names) > 3 else ''}"


def _guessed(classes: int, family: str, stem: str) -> tuple[tuple[str, ...], str]:
    if classes == 1:
        if family in _FACES:
            return ("face",), "a head of this family finds faces"
        words = re.split(r"[^a-z]+", stem.lower())
        hinted = next((hint for hint in _HINTS if any(word.startswith(hint) for word in words)), None)
        if hinted is not None:
            return ("person" if hinted == "pedestrian" else hinted,), "one class, named by the file's name"
    tables = {
        len(COCO): (COCO, "COCO"),
        len(VOC): (VOC, "Pascal VOC"),
        90: (coco_by_category_id(), "COCO ids"),
    }
    if classes in tables:
        names, table = tables[classes]
        return names, f"{classes} classes are usually those of {table}"
    numbered = tuple(f"class-{number}" for number in range(classes))
    return numbered, "nothing names the classes: give --labels FILE before anybody relies on them"


def _listed(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        try:
            numbered = {int(key): str(name) for key, name in value.items()}
        except (TypeError, ValueError):
            return ()
        if sorted(numbered) != list(range(len(numbered))):
            return ()
        return tuple(numbered[place] for place in range(len(numbered)))
    if isinstance(value, list | tuple) and value and all(isinstance(name, str | int) for name in value):
        return tuple(str(name) for name in value)
    return ()


def _checked(names: Sequence[str], where: str) -> tuple[str, ...]:
    cleaned = tuple(" ".join(name.split())[:_LONGEST] for name in names)
    if not all(cleaned):
        raise PackageError(f"{where}: a class has an empty name")
    for number, name in enumerate(cleaned):
        # Control characters would act on a terminal, and half a surrogate pair cannot be written as UTF-8.
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
            raise PackageError(f"{where}: the name of class {number}, {name!a}, is not printable text")
    return cleaned
