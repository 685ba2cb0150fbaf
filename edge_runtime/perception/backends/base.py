"""The backend seam: load once, infer many times, close once, and be honest about what really runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edge_runtime.errors import BackendError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.letterbox import Letterbox
from edge_runtime.sources.frame import Image

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
        device: which one runs it and through which library, where the backend knows.
        preparation: where pictures become the model's input.
        note: what else is not as asked for, though nothing is slower than it must be, or None.
    """

    backend: str
    version: str
    requested: tuple[str, ...]
    effective: str
    degraded: str | None = None
    threads: int = 0
    device: str | None = None
    preparation: Literal["cpu", "gpu"] = "cpu"
    note: str | None = None


class Backend(Protocol):
    """A loaded model; `infer` may be called from several threads.

    Attributes:
        inputs: as the graph declares them.
        outputs: likewise.
        facts: what it says about itself.
        in_flight: runs that go on at once: 1 where they follow one another, None where the cores decide.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    facts: BackendFacts
    in_flight: int | None

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


class FramePreparer(Protocol):
    """Turns frames into what a backend's `infer` takes for the model's image input; belongs to one thread."""

    def allocate(self, batch: int) -> Tensor:
        """Room for `batch` images, to be used again from frame to frame; may be sliced along its first axis."""
        ...

    def fill(self, image: Image, out: Tensor, index: int, previous: Letterbox | None) -> Letterbox:
        """Put one frame into `out` at `index`; see `perception.preprocess.Preprocessor.fill`."""
        ...


@runtime_checkable
class DevicePreparing(Protocol):
    """What a backend offers beside `Backend` where frames can become its input on the device."""

    def preprocessor(self, spec: InputSpec) -> FramePreparer | None:
        """Prepares frames for this backend alone; None where the CPU has to."""
        ...
