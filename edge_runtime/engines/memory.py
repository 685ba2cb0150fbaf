"""Whether a model fits, said before it is loaded: what it takes, term by term, against what is free.

A load that fails half way may take the process with it, and on a Jetson the kernel may end somebody else's:
processor and GPU share one memory there. So its budget is `MemAvailable`; elsewhere it is what CUDA says of the
device.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from edge_runtime.clock import SystemClock
from edge_runtime.engines.errors import DoesNotFit
from edge_runtime.engines.recipe import EngineRecipe, TensorDeclaration
from edge_runtime.engines.wanted import MIB
from edge_runtime.health.jetson import is_jetson
from edge_runtime.health.linux import read_memory
from edge_runtime.health.sysfiles import SysFiles
from edge_runtime.perception.backends.tensorrt import Cuda

_PICTURE_BYTES: Final = 1920 * 1080 * 3
"""Of a picture whose size nobody knows before it comes."""

_UNKNOWN_ROWS: Final = 10_000
_UNKNOWN_VALUES: Final = 64
"""Taken for extents of an output that only running the network tells: more rows, and values in each, than detectors
answer with."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Memory of the device, in bytes.

    Attributes:
        free: that may be taken now.
        total: of the device.
        shared: whether processor and GPU share it.
    """

    free: int
    total: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that takes memory, in bytes."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What is to be loaded against what is free.

    Attributes:
        what: is to be loaded, for the sentence.
        terms: what it takes.
        budget: of the device.
        reserve: bytes that must stay free.
    """

    what: str
    terms: tuple[Term, ...]
    budget: MemoryBudget
    reserve: int

    @property
    def needed(self) -> int:
        """All terms together, in bytes, without the reserve."""
        return sum(term.nbytes for term in self.terms)

    @property
    def fits(self) -> bool:
        """Whether the reserve stays free."""
        return self.needed + self.reserve <= self.budget.free

    @property
    def sentence(self) -> str:
        """The terms in MiB."""
        terms = ", ".join(f"{term.name} {_mib(term.nbytes)}" for term in self.terms)
        where = "of the memory that processor and GPU share" if self.budget.shared else "of the GPU's memory"
        return (
            f"{self.what} needs {_mib(self.needed)} MiB ({terms}) and {_mib(self.reserve)} MiB must stay free, "
            f"but only {_mib(self.budget.free)} of {_mib(self.budget.total)} MiB {where} are free"
        )

    def require(self) -> None:
        """Refuse what does not fit.

        Raises:
            DoesNotFit: the text says the terms.
        """
        if not self.fits:
            raise DoesNotFit(f"{self.sentence}: use a smaller model, or lower engines.memory_reserve_mib")


def read_budget(cuda: Cuda, *, root: Path = Path("/")) -> MemoryBudget:
    """What is free now.

    Args:
        cuda: the device, opened by this thread.
        root: where etc and proc lie.
    """
    files = SysFiles(root, SystemClock())
    if is_jetson(files):
        memory = read_memory(files)
        available, total = memory.available_bytes.value, memory.total_bytes.value
        if available is not None and total is not None:
            return MemoryBudget(available, total, shared=True)
    free, total = cuda.memory()
    return MemoryBudget(free, total, shared=False)


def load_terms(
    recipe: EngineRecipe,
    engine_bytes: int,
    device_memory_bytes: int,
    *,
    in_flight: int,
    shared: bool,
    pictures: bool = False,
) -> tuple[Term, ...]:
    """What a loaded engine takes.

    Args:
        recipe: of the engine.
        engine_bytes: of the serialised engine; nearly all of it are weights.
        device_memory_bytes: of one execution context: activations, and the scratch space of layers.
        in_flight: runs at a time, each with buffers of its own.
        shared: whether the host's side of the buffers lies in the same memory.
        pictures: whether pictures are prepared on the GPU, and lie there as the camera gave them.
    """
    one = sum(_tensor_bytes(tensor, recipe) for tensor in (*recipe.inputs, *recipe.outputs))
    one += recipe.batch * _PICTURE_BYTES if pictures else 0
    return (
        Term("weights", engine_bytes),
        Term("activations and workspace", device_memory_bytes),
        Term("buffers", one * in_flight * (2 if shared else 1)),
    )


def build_terms(weights_bytes: int, workspace_bytes: int) -> tuple[Term, ...]:
    """What a build takes at least: the weights as they are read and as they are laid out, and its workspace."""
    return (Term("weights, twice", 2 * weights_bytes), Term("workspace", workspace_bytes))


def side_by_side(models: Iterable[tuple[str, Sequence[Term]]]) -> tuple[Term, ...]:
    """Terms of models that are loaded at once, as in an exchange: the old one goes when the new one works."""
    return tuple(Term(f"{term.name} of {model}", term.nbytes) for model, terms in models for term in terms)


def _tensor_bytes(tensor: TensorDeclaration, recipe: EngineRecipe) -> int:
    largest = next((profile.maximum for profile in recipe.profiles if profile.input == tensor.name), None)
    if largest is None:
        # of an output: the first extent that varies is that of the images
        guesses = iter((_UNKNOWN_ROWS, *(_UNKNOWN_VALUES,) * len(tensor.shape)))
        largest = tuple(
            dim if dim is not None else recipe.batch if index == 0 else next(guesses)
            for index, dim in enumerate(tensor.shape)
        )
    return math.prod(largest) * np.dtype(tensor.dtype).itemsize


def _mib(nbytes: int) -> int:
    return math.ceil(nbytes / MIB)
