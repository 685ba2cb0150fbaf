"""At which sizes a graph runs; wrong declarations are proved by running it, and repaired.

Nothing is repaired on suspicion. A declared size is replaced only when the graph was seen to fail at it and to
run at another, or when a declaration that no camera fits (a side under 64 pixels, a fixed batch) was seen to
run at other sizes as well (decision 0012).
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_runtime.authoring.findings import Finding, repaired, sure
from edge_runtime.authoring.graph import GraphFacts
from edge_runtime.authoring.image_input import LEAST_SIDE, declared_size, find_image_input, size_hints
from edge_runtime.errors import BackendError, PackageError
from edge_runtime.packages.onnx_shapes import Dim, rewrite_shapes
from edge_runtime.perception.backends import Tensor
from edge_runtime.qualification.sizes import (
    ImageInput,
    Size,
    SizeProbe,
    loaded,
    plausible_sizes,
    why_not_as_declared,
)

_STEP: Final = 32
"""Sizes are multiples of this where the metadata name no stride; the coarsest map of most detectors."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """A graph that runs, at a known size.

    Attributes:
        weights: the file's bytes, with the declared shapes repaired where that was proved.
        size: the default input size.
        dynamic: it was seen to run at other sizes too.
        stride: sizes must be multiples of it.
        open_batch: the batch axis is not fixed.
        outputs: by name, from a run with one picture at a size that works.
        shape_repairs: new dimensions by tensor name, as a recipe needs them to repeat the repair.
        defects: what is wrong with the declaration and was kept.
    """

    weights: bytes
    image: ImageInput
    size: Size
    outputs: dict[str, Tensor]
    dynamic: bool = False
    stride: int = 1
    open_batch: bool = False
    shape_repairs: dict[str, tuple[Dim, ...]] | None = None
    repairs: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    defects: tuple[str, ...] = ()


def shape_input(graph: GraphFacts, path: Path, *, repair: bool = True) -> Shaped:
    """Find a size that the graph runs at, and repair the declaration where it is proved wrong.

    Args:
        graph: as read.
        path: of the file; numbers in its name are hints.
        repair: False keeps the file as it is and reports the defect instead.

    Raises:
        PackageError: the graph does not load, or runs at no size that was tried.
    """
    image, declared = find_image_input(graph)
    height, width = declared_size(image, declared)
    shaper = _Shaper(graph, image, declared.dims[0], size_hints(graph, path.stem))
    if height is None or width is None:
        return shaper.choose((height, width))
    size = (height, width)
    reason = why_not_as_declared(graph.weights, image, size, declared.dims[0] or 1)
    odd = min(size) < LEAST_SIDE or (declared.dims[0] or 1) > 1
    if reason is None and not odd:
        return shaper.as_declared(size)
    return shaper.repaired(size, reason) if repair else shaper.unrepaired(size, reason)


class _Shaper:
    """One graph, its picture input, its declared batch (None where open), and sizes that are hinted at."""

    def __init__(self, graph: GraphFacts, image: ImageInput, batch: int | None, hints: list[Size]) -> None:
        self._graph, self._image, self._batch, self._hints = graph, image, batch, hints
        stride = graph.metadata_value("stride")
        self._stride = stride if isinstance(stride, int) and 1 <= stride <= 256 else _STEP

    def as_declared(self, size: Size) -> Shaped:
        """The declaration holds."""
        return Shaped(
            self._graph.weights,
            self._image,
            size,
            _run(self._graph.weights, self._image, size),
            open_batch=self._batch is None,
            findings=(sure("input.size", _text(size), "declared by the file, and the graph ran at it"),),
        )

    def choose(self, fixed: tuple[int | None, int | None]) -> Shaped:
        """The file leaves the size open: take the first likely one that runs, and see whether others do."""
        candidates = [
            (fixed[0] or height, fixed[1] or width) for height, width in plausible_sizes(self._hints)
        ]
        with self._probe() as probe:
            size = probe.first(dict.fromkeys(candidates))
            if size is None:
                reason = probe.why_not(candidates[0])
                raise PackageError(f"the graph runs at none of the usual input sizes: {reason}")
            dynamic = fixed == (None, None) and self._elsewhere(probe, size) is not None
            outputs = probe.outputs(size)
        named = bool(self._hints) and size == self._hints[0]
        why = "named by the metadata or the file's name" if named else "the first likely size"
        ran = "ran at other sizes too" if dynamic else "did not run at the other sizes that were tried"
        return Shaped(
            self._graph.weights,
            self._image,
            size,
            outputs,
            dynamic=dynamic,
            stride=self._stride if dynamic else 1,
            open_batch=self._batch is None,
            findings=(
                sure("input.size", _text(size), f"{why}, and the graph ran at it"),
                self._dynamic_finding(dynamic, f"the file leaves the size open, and the graph {ran}"),
            ),
        )

    def repaired(self, size: Size, reason: str | None) -> Shaped:
        """The declaration is proved wrong: find one that holds, rewrite it, and run the rewritten file."""
        with self._probe() as probe:
            found, other = self._search(probe, size, reason)
            open_batch = self._batch is None or (self._batch > 1 and probe.why_not(found, 2) is None)
            shapes = self._new_shapes(probe, found, other, open_batch=open_batch)
        weights = rewrite_shapes(self._graph.weights, shapes)
        sentence = self._sentence(size, reason, found, elsewhere=other is not None)
        findings = [repaired("input.size", _text(found), sentence)]
        if other is not None:
            findings.append(self._dynamic_finding(other is not None, "the graph ran at several sizes"))
        return Shaped(
            weights,
            self._image,
            found,
            _run(weights, self._image, found),
            dynamic=other is not None,
            stride=1 if other is None else self._stride,
            open_batch=open_batch,
            shape_repairs=shapes,
            repairs=(f"declared shapes rewritten: {sentence}",),
            findings=tuple(findings),
        )

    def unrepaired(self, size: Size, reason: str | None) -> Shaped:
        """Keep the wrong declaration and say so; the outputs come from a run at a size that works."""
        with self._probe() as probe:
            found, other = self._search(probe, size, reason)
            outputs = probe.outputs(found)
        return Shaped(
            self._graph.weights,
            self._image,
            size,
            outputs,
            open_batch=self._batch is None,
            defects=(self._sentence(size, reason, found, elsewhere=other is not None),),
        )

    def _probe(self) -> SizeProbe:
        try:
            return SizeProbe(self._graph.weights, self._image)
        except BackendError as error:
            raise PackageError(f"the graph cannot be used: {error}") from error

    def _search(self, probe: SizeProbe, size: Size, reason: str | None) -> tuple[Size, Size | None]:
        """A size that runs with one picture, and another where the graph is not bound to the first."""
        if reason is None and min(size) >= LEAST_SIDE:  # only the fixed batch is odd
            found, other = (size if probe.why_not(size) is None else None), None
        else:
            found = probe.first(candidate for candidate in plausible_sizes(self._hints) if candidate != size)
            other = None if found is None else self._elsewhere(probe, found)
        if found is None:
            why = reason or probe.why_not(size)
            raise PackageError(
                f"the file declares the input {self._declared(size)}, which is not usable, and the graph runs "
                f"at no other size that was tried: {why}"
            )
        return found, other

    def _elsewhere(self, probe: SizeProbe, size: Size) -> Size | None:
        """A size of another height and width, if the graph runs at it and at one more."""
        height, width = size
        other = (height + 2 * self._stride, max(width - 2 * self._stride, 2 * self._stride))
        runs = probe.why_not(other) is None and probe.why_not((height, other[1])) is None
        return other if runs else None

    def _new_shapes(
        self, probe: SizeProbe, size: Size, other: Size | None, *, open_batch: bool
    ) -> dict[str, tuple[Dim, ...]]:
        """Declarations that hold: numbers where they were the same at every size, names elsewhere."""
        batch: Dim = "batch" if open_batch else 1
        height, width = size if other is None else ("height", "width")
        shapes: dict[str, tuple[Dim, ...]] = {self._image.name: self._image.dims(batch, height, width)}
        here = probe.outputs(size)
        there = here if other is None else probe.outputs(other)
        for name, output in here.items():
            prefix = "d" + re.sub(r"[^A-Za-z0-9]", "_", name)[:20]
            dims: list[Dim] = [
                int(dim) if dim == there[name].shape[place] else f"{prefix}_{place}"
                for place, dim in enumerate(output.shape)
            ]
            if open_batch and dims and dims[0] == 1:
                dims[0] = "batch"
            shapes[name] = tuple(dims)
        return shapes

    def _sentence(self, size: Size, reason: str | None, found: Size, *, elsewhere: bool) -> str:
        failed = "fails at it" if reason else "was only traced with it"
        runs = f"runs at {_text(found)}" + (
            " and at other sizes" if elsewhere else " only, of the usual sizes"
        )
        return f"the file declares the input {self._declared(size)}, but the graph {failed} and {runs}"

    def _declared(self, size: Size) -> str:
        return "x".join(str(dim) for dim in self._image.dims(self._batch or 1, *size))

    def _dynamic_finding(self, dynamic: bool, why: str) -> Finding:  # noqa: FBT001
        return sure("input.dynamic", f"yes, multiples of {self._stride}" if dynamic else "no", why)


def _run(weights: bytes, image: ImageInput, size: Size) -> dict[str, Tensor]:
    with loaded(weights) as backend:
        results = backend.infer(image.feeds(backend, size))
        return {spec.name: result for spec, result in zip(backend.outputs, results, strict=True)}


def _text(size: Size) -> str:
    """Width first, as pictures are named."""
    return f"{size[1]}x{size[0]}"
