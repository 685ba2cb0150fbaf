"""Words for messages: what a value is, which known word is near, and what other programs call it."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from edge_runtime.document import visible
from edge_runtime.telemetry import redact

OTHER_WORDS = {
    "classes": ("labels",),
    "class": ("data_class", "labels"),
    "objects": ("labels",),
    "label": ("labels", "data_class"),
    "points": ("polygon", "line"),
    "coordinates": ("polygon", "line"),
    "zone": ("polygon",),
    "roi": ("polygon",),
    "threshold": ("min_confidence", "score"),
    "confidence": ("min_confidence", "score"),
    "min_score": ("min_confidence", "score"),
    "type": ("kind",),
    "event": ("on",),
    "duration": ("seconds",),
    "time": ("seconds",),
    "timeout": ("open_timeout",),
    "user": ("username",),
    "pass": ("password",),
    "uri": ("url",),
    "address": ("url",),
    "input": ("url", "path", "device", "source"),
    "file": ("path",),
    "folder": ("path", "directory"),
    "model_path": ("package",),
    "path": ("package", "directory", "url", "device", "file"),
    "weights": ("package",),
    "conf": ("score",),
    "iou": ("nms_iou",),
    "nms": ("nms_iou",),
    "gpu": ("require_gpu",),
    "device": ("providers",),
    "batch_size": ("batch",),
}
"""What people of other programs write, and which of our keys they may mean."""

_LONGEST_SHOWN = 40


def kind_of(value: object) -> str:
    """A value's kind in YAML's words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a section" if isinstance(value, Mapping) else "a list"


def but_found(value: object) -> str:
    """`, not 5`: the value itself where it is short, else its kind; without credentials."""
    if isinstance(value, str):
        shown = visible(redact(value))
        if len(shown) > _LONGEST_SHOWN:
            return f", not a text of {len(value)} characters"
        return f", not '{shown}'"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f", not {value:.12g}"
    return f", not {kind_of(value)}"


def did_you_mean(value: object, words: Sequence[str]) -> str:
    """`; did you mean tcp?`, or nothing where no word is near."""
    if not isinstance(value, str):
        return ""
    near = [word for word in words if word.lower() == value.lower()]
    near = near or get_close_matches(value.lower(), words, n=1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""


def unknown_key(key: str, known: Sequence[str]) -> str:
    """A sentence about a key that is not among `known`."""
    near = [word for word in OTHER_WORDS.get(key.lower(), ()) if word in known]
    near = near or get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.7)
    if near:
        return f"is not a known key; did you mean {near[0]}?"
    return f"is not a known key; known here: {', '.join(sorted(known))}"
