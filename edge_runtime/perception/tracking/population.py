"""All tracks of one tracker as a struct of arrays."""

import numpy as np

from edge_runtime.perception.detections import IntArray
from edge_runtime.perception.tracking.measured import Measured
from edge_runtime.perception.tracking.motion import Motion


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
        seen_frame: (N,) int64, number of the evaluated frame of the last detection.
        seen_ns: (N,) int64, media time of that frame.
        confirmed: how many tracks, from the first on, are confirmed.
    """

    __slots__ = (
        "_facts",
        "_next_id",
        "confirmed",
        "first_frame",
        "label",
        "motion",
        "score",
        "seen_frame",
        "seen_ns",
        "track_id",
    )

    def __init__(self) -> None:
        self._next_id = 1
        self.confirmed = 0
        self.motion = Motion.begin(np.zeros((2, 2, 0)))
        self.score = np.zeros(0, np.float32)
        self._set(np.zeros((5, 0), np.int64))

    def __len__(self) -> int:
        return len(self.score)

    def _set(self, facts: IntArray) -> None:
        self._facts = facts
        self.track_id, self.label, self.first_frame, self.seen_frame, self.seen_ns = facts

    def keep(self, index: IntArray) -> None:
        """Drops all tracks but those at `index`, ascending."""
        self.motion = self.motion.select(index)
        self.score = self.score.take(index)
        self._set(self._facts.take(index, axis=1))
        self.confirmed = int(np.count_nonzero(self.track_id))

    def update(self, measured: Measured, source: IntArray, frame: int, media_ns: int) -> None:
        """Takes the detections `source` (N,) into the tracks; -1 where a track was missed."""
        hit = source >= 0
        self.motion.correct(measured.box.take(source, axis=2), hit)
        np.copyto(self.score, measured.score.take(source), where=hit)
        np.copyto(self.seen_frame, frame, where=hit)
        np.copyto(self.seen_ns, media_ns, where=hit)

    def begin(self, measured: Measured, born: IntArray, frame: int, media_ns: int) -> None:
        """Adds tentative tracks from the detections `born` (K,)."""
        self.motion = self.motion.join(Motion.begin(measured.box.take(born, axis=2)))
        self.score = np.concatenate([self.score, measured.score.take(born)])
        facts = np.zeros((5, len(born)), np.int64)
        facts[1] = measured.label.take(born)
        facts[2:4] = frame
        facts[4] = media_ns
        self._set(np.concatenate([self._facts, facts], axis=1))

    def confirm(self, detections: int) -> None:
        """Gives ids to the tentative tracks that were seen in so many frames, without a miss since they began."""
        tentative = slice(self.confirmed, None)
        seen = self.seen_frame[tentative] - self.first_frame[tentative] + 1
        ripe = int(np.count_nonzero(seen >= detections))
        if ripe:
            fresh = slice(self.confirmed, self.confirmed + ripe)
            self.track_id[fresh] = np.arange(self._next_id, self._next_id + ripe)
            self._next_id += ripe
            self.confirmed += ripe
