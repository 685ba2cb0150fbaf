"""The label map of a camera, which outlives the models that look through it.

Rules are compiled against label numbers once. A model that takes another's place may number its labels otherwise or
have more of them: its numbers become the camera's, by name, and a name that is new gets a number of its own.
"""

from collections.abc import Sequence

import numpy as np

from edge_runtime.perception.detections import Detections, IntArray


class LabelBook:
    """Names of a camera's labels by number.

    Args:
        labels: of the model that looked first, in its order.

    Attributes:
        names: by number; grows, and never changes otherwise.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.names = list(labels)

    def translation(self, labels: Sequence[str]) -> IntArray | None:
        """Numbers of this book by those of a model with `labels`; None where both are the same."""
        if list(labels) == self.names[: len(labels)]:
            return None
        numbers = {name: number for number, name in reversed(list(enumerate(self.names)))}
        for name in labels:
            if name not in numbers:
                numbers[name] = len(self.names)
                self.names.append(name)
        return np.array([numbers[name] for name in labels], np.int64)


def translated(detections: Detections, translation: IntArray | None) -> Detections:
    """Detections under the book's numbers; see `LabelBook.translation`."""
    if translation is None or not len(detections):
        return detections
    return Detections(detections.xyxy, detections.score, translation[detections.label], detections.nonfinite)
