"""Which detection belongs to which track: the three stages of ByteTrack (Zhang et al., ECCV 2022).

Gates and weighting are those of the published code and of its port in MMTracking, which agree.
"""

import numpy as np

from edge_runtime.perception.detections import IntArray
from edge_runtime.perception.tracking.assignment import assign
from edge_runtime.perception.tracking.measured import Measured
from edge_runtime.perception.tracking.motion import corners
from edge_runtime.perception.tracking.overlap import Similarity, pairwise_iou
from edge_runtime.perception.tracking.population import Population

# The first and the third hold for overlap times score.
_GATE_CONFIDENT = 0.1
_GATE_DOUBTFUL = 0.5
_GATE_TENTATIVE = 0.3

_NONE = np.zeros(0, np.int64)


def associate(tracks: Population, measured: Measured, last_ns: int) -> tuple[IntArray, IntArray]:
    """Matches predicted tracks with the detections of this frame.

    A track is matched with detections of its own label only.

    Args:
        tracks: at least one, predicted to the time of this frame.
        measured: at least one detection.
        last_ns: media time of the evaluated frame before this one.

    Returns:
        For each track the index of its detection, or -1; and the confident detections that nobody took.
    """
    source = np.empty(len(tracks), np.int64)
    source.fill(-1)
    overlap = _overlap(tracks, measured)
    confirmed, confident = tracks.confirmed, measured.confident
    weighted = overlap[:, :confident] * measured.score[:confident]
    row, column = assign(weighted[:confirmed], _GATE_CONFIDENT)
    source[row] = column
    if confident < len(measured):
        free = source[:confirmed] < 0
        free &= tracks.seen_ns[:confirmed] == last_ns
        recent = free.nonzero()[0]
        if len(recent):
            row, doubtful = assign(overlap[:, confident:].take(recent, axis=0), _GATE_DOUBTFUL)
            source[recent[row]] = doubtful + confident
    if len(column) == confident:
        return source, _NONE
    left = np.ones(confident, np.bool_)
    left[column] = False
    unmatched = left.nonzero()[0]
    if confirmed < len(tracks):
        row, column = assign(weighted[confirmed:].take(unmatched, axis=1), _GATE_TENTATIVE)
        taken = unmatched[column]
        source[row + confirmed] = taken
        left[taken] = False
        unmatched = left.nonzero()[0]
    return source, unmatched


def _overlap(tracks: Population, measured: Measured) -> Similarity:
    overlap = pairwise_iou(corners(tracks.motion.state[0]), measured.xyxy.T)
    if np.count_nonzero(measured.label == tracks.only_label) < len(measured):
        overlap *= tracks.label[:, None] == measured.label
    return overlap
