"""What a configuration may say but people regret: warnings, which stop nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edge_runtime.config.base import Point
from edge_runtime.config.checks import Finding
from edge_runtime.config.delivery import RegionsRedaction
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.secrets import without_references
from edge_runtime.telemetry import split_user_information


def advice(config: NodeConfig, data: Any) -> Iterator[Finding]:
    """Warnings about a valid configuration.

    Args:
        config: the validated configuration.
        data: the file's plain data, references not resolved.
    """
    used = {camera.model for camera in config.cameras.values()}
    if config.delivery is not None and isinstance(config.delivery.redaction, RegionsRedaction):
        used.add(config.delivery.redaction.model)
    if config.guard is not None:
        used.update(name for smaller in config.guard.governor.variants.values() for name in smaller)
    for name in sorted(set(config.models) - used):
        yield ("models", name), "no camera uses this model"
    yield from _about_delivery(data)
    yield from _about_guard(config)
    for name, camera in config.cameras.items():
        at = ("cameras", name)
        if camera.data_class is None:
            yield (
                at,
                "has no data_class: everything that it sees is unknown, which is handled as restricted and held",
            )
        if not camera.rules:
            yield at, "has no rules: it will never emit an event"
        if _inline_secret(data, name):
            yield (
                (*at, "source"),
                "a password stands in this file; put it into a file of mode 600 and write ${file:PATH}",
            )
        shapes = [
            ((*at, "masks", index), mask.polygon, mask.units) for index, mask in enumerate(camera.masks)
        ]
        for index, rule in enumerate(camera.rules):
            polygon = getattr(rule, "polygon", None)
            if polygon is not None:
                shapes.append(((*at, "rules", index), polygon, rule.units))
        for where, polygon, units in shapes:
            if units == "pixels" and max(max(point) for point in polygon) <= 1:
                yield (
                    (*where, "polygon"),
                    "lies within one pixel; for fractions of the frame write units: relative",
                )
            crossing = crossing_edges(polygon)
            if crossing is not None:
                edges = "the edges after points {} and {} (from 0)".format(*crossing)
                yield (*where, "polygon"), f"crosses itself: {edges}; what lies between them may be outside"


def _about_guard(config: NodeConfig) -> Iterator[Finding]:
    if config.guard is not None and config.guard.monitor.root != "/":
        text = "heat, memory and batteries are read from another tree than this machine's"
        yield ("guard", "monitor", "root"), text


def _about_delivery(data: Any) -> Iterator[Finding]:
    if isinstance(data, Mapping) and "delivery" in data and data["delivery"] is None:
        yield ("delivery",), "is empty, so nothing is delivered; write delivery: {} for its defaults"
    if _inline_proxy_password(data):
        yield (
            ("delivery", "uplink", "proxy"),
            "a password stands in this file; put the URL into a file of mode 600 and write ${file:PATH}",
        )


def _inline_proxy_password(data: Any) -> bool:
    found = data
    for key in ("delivery", "uplink", "proxy"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return isinstance(found, str) and bool(split_user_information(without_references(found)).password)


def _inline_secret(data: Any, camera: str) -> bool:
    source = data.get("cameras", {}).get(camera, {}).get("source", {}) if isinstance(data, Mapping) else {}
    password, url = source.get("password"), source.get("url")
    if isinstance(password, str) and "${" not in password:
        return True
    return isinstance(url, str) and bool(split_user_information(without_references(url)).password)


def crossing_edges(polygon: Sequence[Point]) -> tuple[int, int] | None:
    """Indexes of the first points of two edges that properly cross each other, or None."""
    count = len(polygon)
    edges = [(polygon[index], polygon[(index + 1) % count]) for index in range(count)]
    for first in range(count):
        for second in range(first + 2, count):
            neighbours = first == 0 and second == count - 1
            if not neighbours and _cross(*edges[first], *edges[second]):
                return first, second
    return None


def _cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    return _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0


def _side(a: Point, b: Point, p: Point) -> float:
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
