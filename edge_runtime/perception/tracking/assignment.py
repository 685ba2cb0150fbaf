"""Exact one-to-one assignment of tracks and detections, without scipy.

The objective is the published one (ByteTrack calls LAPJV with a cost limit): choose pairs so that the sum over
the chosen pairs of `similarity - gate` is as large as possible; a pair below the gate is never chosen.

Video makes most of the problem trivial, so it is peeled in exact steps, each cheaper than what follows:

1. if the best columns of all rows that have a candidate differ, they are the optimum, for no row can do better;
   likewise for columns;
2. a pair whose weight is at least the second best of its row plus the second best of its column belongs to an
   optimum, since a solution without it loses at most those two when they make room for it; such pairs are taken
   until none is left;
3. the rest falls into connected components, each solved by shortest augmenting paths (Jonker and Volgenant 1987).

docs/decisions/0041-assignment.md has the shares of the steps on real and crowded scenes.
"""

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]
Index = npt.NDArray[np.int64]
Pairs = tuple[Index, Index]

_NONE = np.zeros(0, np.int64)


def assign(similarity: Weights, gate: float) -> Pairs:
    """The best pairs of rows and columns.

    Args:
        similarity: (N, M), finite; larger is more alike.
        gate: pairs must lie above it to be chosen.

    Returns:
        Rows and columns of the chosen pairs, (K,) each, in a deterministic order.
    """
    height, width = similarity.shape
    if not height or not width:
        return _NONE, _NONE
    columns = similarity.argmax(axis=1)
    best = similarity[np.arange(height), columns]
    rows = (best > gate).nonzero()[0]
    columns = columns.take(rows)
    if _distinct(columns):
        return rows, columns
    rows = similarity.argmax(axis=0)
    best = similarity[rows, np.arange(width)]
    columns = (best > gate).nonzero()[0]
    rows = rows.take(columns)
    if _distinct(rows):
        return rows, columns
    return _contested(similarity - np.float32(gate))


def _distinct(index: Index) -> bool:
    return len(set(index.tolist())) == len(index)


def _contested(weight: Weights) -> Pairs:
    """The pairs of largest total `weight` (N, M), where pairs of weight <= 0 are no candidates."""
    weight = np.maximum(weight, 0)
    open_rows = np.arange(weight.shape[0])
    open_columns = np.arange(weight.shape[1])
    rows, columns = [], []
    while True:
        row, column, rest_rows, rest_columns = _dominant(weight)
        rows.append(open_rows[row])
        columns.append(open_columns[column])
        open_rows, open_columns = open_rows[rest_rows], open_columns[rest_columns]
        weight = weight.take(rest_rows, axis=0).take(rest_columns, axis=1)
        if not len(row) or not weight.any():
            break
    for part_rows, part_columns in _components(weight):
        row, column = solve(weight[part_rows][:, part_columns])
        rows.append(open_rows[part_rows[row]])
        columns.append(open_columns[part_columns[column]])
    return np.concatenate(rows), np.concatenate(columns)


def _dominant(weight: Weights) -> tuple[Index, Index, Index, Index]:
    """Pairs that outweigh both their rivals together, so that an optimum surely holds them.

    Returns:
        Rows and columns of those pairs; then the rows and the columns that are left and have a candidate.
    """
    height, width = weight.shape
    every_row = np.arange(height)
    every_column = np.arange(width)
    best_column = weight.argmax(axis=1)
    best_row = weight.argmax(axis=0)
    best_of_row = weight[every_row, best_column]
    best_of_column = weight[best_row, every_column]
    rivals = weight.copy()
    rivals[every_row, best_column] = 0
    second_of_row = rivals.max(axis=1)
    rivals[every_row, best_column] = best_of_row
    rivals[best_row, every_column] = 0
    second_of_column = rivals.max(axis=0)
    settled = best_row[best_column] == every_row
    settled &= best_of_row > 0
    settled &= best_of_row >= second_of_row + second_of_column[best_column]
    row = settled.nonzero()[0]
    column = best_column[row]
    rest_rows = best_of_row > 0
    rest_rows[row] = False
    rest_columns = best_of_column > 0
    rest_columns[column] = False
    return row, column, rest_rows.nonzero()[0], rest_columns.nonzero()[0]


def _components(weight: Weights) -> list[Pairs]:
    """Rows and columns of each connected component of the pairs that have a weight."""
    by_row = [row.nonzero()[0].tolist() for row in weight > 0]
    by_column = [column.nonzero()[0].tolist() for column in weight.T > 0]
    unvisited = {row for row, neighbours in enumerate(by_row) if neighbours}
    parts = []
    while unvisited:
        start = min(unvisited)
        unvisited.discard(start)
        rows, columns, pending = {start}, set[int](), [start]
        while pending:
            for column in by_row[pending.pop()]:
                if column not in columns:
                    columns.add(column)
                    fresh = unvisited.intersection(by_column[column])
                    unvisited -= fresh
                    rows |= fresh
                    pending.extend(fresh)
        parts.append((np.array(sorted(rows)), np.array(sorted(columns))))
    return parts


def solve(weight: npt.NDArray[np.floating]) -> Pairs:
    """The pairs of largest total weight, by shortest augmenting paths with potentials.

    One row after the other is added; the path along which earlier rows move over is found as Dijkstra would,
    O(N * N * M) at worst, vectorised over the columns.

    Args:
        weight: (N, M), finite, >= 0; 0 means that the pair is no candidate.

    Returns:
        Rows and columns of the chosen pairs, ascending in the rows; pairs of weight 0 are left out.
    """
    if weight.shape[0] > weight.shape[1]:
        columns, rows = solve(weight.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    height, width = weight.shape
    cost = -weight.astype(np.float64)
    row_price = np.zeros(height)
    column_price = np.zeros(width)
    owner = np.full(width, -1)
    for start in range(height):
        distance = np.full(width, np.inf)
        previous = np.full(width, -1)
        closed = np.zeros(width)  # infinite once a column is on the tree
        row, length, column = start, 0.0, -1
        path: list[int] = []
        while True:
            reach = cost[row] - column_price
            reach += length - row_price[row]
            reach += closed
            better = reach < distance
            distance[better] = reach[better]
            previous[better] = column
            column = int((distance + closed).argmin())
            length = float(distance[column])
            if owner[column] < 0:
                break
            closed[column] = np.inf
            path.append(column)
            row = int(owner[column])
        row_price[start] += length
        passed = np.array(path, np.int64)
        gain = length - distance[passed]
        column_price[passed] -= gain
        row_price[owner[passed]] += gain
        while previous[column] >= 0:
            owner[column] = owner[previous[column]]
            column = int(previous[column])
        owner[column] = start
    taken = (owner >= 0).nonzero()[0]
    order = np.argsort(owner[taken])
    columns = taken[order]
    rows = owner[columns]
    chosen = weight[rows, columns] > 0
    return rows[chosen], columns[chosen]
