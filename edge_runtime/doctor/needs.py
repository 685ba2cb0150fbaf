"""What the machine must have: what the configuration asks for, or as much as any model needs."""

from dataclasses import dataclass

from edge_runtime.doctor.facts import Facts, ModelFacts
from edge_runtime.doctor.findings import Severity

DECODED = frozenset({"file", "images", "playlist", "rtsp", "http", "v4l2"})
"""Kinds of source that PyAV decodes."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What is asked for.

    Attributes:
        configured: whether there is a configuration; without one, nothing is asked for in particular.
        first: providers that some model wants before all others.
        any: providers that some model names.
        decoding: whether some camera needs PyAV.
        gstreamer: whether some camera is a pipeline.
        elements: that the pipelines name.
        state: whether the state directory is written.
        proved: providers that ran a model which asks for them first: nothing that they need can be missing.
    """

    configured: bool
    first: frozenset[str]
    any: frozenset[str]
    decoding: bool
    gstreamer: bool
    elements: frozenset[str]
    state: bool
    proved: frozenset[str]

    @classmethod
    def of(cls, facts: Facts) -> "Needs":
        """Those of the configuration in the facts."""
        asked = facts.configuration
        if asked is None:
            return cls(
                configured=False,
                first=frozenset(),
                any=frozenset(),
                decoding=False,
                gstreamer=False,
                elements=frozenset(),
                state=False,
                proved=frozenset(),
            )
        lists = asked.providers.values()
        return cls(
            configured=True,
            first=frozenset(names[0] for names in lists if names),
            any=frozenset(name for names in lists for name in names),
            decoding=bool(DECODED & set(asked.sources)),
            gstreamer="gstreamer" in asked.sources,
            elements=frozenset(asked.elements),
            state=asked.is_device,
            proved=frozenset(model.effective for model in facts.models.values() if _as_asked(model)),
        )

    def missing(self, provider: str, facts: Facts) -> Severity:
        """How bad it is that a part of this provider is missing."""
        if provider in self.proved:
            return "note"
        if provider in self.first:
            return "error"
        if provider in self.any:
            return "warning"
        if not self.configured and provider == "tensorrt" and facts.jetson is not None:
            return "warning"
        return "note"


def _as_asked(model: ModelFacts) -> bool:
    return not model.error and model.requested[:1] == (model.effective,)
