"""Recognises head families by the names, shapes and values of a graph's outputs."""

from edge_runtime.authoring.signatures.observed import Match, Observed
from edge_runtime.authoring.signatures.recognise import recognise_head

__all__ = ["Match", "Observed", "recognise_head"]
