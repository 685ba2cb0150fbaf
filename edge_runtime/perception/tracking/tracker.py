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
        self.retune(settings if settings is not None else TrackerSettings())
        self.reset()

    def retune(self, settings: TrackerSettings) -> None:
        """Other scores and times from the next frame on; tracks and their ids stay.

        For a model that takes another's place and is trusted to see the same objects.
        """
        self._settings = settings
        self._lost_ns = round(settings.lost * NS_PER_S)
        self._coast_ns = round(settings.coast * NS_PER_S)

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
            own box (`seen`), and those unseen for up to `settings.coast` seconds, or for one frame where frames
            are rarer than that, with the predicted box; with a `coast` of 0 only the former.

        Raises:
            ValueError: `media_ns` lies before the last frame's; a new epoch needs a new tracker.
        """
        last_ns = media_ns if self._media_ns is None else self._media_ns
        if media_ns < last_ns:
            raise ValueError(
                f"media time went back by {(last_ns - media_ns) / NS_PER_S:.3f} s within one tracker: "
                "start a new one when the source begins a new epoch"
            )
        self._media_ns = media_ns
        self._frame += 1
        tracks = self._tracks
        measured = usable(detections, self._settings)
        # Before matching: after a gap longer than `lost` nobody may inherit an old id.
        tracks.forget(media_ns - self._lost_ns)
        if len(tracks):
            tracks.motion.predict((media_ns - last_ns) / NS_PER_S, tracks.seen_ns == last_ns)
        if len(tracks) and len(measured):
            source, unmatched = associate(tracks, measured, last_ns)
            tracks.update(measured, source, media_ns)
        else:
            source = np.full(len(tracks), -1)
            unmatched = np.arange(measured.confident)
        if tracks.confirmed < len(tracks):
            source = self._drop_tentative(source)
        if len(unmatched):
            source = self._begin(measured, unmatched, source, media_ns)
        if tracks.confirmed < len(tracks):
            tracks.confirm(self._frame, self._settings.confirm)
        return self._report(measured, source, min(media_ns - self._coast_ns, last_ns))

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

    def _report(self, measured: Measured, source: IntArray, since_ns: int) -> Tracks:
        """The confirmed tracks that were seen since `since_ns`, or in this very frame where none may coast."""
        tracks = self._tracks
        shown = tracks.seen_ns >= since_ns if self._coast_ns else source >= 0
        index = shown[: tracks.confirmed].nonzero()[0]
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
