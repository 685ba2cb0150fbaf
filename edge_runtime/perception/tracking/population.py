"""All tracks of one tracker as a struct of arrays."""

import math

import numpy as np

from edge_runtime.perception.detections import IntArray
from edge_runtime.perception.tracking.measured import Measured
from edge_runtime.perception.tracking.motion import Motion

_MIXED = -1
"""No index into a label map."""


class Population:
    """Tracks in the order in which they began, confirmed or tentative.

    A tentative track is dropped at its first miss, so the older of two has always been seen at least as often:
    the confirmed tracks are a prefix, and ids given in this order are ascending.

    Attributes:
        motion: the filters.
        score: (N,) float32, of the last matched detection.
        track_id: (N,) int64, 0 while tentative.
        label: (N,) int64, of the first detection and all that were matched since.
        first_frame: (N,) int64, number of the evaluated frame in which the track began.
        seen_ns: (N,) int64, media time of the last detection.
        confirmed: how many tracks, from the first on, are confirmed.
        only_label: the label of all tracks, where they have but one, else -1.
    """

    __slots__ = (
        "_facts",
        "_next_id",
        "_oldest_ns",
        "confirmed",
        "first_frame",
        "label",
        "motion",
        "only_label",
        "score",
        "seen_ns",
        "track_id",
    )

    def __init__(self) -> None:
        self._next_id = 1
        self._oldest_ns = -math.inf  # no later than any of `seen_ns`
        self.motion = Motion.begin(np.zeros((2, 2, 0)))
        self.score = np.zeros(0, np.float32)
        self._set(np.zeros((4, 0), np.int64))

    def __len__(self) -> int:
        return len(self.score)

    def _set(self, facts: IntArray) -> None:
        self._facts = facts
        self.track_id, self.label, self.first_frame, self.seen_ns = facts
        self.confirmed = int(np.count_nonzero(self.track_id))
        labels = set(self.label.tolist())
        self.only_label = labels.pop() if len(labels) == 1 else _MIXED

    def keep(self, index: IntArray) -> None:
        """Drops all tracks but those at `index`, ascending."""
        self.motion = self.motion.select(index)
        self.score = self.score.take(index)
        self._set(self._facts.take(index, axis=1))

    def forget(self, before_ns: int) -> None:
        """Drops the tracks that were last seen before a media time."""
        if len(self.score) and self._oldest_ns < before_ns:
            recent = self.seen_ns >= before_ns
            if np.count_nonzero(recent) < len(recent):
                self.keep(recent.nonzero()[0])
            self._oldest_ns = self.seen_ns.min() if len(self.seen_ns) else before_ns

    def update(self, measured: Measured, source: IntArray, media_ns: int) -> None:
        """Takes the detections `source` (N,) into the tracks; -1 where a track was missed."""
        hit = source >= 0
        self.motion.correct(measured.box.take(source, axis=2), hit)
        np.copyto(self.score, measured.score.take(source), where=hit)
        np.copyto(self.seen_ns, media_ns, where=hit)

    def begin(self, measured: Measured, born: IntArray, frame: int, media_ns: int) -> None:
        """Adds tentative tracks from the detections `born` (K,)."""
        self.motion = self.motion.join(Motion.begin(measured.box.take(born, axis=2)))
        self.score = np.concatenate([self.score, measured.score.take(born)])
        facts = np.zeros((4, len(born)), np.int64)
        facts[1] = measured.label.take(born)
        facts[2] = frame
        facts[3] = media_ns
        self._set(np.concatenate([self._facts, facts], axis=1))

    def confirm(self, frame: int, detections: int) -> None:
        """Gives ids to the tentative tracks that were seen in the last `detections` frames up to `frame`."""
        ripe = int(np.count_nonzero(self.first_frame[self.confirmed :] <= frame - detections + 1))
        if ripe:
            fresh = slice(self.confirmed, self.confirmed + ripe)
            self.track_id[fresh] = np.arange(self._next_id, self._next_id + ripe)
            self._next_id += ripe
            self.confirmed += ripe
