"""Proves that a graph may be fed several pictures at once: the same results, and room for more."""

from typing import Final

import numpy as np

from edge_runtime.authoring.findings import Finding, sure
from edge_runtime.errors import BackendError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends import PROVING_TIMEOUT_S, Backend, Tensor
from edge_runtime.perception.preprocess import Preprocessor, size_feeds
from edge_runtime.qualification.scenes import scene

_LARGEST: Final = 8
_PAIR: Final = ("street", "portraits")


def provable_batch(spec: InputSpec, backend: Backend, *, open_batch: bool) -> tuple[int, Finding]:
    """The largest batch, up to 8, that was seen to give what single pictures give.

    Dynamic quantisation scales by the largest value of the whole batch, and some exporters squeeze the batch
    axis away: both accept a batch and answer wrongly.

    Args:
        spec: the input as it will be fed.
        backend: loaded with the weights.
        open_batch: the graph leaves its batch axis open.
    """
    if not open_batch:
        return 1, sure("input.batch", 1, "the graph fixes its batch axis")
    try:
        alone = [_infer(spec, backend, [name]) for name in _PAIR]
        together = _infer(spec, backend, list(_PAIR))
    except BackendError:
        return 1, sure("input.batch", 1, "the graph leaves its batch axis open but fails with two pictures")
    if not _same(alone, together):
        return 1, sure("input.batch", 1, "two pictures at once gave other results than each alone")
    try:
        _infer(spec, backend, [_PAIR[place % 2] for place in range(_LARGEST)])
    except BackendError:
        return 2, sure("input.batch", 2, "two pictures at once gave what each gave alone; eight failed")
    why = f"two pictures at once gave what each gave alone, and {_LARGEST} ran"
    return _LARGEST, sure("input.batch", _LARGEST, why)


def _infer(spec: InputSpec, backend: Backend, names: list[str]) -> list[Tensor]:
    preprocessor = Preprocessor(spec)
    tensor = preprocessor.allocate(len(names))
    for place, name in enumerate(names):
        preprocessor.fill(scene(name).image, tensor, place, None)
    return backend.infer(
        {spec.name: tensor, **size_feeds(spec, backend.inputs, len(names))}, PROVING_TIMEOUT_S
    )


def _same(alone: list[list[Tensor]], together: list[Tensor]) -> bool:
    for output, batch in enumerate(together):
        for place, results in enumerate(alone):
            single = results[output]
            if batch.ndim != single.ndim or not batch.ndim or batch.shape != (len(alone), *single.shape[1:]):
                return False
            mine, theirs = batch[place].astype(np.float64), single[0].astype(np.float64)
            if not np.allclose(mine, theirs, rtol=1e-3, atol=1e-3, equal_nan=True):
                return False
    return True
