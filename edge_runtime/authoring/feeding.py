"""Tries how a model wants its pictures on the reference scenes, and says what that proved.

The convention of the head's family is kept unless another one is understood far better; when the scenes cannot
tell (the labels name nothing that they show, or both colour orders do as well), it stays a guess and says so.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from edge_runtime.authoring.conventions import Convention, swapped, usual, variants
from edge_runtime.authoring.findings import Finding, guess, sure
from edge_runtime.errors import DecodeError
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.perception.backends import PROVING_TIMEOUT_S, Backend
from edge_runtime.perception.detector import Detector
from edge_runtime.qualification.recognition import (
    LEAST_SCORE,
    Sighting,
    blind,
    known_objects,
    look,
    support,
)

_CLEAR: Final = 1.1
"""The usual colour order counts as confirmed when it is understood this much better than the exchanged one."""

_OVERWHELMING: Final = 2.0
"""Another convention replaces the usual one only when it is understood this many times better."""


@dataclass(frozen=True, slots=True)
class Feeding:
    """How pictures are prepared, and what the model saw that way."""

    convention: Convention
    sightings: tuple[Sighting, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """A manifest that is not yet a package, as `Detector` takes it."""

    manifest: ModelManifest


def choose_feeding(
    draft: Callable[[Convention], ModelManifest], backend: Backend, kind: str, dtype: str
) -> Feeding:
    """Choose how to prepare pictures.

    Args:
        draft: makes a manifest that feeds by a convention.
        backend: loaded with the weights.
        kind: of the head, see `conventions`.
        dtype: of the input.

    Raises:
        DecodeError: the outputs do not have the head's layout when fed the usual way.
        BackendError: the graph does not run.
    """
    first = usual(kind, dtype)
    manifest = draft(first)
    sightings = _look(manifest, backend)
    if not known_objects(manifest.labels):
        why = f"{first.source}; the labels name nothing that the reference scenes show, so this is untested"
        return Feeding(first, (), (guess("input.preprocessing", describe(first), why),))
    tried = {first: tuple(sightings)}
    understood = not blind(sightings) and all(sighting.seen for sighting in sightings if sighting.reliable)
    # Where the usual way is understood well, only the colour order is left to ask.
    for other in [swapped(first)] if understood else variants(kind, dtype):
        with contextlib.suppress(DecodeError):  # fed like that, its outputs are not even probabilities
            tried[other] = tuple(_look(draft(other), backend))
    best = max(tried, key=lambda convention: support(tried[convention]))
    chosen = first
    if best != first and support(tried[best]) >= max(_OVERWHELMING * support(tried[first]), 1.0):
        chosen = best
    return Feeding(chosen, tried[chosen], (_finding(chosen, first, tried),))


def describe(convention: Convention) -> str:
    """`RGB, scale 0.00392157, letterbox center`."""
    normal = "" if convention.std == (1.0, 1.0, 1.0) else f", mean {convention.mean}, std {convention.std}"
    resize = f"letterbox {convention.anchor}" if convention.resize == "letterbox" else "stretch"
    return f"{convention.color.upper()}, scale {convention.scale:.6g}{normal}, {resize}"


def _look(manifest: ModelManifest, backend: Backend) -> list[Sighting]:
    detector = Detector(Draft(manifest), backend, score=LEAST_SCORE)
    return look(lambda image: detector.detect(image, PROVING_TIMEOUT_S), manifest.labels)


def _finding(chosen: Convention, first: Convention, tried: dict[Convention, tuple[Sighting, ...]]) -> Finding:
    right = support(tried[chosen])
    exchanged = support(tried.get(swapped(chosen), ()))
    scores = f"drawn objects scored {right:.2f} in sum, {exchanged:.2f} with red and blue exchanged"
    if chosen != first:
        why = f"{chosen.source}; {scores}; the usual way ({first.source}) reached {support(tried[first]):.2f}"
        return sure("input.preprocessing", describe(chosen), why)
    if right >= 0.5 and right >= _CLEAR * exchanged:
        return sure("input.preprocessing", describe(chosen), f"{chosen.source}; {scores}")
    why = f"{chosen.source}; {scores}, which does not decide the colour order"
    return guess("input.preprocessing", describe(chosen), why)
