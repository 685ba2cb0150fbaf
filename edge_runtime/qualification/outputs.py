"""Output tensors that no healthy model gives: not finite, or the same whatever is shown."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from edge_runtime.perception.backends import Tensor
from edge_runtime.qualification.problem import Problem


def nonfinite_outputs(outputs: Mapping[str, Tensor], shown: str) -> Iterator[Problem]:
    """Outputs that hold NaN or infinity.

    Args:
        outputs: arrays by name.
        shown: the picture's name, for the sentence.
    """
    for name, tensor in outputs.items():
        if tensor.dtype.kind != "f":
            continue
        broken = int(tensor.size - np.count_nonzero(np.isfinite(tensor)))
        if broken:
            yield Problem(
                "nonfinite-output",
                f"output {name} holds {broken} of {tensor.size} values that are NaN or infinite (shown: {shown}); "
                "such weights detect nothing: obtain or quantise them anew",
            )


def constant_outputs(runs: Sequence[Mapping[str, Tensor]], *, finished: bool) -> Iterator[Problem]:
    """Outputs that do not depend on the picture.

    A count of detections or a list of class ids may well be the same for two pictures, so only a model whose
    every output is the same is called constant.

    Args:
        runs: outputs of at least two different pictures.
        finished: the graph drops low scores itself, so that finding nothing everywhere is only a warning.
    """
    first, *others = runs
    for other in others:
        for name, tensor in first.items():
            twin = other[name]
            if twin.shape != tensor.shape or not np.array_equal(twin, tensor):
                return
    yield Problem(
        "constant-output",
        f"all outputs are the same for {len(runs)} different pictures: the weights ignore what they are shown",
        "warning" if finished else "error",
    )
