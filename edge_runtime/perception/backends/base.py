"""The backend seam: load once, infer many times, close once, and be honest about what really runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from edge_runtime.errors import BackendError

Tensor = npt.NDArray[Any]


class InferenceTimeout(BackendError):
    """A run did not finish in time and was cancelled: not the same as nothing detected."""


PROVING_TIMEOUT_S: Final = 60.0
"""For runs of a model that nobody has seen answer yet: a graph with a loop may never end.

A large detector takes a few seconds on the slowest core that this runtime meets, so a minute is patience enough.
"""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output as the graph declares it; -1 or a name becomes None in `shape`."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """What a loaded backend says about itself.

    Attributes:
        backend: `onnxruntime` or `tensorrt`.
        version: of the library.
        requested: execution providers or devices asked for, in order.
        effective: the one that really runs the graph, asserted after a warm-up.
        degraded: why it is slower than asked for, or None.
        threads: intra-op threads.
    """

    backend: str
    version: str
    requested: tuple[str, ...]
    effective: str
    degraded: str | None = None
    threads: int = 0


class Backend(Protocol):
    """A loaded model. `infer` may be called from several threads where `concurrent` is True."""

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    facts: BackendFacts
    concurrent: bool

    def infer(self, feeds: Mapping[str, Tensor], timeout_s: float | None = None) -> list[Tensor]:
        """Run the graph once.

        Args:
            feeds: one array per input name, in the declared dtype and layout.
            timeout_s: give up after this long.

        Returns:
            Output arrays in the order of `outputs`.

        Raises:
            InferenceTimeout: the run did not finish in time and was cancelled.
            BackendError: the run failed.
        """
        ...

    def close(self) -> None:
        """Free the model; calling it twice is allowed."""
        ...
