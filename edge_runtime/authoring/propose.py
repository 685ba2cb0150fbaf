"""From an ONNX file to a proposed package: reads it, runs it, and says what is sure and what is a guess."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from edge_runtime.authoring.batching import provable_batch
from edge_runtime.authoring.conventions import Convention, usual
from edge_runtime.authoring.feeding import choose_feeding, describe
from edge_runtime.authoring.findings import Confidence, Finding, defect, guess, sure
from edge_runtime.authoring.golden_vectors import RecordedVector, record_golden
from edge_runtime.authoring.graph import GraphFacts, read_graph
from edge_runtime.authoring.head_defaults import THRESHOLDS
from edge_runtime.authoring.input_shape import Shaped, shape_input
from edge_runtime.authoring.label_sets import COCO
from edge_runtime.authoring.labels import choose_labels, metadata_labels
from edge_runtime.authoring.provenance import (
    Quantisation,
    find_licence,
    find_quantisation,
    find_release_date,
    slug,
)
from edge_runtime.authoring.signatures import Match, Observed, recognise_head
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import (
    AccuracyFloor,
    HeadSpec,
    Licence,
    ModelManifest,
    RuntimeNeeds,
    Weights,
)
from edge_runtime.packages.recipe import Recipe, ShapeRepair
from edge_runtime.protocol import DataClass
from edge_runtime.qualification.recognition import Sighting, blind, label_shift, mistaken
from edge_runtime.qualification.sizes import Size, loaded

_LEAST_OPSET: Final = 7
_COCO_FLOOR: Final = 0.10
"""mAP. The weakest published COCO detector here reaches .20; one ruined by its quantisation .04."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person who imports says; None leaves it to the file.

    Attributes:
        family: head family.
        labels: class names in order.
        licence: SPDX id of the weights.
        evidence: how the licence is known.
        name: of the package.
        source: where the file came from, for the manifest.
        released: when the weights were made, YYYY-MM-DD.
        recipe: how the file was obtained; it is kept in the package, with the repairs that were needed.
        size: height and width of the input, for a graph that runs at several.
        repair: rewrite wrong declared shapes.
    """

    family: str | None = None
    labels: Sequence[str] | None = None
    licence: str | None = None
    evidence: str | None = None
    name: str | None = None
    source: str | None = None
    released: str | None = None
    recipe: Recipe | None = None
    size: Size | None = None
    repair: bool = True


@dataclass(frozen=True, slots=True)
class Proposal:
    """A package that is ready to be written.

    Attributes:
        manifest: complete, golden vectors included.
        weights: bytes of the weights file.
        vectors: the golden vectors' files.
        findings: everything that was decided, in the order of the manifest.
        shaped: what was repaired.
        recipe: how to obtain the weights again, or None.
    """

    manifest: ModelManifest
    weights: bytes
    vectors: tuple[RecordedVector, ...]
    findings: tuple[Finding, ...]
    shaped: Shaped
    recipe: Recipe | None = None

    @property
    def guesses(self) -> tuple[Finding, ...]:
        """What a person should look at before the package runs."""
        return tuple(found for found in self.findings if found.confidence is not Confidence.SURE)


def propose(path: Path, wishes: Wishes | None = None) -> Proposal:
    """Read and run an ONNX file and propose a package for it.

    Args:
        path: the file.
        wishes: what the person who imports it says.

    Raises:
        PackageError: the file is not a model, or not one that this runtime can be sure enough about.
        DecodeError: its outputs contradict the head that they looked like.
        BackendError: the graph does not run.
        MissingDependency: `onnx` or `onnxruntime` is not installed.
    """
    wishes = wishes or Wishes()
    graph = read_graph(path)
    if graph.opset < _LEAST_OPSET:
        raise PackageError(
            f"{path} uses operator set {graph.opset}; the oldest that still runs is {_LEAST_OPSET}"
        )
    _refuse_other_tasks(graph)
    shaped = shape_input(graph, path, size=wishes.size, repair=wishes.repair)
    known = wishes.labels or metadata_labels(graph)
    counted = next(iter(graph.classes)) if len(graph.classes) == 1 else None
    observed = Observed(
        shaped.outputs, shaped.ran_at, len(known) if known else counted, shaped.image.size_input is not None
    )
    match = recognise_head(observed, wishes.family)
    classes = match.classes if match.classes is not None else counted
    head, classes, note = _name_classes(match, classes)
    labels, labels_found = choose_labels(
        graph, wishes.labels, classes, family=match.head.family, stem=path.stem
    )
    drafter = _Drafter(path, wishes, graph, shaped, head=head, labels=labels)
    findings = [
        *drafter.findings,
        *shaped.findings,
        (sure if match.certain or wishes.family else guess)("head.family", match.head.family, match.why),
        *note,
        labels_found,
    ]
    findings += [defect("input.size", f"{shaped.size[1]}x{shaped.size[0]}", text) for text in shaped.defects]
    findings += [defect("weights", name, "these weights hold NaN") for name in graph.nonfinite[:1]]
    proposal = _try_out(drafter, match, findings)
    return replace(proposal, recipe=_completed(wishes.recipe, shaped))


def _completed(recipe: Recipe | None, shaped: Shaped) -> Recipe | None:
    """The recipe with the repairs that this import found to be needed."""
    if recipe is None:
        return None
    repairs = (shaped.shape_repairs or {}).items()
    listed = tuple(ShapeRepair(tensor=name, dims=tuple(dims)) for name, dims in repairs)
    return recipe.model_copy(update={"shape_repairs": listed})


def _refuse_other_tasks(graph: GraphFacts) -> None:
    task = graph.metadata.get("task", "detect")
    if task != "detect":
        raise PackageError(
            f"the model's metadata say that its task is {task}: only detectors can be imported"
        )


def _name_classes(match: Match, classes: int | None) -> tuple[HeadSpec, int | None, list[Finding]]:
    """COCO's category ids: 91 logits, of which 0 belongs to no class, or 90 classes counted from 1."""
    if match.head.family == "detr" and classes == 91:
        why = "91 classes are COCO's category ids 1 to 90; id 0 is none"
        return match.head.model_copy(update={"first_class_id": 1}), 90, [guess("head.first_class_id", 1, why)]
    if match.head.first_class_id and match.head.family == "ssd":
        why = "class ids of detectors with their NMS inside usually start after the background"
        return match.head, classes, [guess("head.first_class_id", match.head.first_class_id, why)]
    return match.head, classes, []


