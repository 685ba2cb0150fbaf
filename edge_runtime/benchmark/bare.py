"""The reference: a loop around the backend's run call on frames that were preprocessed beforehand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edge_runtime.perception.backends import Backend, Tensor, create_session


@dataclass(frozen=True, slots=True)
class BareOptions:
    """Session options of one reference loop."""

    threads: int
    spinning: bool

    @property
    def name(self) -> str:
        """As printed in reports."""
        return (
            f"{self.threads} thread{'s' if self.threads > 1 else ''}{', spinning' if self.spinning else ''}"
        )


class Loop(Protocol):
    """A reference loop."""

    @property
    def name(self) -> str:
        """As printed in reports."""
        ...

    def run(self, frames: int) -> int:
        """Infer `frames` times; returns `frames`."""
        ...


class BareLoop:
    """`session.run` in a loop, nothing else.

    Args:
        weights: the ONNX file.
        options: session options; equal to the runtime's where the two are compared.
        feeds: preprocessed inputs, used in turn.
        providers: as `load_backend` takes them.
    """

    def __init__(
        self,
        weights: Path,
        options: BareOptions,
        feeds: Sequence[Mapping[str, Tensor]],
        providers: Sequence[str] = ("cpu",),
    ) -> None:
        self._session = create_session(
            weights, providers=providers, threads=options.threads, spinning=options.spinning
        )
        self._feeds = feeds
        self.options = options

    @property
    def name(self) -> str:
        """As printed in reports."""
        return self.options.name

    def run(self, frames: int) -> int:
        """Infer `frames` times; returns `frames`."""
        run, feeds = self._session.run, self._feeds
        for index in range(frames):
            run(None, feeds[index % len(feeds)])
        return frames


class BackendLoop:
    """`infer` of a loaded backend in a loop, for one that ONNX Runtime cannot run: an engine of TensorRT.

    Args:
        backend: stays the caller's.
        feeds: preprocessed inputs, used in turn.
    """

    def __init__(self, backend: Backend, feeds: Sequence[Mapping[str, Tensor]]) -> None:
        self._backend, self._feeds = backend, feeds

    @property
    def name(self) -> str:
        """As printed in reports."""
        return f"{self._backend.facts.effective}, one run at a time"

    def run(self, frames: int) -> int:
        """Infer `frames` times; returns `frames`."""
        for index in range(frames):
            self._backend.infer(self._feeds[index % len(self._feeds)])
        return frames
