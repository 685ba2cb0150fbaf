"""What a configuration cannot say about itself: whether its models know the labels and may see the classes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from edge_runtime.config.checks import Finding
from edge_runtime.config.delivery import RegionsRedaction
from edge_runtime.config.node import NodeConfig
from edge_runtime.protocol import DataClass


def label_checks(config: NodeConfig, labels: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Rules that ask for a label which their camera's model does not know, and redactions likewise.

    Args:
        config: the validated configuration.
        labels: the label map of each model that could be opened, by the model's name in the configuration.
    """
    for name, camera in config.cameras.items():
        known = labels.get(camera.model)
        if known is None:
            continue
        for index, rule in enumerate(camera.rules):
            for position, label in enumerate(rule.labels):
                if label not in known:
                    at = ("cameras", name, "rules", index, "labels", position)
                    yield at, f"the model {camera.model} does not know {label}; {_nearest(label, known)}"
    redaction = None if config.delivery is None else config.delivery.redaction
    if isinstance(redaction, RegionsRedaction) and (known := labels.get(redaction.model)) is not None:
        for position, label in enumerate(redaction.labels):
            if label not in known:
                there = ("delivery", "redaction", "labels", position)
                yield there, f"the model {redaction.model} does not know {label}; {_nearest(label, known)}"


def class_checks(config: NodeConfig, allowed: Mapping[str, Collection[DataClass]]) -> Iterator[Finding]:
    """Cameras that see more sensitive things than their model's manifest allows.

    Args:
        config: the validated configuration; a camera without a class counts as restricted.
        allowed: the allowed data classes of each model that could be opened, by its name.
    """
    for name, camera in config.cameras.items():
        known = allowed.get(camera.model)
        stated = camera.data_class or DataClass.UNKNOWN
        effective = DataClass.RESTRICTED if stated is DataClass.UNKNOWN else stated
        if known is not None and effective not in known and stated not in known:
            names = ", ".join(item.value for item in sorted(known, key=lambda item: item.rank))
            handled = "" if effective is stated else " (handled as restricted)"
            yield (
                ("cameras", name, "data_class"),
                f"the model {camera.model} may see {names}, not {stated.value}{handled}",
            )


def variant_checks(
    config: NodeConfig, labels: Mapping[str, Sequence[str]], allowed: Mapping[str, Collection[DataClass]]
) -> Iterator[Finding]:
    """Smaller models that cannot take the place of the one that they are named for.

    Args:
        config: the validated configuration.
        labels: the label map of each model that could be opened, by the model's name in the configuration.
        allowed: the allowed data classes likewise.
    """
    governor = None if config.guard is None else config.guard.governor
    for name, smaller in ({} if governor is None else governor.variants).items():
        for index, variant in enumerate(smaller):
            if name not in labels or variant not in labels:
                continue
            at = ("guard", "governor", "variants", name, index)
            if tuple(labels[variant]) != tuple(labels[name]):
                yield at, f"the model {variant} does not know the same labels, in the same order, as {name}"
            if missing := set(allowed[name]) - set(allowed[variant]):
                names = ", ".join(item.value for item in sorted(missing, key=lambda item: item.rank))
                yield at, f"the model {variant} may not see {names}, and {name} may"


def _nearest(label: str, known: Collection[str]) -> str:
    near = get_close_matches(label, list(known), n=1) or [
        item for item in known if item.lower() == label.lower()
    ]
    if near:
        return f"did you mean {near[0]}?"
    listed = list(known)
    return f"it knows {', '.join(listed[:12])}" + (
        f" and {len(listed) - 12} more" if len(listed) > 12 else ""
    )
