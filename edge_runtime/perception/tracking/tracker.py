"""Multi-object tracking by box overlap alone, ByteTrack kind, on arrays.

One step: predict every track to the frame's time; match confident detections with confirmed tracks; match
doubtful detections with the confirmed tracks that are left and were seen a frame ago; match the confident
detections that are left with tentative tracks; begin new tracks from the rest. All tracks live in one struct
of arrays, so a step costs about a hundred numpy calls however many objects there are, where the usual
implementation spends a Python object and a matrix inversion on each (tests/bench/bench_tracker.py compares).

Where it differs from the published code, and why, is in docs/decisions/0040-tracker.md: time is measured, a
track keeps its label, ids start at 1 in every tracker, and a confirmed track is reported for a moment after
its last detection.
"""

import numpy as np

from edge_runtime.clock import NS_PER_S
from edge_runtime.perception.detections import Detections, FloatArray, IntArray, Tracks
from edge_runtime.perception.tracking.association import associate
from edge_runtime.perception.tracking.measured import Measured, usable
from edge_runtime.perception.tracking.motion import corners
from edge_runtime.perception.tracking.population import Population
from edge_runtime.perception.tracking.settings import TrackerSettings


class Tracker:
    """Follows the objects of one source in one epoch with one model.

    Every instance counts its ids from 1 and shares nothing, so a new epoch or a new model gets a new tracker
    and never inherits an id. The same detections at the same times give the same tracks.

    Args:
        settings: scores that count, and the times of a lost and of a coasting track.
    """

    def __init__(self, settings: TrackerSettings | None = None) -> None:
        self._settings = settings if settings is not None else TrackerSettings()
        self._lost_ns = round(self._settings.lost * NS_PER_S)
        self._coast_ns = round(self._settings.coast * NS_PER_S)
        self._bridged = 1 if self._coast_ns else 0
        self.reset()

    def reset(self) -> None:
        """Forgets all tracks and the time; ids start again at 1."""
        self._tracks = Population()
        self._frame = 0  # evaluated frames so far
        self._media_ns: int | None = None

    def update(self, detections: Detections, media_ns: int) -> Tracks:
        """Takes the detections of one evaluated frame and gives the confirmed tracks after it.

        A frame that was not evaluated (dropped, dark, failed) must not be passed: nothing detected means that
        the model looked and saw nothing. Boxes that are not finite, have no area or lie beyond any image never
        enter.

        Args:
            detections: of this frame, in any order, from a detector that keeps scores down to `settings.low`.
            media_ns: the frame's time on the source's timeline, nanoseconds, never decreasing.

        Returns:
            Confirmed tracks in ascending order of their ids: those matched in this frame with the detection's
            own box (`seen`), and those unseen for up to `config.coast` seconds, or for one frame where frames
            are rarer than that, with the predicted box; with a `coast` of 0 only the former.

        Raises:
            ValueError: `media_ns` lies before the last frame's; a new epoch needs a new tracker.
        """
        elapsed_ns = 0 if self._media_ns is None else media_ns - self._media_ns
        if elapsed_ns < 0:
            raise ValueError(
                f"media time went back by {-elapsed_ns / NS_PER_S:.3f} s within one tracker: "
                "start a new one when the source begins a new epoch"
            )
        self._media_ns = media_ns
        last_frame = self._frame
        self._frame += 1
        tracks = self._tracks
        measured = usable(detections, self._settings)
        self._forget(media_ns)
        if len(tracks):
            tracks.motion.predict(elapsed_ns / NS_PER_S, tracks.seen_frame == last_frame)
        if len(tracks) and len(measured):
            source, unmatched = associate(tracks, measured, last_frame)
            tracks.update(measured, source, self._frame, media_ns)
        else:
            source = np.full(len(tracks), -1)
            unmatched = np.arange(measured.confident)
        if tracks.confirmed < len(tracks):
            source = self._drop_tentative(source)
        if len(unmatched):
            source = self._begin(measured, unmatched, source, media_ns)
        if tracks.confirmed < len(tracks):
            tracks.confirm(self._settings.confirm)
        return self._report(measured, source, media_ns)

    def _forget(self, media_ns: int) -> None:
        """Before matching: after a gap longer than `lost` nobody may inherit an old id."""
        recent = self._tracks.seen_ns >= media_ns - self._lost_ns
        if np.count_nonzero(recent) < len(recent):
            self._tracks.keep(recent.nonzero()[0])

    def _drop_tentative(self, source: IntArray) -> IntArray:
        """Drops the tentative tracks that were missed."""
        alive = source >= 0
        alive[: self._tracks.confirmed] = True
        index = alive.nonzero()[0]
        if len(index) < len(source):
            self._tracks.keep(index)
            source = source.take(index)
        return source

    def _begin(self, measured: Measured, unmatched: IntArray, source: IntArray, media_ns: int) -> IntArray:
        """Begins tracks from confident detections that nobody took."""
        born = unmatched[measured.score[unmatched] >= self._settings.new]
        if len(born):
            self._tracks.begin(measured, born, self._frame, media_ns)
            source = np.concatenate([source, born])
        return source

    def _report(self, measured: Measured, source: IntArray, media_ns: int) -> Tracks:
        tracks = self._tracks
        confirmed = tracks.confirmed
        shown = tracks.seen_ns[:confirmed] >= media_ns - self._coast_ns
        shown |= tracks.seen_frame[:confirmed] >= self._frame - self._bridged
        index = shown.nonzero()[0]
        source = source.take(index)
        seen = source >= 0
        return Tracks(
            tracks.track_id.take(index),
            self._boxes(measured, index, source),
            tracks.score.take(index),
            tracks.label.take(index),
            seen,
        )

    def _boxes(self, measured: Measured, index: IntArray, source: IntArray) -> FloatArray:
        coasting = (source < 0).nonzero()[0]
        boxes: FloatArray
        if len(coasting) < len(index):
            boxes = measured.xyxy.take(source, axis=0)
        else:
            boxes = np.empty((len(index), 4), np.float32)
        if len(coasting):
            boxes[coasting] = corners(self._tracks.motion.state[0].take(index[coasting], axis=2)).T
        return boxes