class _Drafter:
    """Everything about the manifest but how pictures are prepared."""

    def __init__(
        self,
        path: Path,
        wishes: Wishes,
        graph: GraphFacts,
        shaped: Shaped,
        *,
        head: HeadSpec,
        labels: tuple[str, ...],
    ) -> None:
        self.graph, self.shaped, self.head, self.labels = graph, shaped, head, labels
        self._name = slug(wishes.name or path.stem)
        licence, licence_found = find_licence(graph, wishes.licence, wishes.evidence)
        quantisation, quantisation_found = find_quantisation(graph)
        released, released_found = find_release_date(graph, path, wishes.released)
        self._licence: Licence = licence
        self._quantisation: Quantisation = quantisation
        self._released = released
        self._weights = self._describe_weights(path, wishes.source, wishes.recipe)
        self.batch = 1
        thresholds = THRESHOLDS[head.family]
        self.findings: list[Finding] = [licence_found, released_found, quantisation_found]
        text = f"score {thresholds.score}, NMS IoU {thresholds.nms_iou}"
        self.findings.append(guess("thresholds", text, f"usual for {head.family}; set them for your cameras"))
        if self._floor is not None:
            why = "these are COCO's classes: `edge-runtime eval` fails below this; ruined weights reach less"
            self.findings.append(guess("accuracy_floor", f"mAP {_COCO_FLOOR}", why))

    @property
    def _floor(self) -> AccuracyFloor | None:
        return AccuracyFloor(metric="map", minimum=_COCO_FLOOR) if self.labels == COCO else None

    def _describe_weights(self, path: Path, source: str | None, recipe: Recipe | None) -> Weights:
        data = self.shaped.weights
        digest = hashlib.sha256(data).hexdigest()
        original = hashlib.sha256(path.read_bytes()).hexdigest()
        embedded = [f"weights of {name} taken into the file" for name in self.graph.embedded]
        return Weights(
            file=f"{self._name}.onnx",
            sha256=digest,
            bytes=len(data),
            source=source or (recipe.source.describe() if recipe else f"file {path.name}"),
            original_sha256=None if original == digest else original,
            repairs=(*embedded, *self.shaped.repairs),
        )

    def __call__(self, convention: Convention) -> ModelManifest:
        """The manifest with pictures prepared by `convention`; without golden vectors."""
        shaped = self.shaped
        return ModelManifest(
            name=self._name,
            version=f"sha256:{self._weights.sha256}",
            released=self._released,
            task="detect",
            weights=self._weights,
            licence=self._licence,
            input=convention.spec(
                shaped.image, shaped.size, dynamic=shaped.dynamic, stride=shaped.stride, batch=self.batch
            ),
            head=self.head,
            labels=self.labels,
            thresholds=THRESHOLDS[self.head.family],
            quantisation=self._quantisation,
            runtime=RuntimeNeeds(opset=self.graph.opset),
            data_classes=tuple(DataClass),
            tokenizer="n/a",
            chat_template="n/a",
            tool_parser="n/a",
            evaluation=(),
            accuracy_floor=self._floor,
            golden=(),
        )


def _try_out(drafter: _Drafter, match: Match, findings: list[Finding]) -> Proposal:
    """Choose the preprocessing, prove the batch, and record golden vectors, by running the weights."""
    shaped = drafter.shaped
    if shaped.defects:  # it does not run as it declares: nothing can be measured
        convention = usual(match.kind, shaped.image.dtype)
        findings.append(guess("input.preprocessing", describe(convention), convention.source))
        return Proposal(drafter(convention), shaped.weights, (), tuple(findings), shaped)
    with loaded(shaped.weights) as backend:
        feeding = choose_feeding(drafter, backend, match.kind, shaped.image.dtype)
        manifest = drafter(feeding.convention)
        drafter.batch, batch_found = provable_batch(manifest.input, backend, open_batch=shaped.open_batch)
        manifest = drafter(feeding.convention)
        vectors = record_golden(manifest, backend)
    findings += [*feeding.findings, batch_found, *_what_it_saw(drafter.labels, feeding.sightings)]
    manifest = manifest.model_copy(update={"golden": tuple(recorded.vector for recorded in vectors)})
    return Proposal(manifest, shaped.weights, tuple(vectors), tuple(findings), shaped)


def _what_it_saw(labels: Sequence[str], sightings: Sequence[Sighting]) -> list[Finding]:
    """Defects of the eyesight, as `model check` will report them."""
    shift = label_shift(sightings)
    if shift:
        return [defect("labels", f"shifted by {shift}", f"the model {mistaken(sightings, labels)}")]
    if not blind(sightings):
        return []
    scores = ", ".join(f"{sighting.name} {sighting.score:.2f}" for sighting in sightings)
    return [
        defect("weights", "does not see", f"healthy models recognise drawn objects; this one scored {scores}")
    ]
