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
from edge_runtime.perception.backends import PROVING_TIMEOUT_S, InferenceTimeout, Tensor
from edge_runtime.qualification.runnable import brief
from edge_runtime.qualification.sizes import (
    ImageInput,
    Size,
    SizeProbe,
    loaded,
    plausible_sizes,
)

_STRIDES: Final = (32, 64, 128, 4, 1)
"""Steps in which a size may vary, the coarsest feature map of most detectors first.

A step of one comes last: pooling rounds down silently, so a graph may run at 641 and mean 640.
"""


_LEAST_DECLARED: Final = 8
_MOST_DECLARED: Final = 8192
"""Pixels; what a manifest can say."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """A graph that runs, at a known size.

    Attributes:
        weights: the file's bytes, with the declared shapes repaired where that was proved.
        size: the default input size.
        dynamic: it was seen to run at other sizes too.
        stride: sizes must be multiples of it.
        open_batch: the batch axis is not fixed.
        outputs: by name, from a run with one picture.
        ran_at: the size of that run; `size` unless the declaration is wrong and was kept.
        shape_repairs: new dimensions by tensor name, as a recipe needs them to repeat the repair.
        defects: what is wrong with the declaration and was kept.
    """

    weights: bytes
    image: ImageInput
    size: Size
    outputs: dict[str, Tensor]
    ran_at: Size
    dynamic: bool = False
    stride: int = 1
    open_batch: bool = False
    shape_repairs: dict[str, tuple[Dim, ...]] | None = None
    repairs: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    defects: tuple[str, ...] = ()


def shape_input(graph: GraphFacts, path: Path, *, size: Size | None = None, repair: bool = True) -> Shaped:
    """Find a size that the graph runs at, and repair the declaration where it is proved wrong.

    Args:
        graph: as read.
        path: of the file; numbers in its name are hints.
        size: wanted by a person, for a graph that runs at several.
        repair: False keeps the file as it is and reports the defect instead.

    Raises:
        PackageError: the graph does not load, runs at no size that was tried, or not at the one wanted.
        InferenceTimeout: the graph does not answer.
    """
    shaped = _shape_input(graph, path, size, repair=repair)
    if not all(_LEAST_DECLARED <= side <= _MOST_DECLARED for side in shaped.size):
        what = shaped.defects[0] if shaped.defects else f"the file declares the input {_text(shaped.size)}"
        raise PackageError(
            f"{what}: a package's input has sides of {_LEAST_DECLARED} to {_MOST_DECLARED} pixels"
        )
    if size is not None and shaped.size != size:
        raise PackageError(f"the graph does not run at {_text(size)}: it runs at {_text(shaped.size)}")
    return shaped


def _shape_input(graph: GraphFacts, path: Path, wanted: Size | None, *, repair: bool) -> Shaped:
    image, declared = find_image_input(graph)
    height, width = declared_size(image, declared)
    hints = [*([wanted] if wanted else []), *size_hints(graph, path.stem)]
    shaper = _Shaper(graph, image, declared.dims[0], hints)
    if height is None or width is None:
        return shaper.choose((height, width))
    size = (height, width)
    batch = declared.dims[0] or 1
    try:
        outputs = _run(graph.weights, image, size, batch)
    except InferenceTimeout:
        raise  # no other size would answer sooner
    except BackendError as error:
        reason: str | None = str(error)
    else:
        reason = None
        if min(size) >= LEAST_SIDE and batch == 1:
            return shaper.as_declared(size, outputs)
    return shaper.repaired(size, reason) if repair else shaper.unrepaired(size, reason)


class _Shaper:
    """One graph, its picture input, its declared batch (None where open), and sizes that are hinted at."""

    def __init__(self, graph: GraphFacts, image: ImageInput, batch: int | None, hints: list[Size]) -> None:
        self._graph, self._image, self._batch, self._hints = graph, image, batch, hints
        stated = graph.metadata_value("stride")
        self._stated_stride: tuple[int, ...] = (
            (stated,) if isinstance(stated, int) and 1 <= stated <= 256 else ()
        )

    def as_declared(self, size: Size, outputs: dict[str, Tensor]) -> Shaped:
        """The declaration holds."""
        return Shaped(
            self._graph.weights,
            self._image,
            size,
            outputs,
            size,
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
                raise PackageError(f"the graph runs at none of the usual input sizes: {brief(str(reason))}")
            stride = self._free_stride(probe, size) if fixed == (None, None) else None
            outputs = probe.outputs(size)
        named = bool(self._hints) and size == self._hints[0]
        why = "asked for, or named by the metadata or the file's name" if named else "the first likely size"
        ran = "ran at other sizes too" if stride else "did not run at the other sizes that were tried"
        return Shaped(
            self._graph.weights,
            self._image,
            size,
            outputs,
            size,
            dynamic=stride is not None,
            stride=stride or 1,
            open_batch=self._batch is None,
            findings=(
                sure("input.size", _text(size), f"{why}, and the graph ran at it"),
                _dynamic(stride, f"the file leaves the size open, and the graph {ran}"),
            ),
        )

    def repaired(self, size: Size, reason: str | None) -> Shaped:
        """The declaration is proved wrong: find one that holds, rewrite it, and run the rewritten file."""
        with self._probe() as probe:
            found, stride = self._search(probe, size, reason)
            open_batch = self._batch is None or (self._batch > 1 and probe.why_not(found, 2) is None)
            shapes = self._new_shapes(probe, found, stride, open_batch=open_batch)
        weights = rewrite_shapes(self._graph.weights, shapes)
        sentence = self._sentence(size, reason, found, elsewhere=stride is not None)
        findings = [repaired("input.size", _text(found), sentence)]
        if stride is not None:
            findings.append(_dynamic(stride, "the graph ran at several sizes"))
        return Shaped(
            weights,
            self._image,
            found,
            _run(weights, self._image, found),
            found,
            dynamic=stride is not None,
            stride=stride or 1,
            open_batch=open_batch,
            shape_repairs=shapes,
            repairs=(f"declared shapes rewritten: {sentence}",),
            findings=tuple(findings),
        )

    def unrepaired(self, size: Size, reason: str | None) -> Shaped:
        """Keep the wrong declaration and say so; the outputs come from a run at a size that works."""
        with self._probe() as probe:
            found, stride = self._search(probe, size, reason)
            outputs = probe.outputs(found)
        return Shaped(
            self._graph.weights,
            self._image,
            size,
            outputs,
            found,
            open_batch=self._batch is None,
            defects=(self._sentence(size, reason, found, elsewhere=stride is not None),),
        )

    def _probe(self) -> SizeProbe:
        try:
            return SizeProbe(self._graph.weights, self._image)
        except BackendError as error:
            raise PackageError(f"the graph cannot be used: {brief(str(error))}") from error

    def _search(self, probe: SizeProbe, size: Size, reason: str | None) -> tuple[Size, int | None]:
        """A size that runs with one picture, and the step in which it may vary, if it may."""
        fixed_batch = (self._batch or 1) > 1
        if fixed_batch and min(size) >= LEAST_SIDE and probe.why_not(size) is None:
            return size, None  # only the fixed batch is odd
        found = probe.first(candidate for candidate in plausible_sizes(self._hints) if candidate != size)
        stride = None if found is None else self._free_stride(probe, found)
        if found is None:
            why = reason or probe.why_not(size)
            raise PackageError(
                f"the file declares the input {self._declared(size)}, which is not usable, and the graph runs "
                f"at no other size that was tried: {brief(str(why))}"
            )
        return found, stride

    def _free_stride(self, probe: SizeProbe, size: Size) -> int | None:
        """The step in which the size may vary, or None where the graph is bound to `size`."""
        height, width = size
        strides: tuple[int, ...] = (*self._stated_stride, *_STRIDES)
        for stride in dict.fromkeys(strides):
            fits = height % stride == 0 and width % stride == 0
            others = ((height + stride, width + 2 * stride), (height, max(width - stride, stride)))
            if fits and all(probe.why_not(other) is None for other in others):
                return stride
        return None

    def _new_shapes(
        self, probe: SizeProbe, size: Size, stride: int | None, *, open_batch: bool
    ) -> dict[str, tuple[Dim, ...]]:
        """Declarations that hold: numbers where they were the same at every size, names elsewhere."""
        batch: Dim = "batch" if open_batch else 1
        height, width = size if stride is None else ("height", "width")
        shapes: dict[str, tuple[Dim, ...]] = {self._image.name: self._image.dims(batch, height, width)}
        here = probe.outputs(size)
        there = here if stride is None else probe.outputs((size[0] + stride, size[1] + 2 * stride))
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
        if size == found:
            return f"the file declares the input {self._declared(size)}, but the graph takes single pictures"
        failed = "fails at it" if reason else "was only traced with it"
        runs = f"runs at {_text(found)}" + (
            " and at other sizes" if elsewhere else " only, of the usual sizes"
        )
        return f"the file declares the input {self._declared(size)}, but the graph {failed} and {runs}"

    def _declared(self, size: Size) -> str:
        return "x".join(str(dim) for dim in self._image.dims(self._batch or 1, *size))


def _dynamic(stride: int | None, why: str) -> Finding:
    what = "no" if stride is None else "yes, any size" if stride == 1 else f"yes, multiples of {stride}"
    return sure("input.dynamic", what, why)


def _run(weights: bytes, image: ImageInput, size: Size, batch: int = 1) -> dict[str, Tensor]:
    with loaded(weights) as backend:
        results = backend.infer(image.feeds(backend, size, batch), PROVING_TIMEOUT_S)
        return {spec.name: result for spec, result in zip(backend.outputs, results, strict=True)}


def _text(size: Size) -> str:
    """Width first, as pictures are named."""
    return f"{size[1]}x{size[0]}"
