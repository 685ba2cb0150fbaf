"""IDF1: how much of every person carries one identity (Ristani et al., ECCV 2016 workshops).

Identities of truth and prediction are paired one to one over the whole clip so that as many boxes as possible
agree; IDTP counts the boxes that do, and IDF1 = 2 IDTP / (boxes of the truth + boxes predicted).
test_idf1.py checks it against motmetrics 1.4.0, which needs an environment of its own (NumPy < 2).
"""

from dataclasses import dataclass

import numpy as np

from tests.scoring.mot import Ints, Rows, iou


@dataclass(frozen=True, slots=True)
class Identity:
    """Boxes that agree in identity (idtp), that are wrongly predicted (idfp), and that are missed (idfn)."""

    idtp: int
    idfp: int
    idfn: int

    @property
    def idf1(self) -> float:
        """0..1."""
        return 2 * self.idtp / max(2 * self.idtp + self.idfp + self.idfn, 1)


def score(truth: Rows, predicted: Rows, least_overlap: float = 0.5) -> Identity:
    """Compares predicted identities with the truth; rows of the truth that do not count must be left out."""
    people, person = np.unique(truth.identity, return_inverse=True)
    tracks, track = np.unique(predicted.identity, return_inverse=True)
    agree = np.zeros((len(people), len(tracks)), np.int64)
    for frame in np.unique(truth.frame):
        here = np.flatnonzero(truth.frame == frame)
        there = np.flatnonzero(predicted.frame == frame)
        row, column = np.nonzero(iou(truth.xyxy[here], predicted.xyxy[there]) >= least_overlap)
        np.add.at(agree, (person[here[row]], track[there[column]]), 1)
    idtp = best_total(agree)
    return Identity(idtp, len(predicted) - idtp, len(truth) - idtp)


def best_total(gain: Ints) -> int:
    """The largest sum of entries of `gain` (N, M), >= 0, with no two in one row or column.

    Hungarian algorithm with potentials in plain integers (after Kuhn 1955 and Munkres 1957), on purpose not the
    tracker's own solver: one must not judge the other.
    """
    if gain.shape[0] > gain.shape[1]:
        gain = gain.T
    rows, columns = gain.shape
    table = gain.tolist()
    row_price = [max(row, default=0) for row in table]
    column_price = [0] * columns
    owner = [-1] * columns
    for start in range(rows):
        slack: list[float] = [float("inf")] * columns
        came_from = [-1] * columns
        visited = [False] * columns
        row, last = start, -1
        while True:
            best, delta = -1, float("inf")
            for column in range(columns):
                if not visited[column]:
                    value = row_price[row] + column_price[column] - table[row][column]
                    if value < slack[column]:
                        slack[column], came_from[column] = value, last
                    if slack[column] < delta:
                        best, delta = column, slack[column]
            step = int(delta)
            row_price[start] -= step
            for column in range(columns):
                if visited[column]:
                    column_price[column] += step
                    row_price[owner[column]] -= step
                else:
                    slack[column] -= step
            visited[best] = True
            if owner[best] < 0:
                break
            row, last = owner[best], best
        while best >= 0:
            previous = came_from[best]
            owner[best] = start if previous < 0 else owner[previous]
            best = previous
    return sum(table[row][column] for column, row in enumerate(owner) if row >= 0)
