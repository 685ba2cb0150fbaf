"""What one field alone cannot say: references between sections, ranges that depend on units, order of bounds.

The checks read the plain data of a file, not the models, so that they still run, and list everything, when
some other field is wrong. They skip what is not of the expected type: the models report that.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from edge_runtime.config.camera import TrackingConfig
from edge_runtime.config.output import EvidenceConfig
from edge_runtime.config.rules import RuleConfig
from edge_runtime.config.shape import shape_of
from edge_runtime.config.source import SourceConfig, SyntheticSource
from edge_runtime.document import Location
from edge_runtime.protocol import DataClass
from edge_runtime.telemetry import split_user_information

Finding = tuple[Location, str]
"""A location and a sentence."""

_MAX_PIXEL = 16_384
_BOUNDS = (("min_height", "max_height"), ("min_area", "max_area"), ("backoff_first", "backoff_max"))
_RULES, _SOURCES = shape_of(RuleConfig).variants, shape_of(SourceConfig).variants


def cross_checks(data: Any) -> Iterator[Finding]:
    """Every contradiction in the data of one configuration."""
    models, cameras = _section(data, "models"), _section(data, "cameras")
    for name, model in models.items():
        yield from _model(("models", name), _as_section(model))
    for name, raw in cameras.items():
        camera, at = _as_section(raw), ("cameras", name)
        wanted = camera.get("model")
        if isinstance(wanted, str) and models and wanted not in models:
            known = ", ".join(sorted(models))
            yield (*at, "model"), f"there is no model named {wanted}; models are {known}"
        yield from _source((*at, "source"), _section(camera, "source"))
        yield from _tracking((*at, "tracking"), _section(camera, "tracking"))
        size = _frame_size(_section(camera, "source"))
        for index, mask in enumerate(_list(camera, "masks")):
            yield from _shape((*at, "masks", index), _as_section(mask), "polygon", size)
        yield from _rules(at, camera, size, has_evidence=data.get("evidence") is not None)
    yield from _evidence(_section(data, "evidence"))
    yield from _delivery(_section(data, "delivery"), models)
    yield from _variants(_section(_section(data, "guard"), "governor"), models, cameras)
    if data.get("updates") is not None and data.get("delivery") is None:
        yield ("updates",), "needs a delivery section: what the fleet assigns comes over its link"
    faulty = _section(data, "faults").get("enabled") is True
    if faulty and _section(data, "device").get("purpose") != "bench":
        yield (
            ("faults", "enabled"),
            "is refused on a device in the field: faults are injected where device.purpose is bench",
        )


def _model(at: Location, model: Mapping[str, Any]) -> Iterator[Finding]:
    providers = [item for item in _list(model, "providers") if isinstance(item, str)]
    if model.get("require_gpu") is True and not {"cuda", "tensorrt"} & set(providers):
        yield (*at, "require_gpu"), "needs cuda or tensorrt among providers"
    yield from _twice((*at, "providers"), providers)


def _source(at: Location, source: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _ordered(at, source, _variant(_SOURCES, source))
    url = source.get("url")
    if isinstance(url, str) and split_user_information(url).user is not None:
        for key in ("username", "password"):
            if source.get(key) is not None:
                yield (*at, key), "is given twice: the url holds credentials already"
    elif source.get("password") is not None and source.get("username") is None:
        yield (*at, "password"), "needs a username beside it"


def _tracking(at: Location, tracking: Mapping[str, Any]) -> Iterator[Finding]:
    low, high = _value(tracking, TrackingConfig, "low"), _number(tracking.get("high"))
    if low is not None and high is not None and low > high:
        yield (
            (*at, "low" if "low" in tracking else "high"),
            f"low is {low:g}, more than high, which is {high:g}",
        )


def _rules(
    at: Location, camera: Mapping[str, Any], size: tuple[float, float] | None, *, has_evidence: bool
) -> Iterator[Finding]:
    names: dict[str, int] = {}
    for index, raw in enumerate(_list(camera, "rules")):
        rule, here = _as_section(raw), (*at, "rules", index)
        name = rule.get("name")
        if isinstance(name, str):
            if name in names:
                yield (
                    (*here, "name"),
                    f"{name} is the name of rules[{names[name]}] already; rule names must differ",
                )
            names.setdefault(name, index)
        yield from _shape(here, rule, "polygon", size)
        yield from _shape(here, rule, "line", size)
        model = _variant(_RULES, rule)
        yield from _ordered(here, rule, model)
        for key in ("labels", "on"):
            yield from _twice((*here, key), [item for item in _list(rule, key) if isinstance(item, str)])
        yield from _twice(
            (*here, "schedule", "days"),
            [item for item in _list(_section(rule, "schedule"), "days") if isinstance(item, str)],
        )
        if rule.get("kind") == "zone" and rule.get("polygon") is None and "leave" in _list(rule, "on"):
            yield (*here, "on"), "leave needs a polygon: nothing is seen outside the frame"
        if rule.get("evidence") is True and not has_evidence:
            yield (*here, "evidence"), "needs an evidence section with a directory at the top of the file"
        at_least, clear_at = _value(rule, model, "at_least"), _number(rule.get("clear_at"))
        if at_least is not None and clear_at is not None and clear_at >= at_least:
            yield (
                (*here, "clear_at"),
                f"must be less than at_least, which is {at_least:g}, or it never clears",
            )
        deadline, ttl = _value(rule, model, "deadline"), _value(rule, model, "ttl")
        if deadline is not None and ttl is not None and ttl < deadline:
            key = "ttl" if "ttl" in rule else "deadline"
            yield (
                (*here, key),
                f"ttl ({ttl:g}) is less than deadline ({deadline:g}): events would expire before it",
            )
        yield from _class(here, rule.get("data_class"), camera.get("data_class"))


def _class(at: Location, rule: Any, camera: Any) -> Iterator[Finding]:
    try:
        zone, whole = DataClass(rule), DataClass(camera)
    except ValueError:
        return
    if zone.rank < whole.rank:
        yield (*at, "data_class"), f"{zone.value} is less careful than the camera's {whole.value}"


def _evidence(evidence: Mapping[str, Any]) -> Iterator[Finding]:
    quota, largest = _number(evidence.get("quota_bytes")), _value(evidence, EvidenceConfig, "max_bytes")
    if quota is not None and largest is not None and largest > quota:
        yield ("evidence", "quota_bytes"), f"must hold at least one crop of max_bytes ({largest:.0f})"


def _delivery(delivery: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[Finding]:
    redaction, at = _section(delivery, "redaction"), ("delivery", "redaction")
    wanted = redaction.get("model")
    if isinstance(wanted, str) and models and wanted not in models:
        known = ", ".join(sorted(models))
        yield (*at, "model"), f"there is no model named {wanted}; models are {known}"
    yield from _twice((*at, "labels"), [item for item in _list(redaction, "labels") if isinstance(item, str)])


def _variants(
    governor: Mapping[str, Any], models: Mapping[str, Any], cameras: Mapping[str, Any]
) -> Iterator[Finding]:
    used = [camera.get("model") for camera in cameras.values() if isinstance(camera, Mapping)]
    for name, raw in _section(governor, "variants").items():
        at = ("guard", "governor", "variants", name)
        smaller = [item for item in raw if isinstance(item, str)] if isinstance(raw, (list, tuple)) else []
        if name not in used:
            yield at, f"no camera uses a model named {name}"
        for index, item in enumerate(smaller):
            if item == name:
                yield (*at, index), "a model cannot take its own place"
            elif models and item not in models:
                known = ", ".join(sorted(models))
                yield (*at, index), f"there is no model named {item}; models are {known}"
        yield from _twice(at, smaller)


def _shape(
    at: Location, section: Mapping[str, Any], key: str, size: tuple[float, float] | None
) -> Iterator[Finding]:
    """Points must lie in the frame, in the units that the section states."""
    units = section.get("units", "relative")
    points = [
        (x, y)
        for point in _list(section, key)
        if isinstance(point, (list, tuple)) and len(point) == 2
        for x, y in [(_number(point[0]), _number(point[1]))]
        if x is not None and y is not None
    ]
    if units not in ("relative", "pixels") or not points:
        return
    lowest = min(min(point) for point in points)
    if lowest < 0:
        yield (*at, key), f"{lowest:g} is outside the frame: points start at 0"
    if units == "relative":
        highest = max(max(point) for point in points)
        if highest > 1:
            yield (
                (*at, key),
                f"{highest:g} is more than 1, where relative units end; for pixels write units: pixels",
            )
        return
    limits = size or (_MAX_PIXEL, _MAX_PIXEL)
    for axis, side, limit in zip((0, 1), ("wide", "high"), limits, strict=True):
        highest = max(point[axis] for point in points)
        if highest > limit:
            yield (*at, key), f"{highest:g} is outside the frame, which is {limit:g} pixels {side}"


def _frame_size(source: Mapping[str, Any]) -> tuple[float, float] | None:
    """Width and height where the configuration itself decides them."""
    kind = source.get("kind")
    if kind not in ("playlist", "synthetic"):
        return None
    model = SyntheticSource if kind == "synthetic" else None
    width, height = _value(source, model, "width"), _value(source, model, "height")
    return None if width is None or height is None else (width, height)


def _ordered(at: Location, section: Mapping[str, Any], model: type[BaseModel] | None) -> Iterator[Finding]:
    """Pairs of bounds, each as stated or as its model has it, must not exclude everything between them."""
    for least, most in _BOUNDS:
        low, high = _value(section, model, least), _value(section, model, most)
        if low is None or high is None or low <= high:
            continue
        if least in section:
            yield (*at, least), f"is {low:g}, more than {most}, which is {high:g}"
        else:
            yield (*at, most), f"is {high:g}, less than {least}, which is {low:g}"


def _variant(models: Mapping[str, type[BaseModel]], section: Mapping[str, Any]) -> type[BaseModel] | None:
    kind = section.get("kind")
    return models.get(kind) if isinstance(kind, str) else None


def _value(section: Mapping[str, Any], model: type[BaseModel] | None, key: str) -> float | None:
    """The number that stands at `key`, or what the model takes where the section is silent."""
    if key in section:
        return _number(section[key])
    field = None if model is None else model.model_fields.get(key)
    return None if field is None else _number(field.default)


def _twice(at: Location, values: Sequence[str]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            yield (*at, index), f"{value} is listed twice"
        seen.add(value)


def _section(data: Any, key: str) -> Mapping[str, Any]:
    return _as_section(data.get(key)) if isinstance(data, Mapping) else {}


def _as_section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(data: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = data.get(key)
    return value if isinstance(value, (list, tuple)) else ()


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
