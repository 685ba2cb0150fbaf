import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.config import (
    NodeConfig,
    class_checks,
    format_location,
    label_checks,
    load_config,
    variant_checks,
)
from edge_runtime.config.advice import crossing_edges
from edge_runtime.config.checks import cross_checks
from edge_runtime.protocol import DataClass

Write = Callable[[Any], Path]


@pytest.mark.parametrize(
    "data",
    [None, [], "x", 5, {}, {"models": 3, "cameras": [1]}, {"cameras": {"a": {"rules": [None, 3, {}]}}}],
)
def test_checks_skip_what_has_the_wrong_type(data: Any) -> None:
    if isinstance(data, dict):
        assert list(cross_checks(data)) == []


def test_pixels_are_held_against_a_size_that_the_configuration_states(valid: dict[str, Any]) -> None:
    camera = valid["cameras"]["dock"]
    camera["source"] = {"kind": "synthetic", "width": 320, "height": 240}
    camera["rules"] = [
        {"name": "a", "kind": "zone", "units": "pixels", "polygon": [[0, 0], [320, 0], [321, 241]]}
    ]
    assert [text for _, text in cross_checks(valid)] == [
        "321 is outside the frame, which is 320 pixels wide",
        "241 is outside the frame, which is 240 pixels high",
    ]
    camera["source"] = {"kind": "v4l2", "width": 320, "height": 240}
    assert list(cross_checks(valid)) == []
    camera["rules"][0]["polygon"][1] = [20_000, 0]
    assert [text for _, text in cross_checks(valid)] == [
        "20000 is outside the frame, which is 16384 pixels wide"
    ]


def test_credentials_are_given_once(valid: dict[str, Any]) -> None:
    valid["cameras"]["dock"]["source"] = {
        "kind": "rtsp",
        "url": "rtsp://a:b@h/x",
        "username": "a",
        "password": "b",
    }
    assert [format_location(at) for at, _ in cross_checks(valid)] == [
        "cameras.dock.source.username",
        "cameras.dock.source.password",
    ]
    valid["cameras"]["dock"]["source"]["url"] = "rtsp://h/x@y"
    assert list(cross_checks(valid)) == []


def _labelled(valid: dict[str, Any], *labels: str) -> NodeConfig:
    valid["cameras"]["dock"]["rules"][0]["labels"] = list(labels)
    return NodeConfig.model_validate(valid)


def test_a_label_that_the_model_does_not_know_is_named(valid: dict[str, Any]) -> None:
    config = _labelled(valid, "person", "preson", "Car", "unicorn")
    found = list(label_checks(config, {"yolox": ("person", "car", "dog")}))
    assert [(format_location(at), text) for at, text in found] == [
        ("cameras.dock.rules[0].labels[1]", "the model yolox does not know preson; did you mean person?"),
        ("cameras.dock.rules[0].labels[2]", "the model yolox does not know Car; did you mean car?"),
        (
            "cameras.dock.rules[0].labels[3]",
            "the model yolox does not know unicorn; it knows person, car, dog",
        ),
    ]


def test_a_long_label_map_is_cut_short(valid: dict[str, Any]) -> None:
    names = [f"thing number {number}" for number in range(80)]
    (found,) = label_checks(_labelled(valid, "unicorn"), {"yolox": names})
    assert found[1].endswith("thing number 11 and 68 more")


def test_labels_of_a_model_that_did_not_open_are_not_judged(valid: dict[str, Any]) -> None:
    assert list(label_checks(_labelled(valid, "unicorn"), {})) == []


@pytest.mark.parametrize(
    ("stated", "allowed", "text"),
    [
        ("internal", ("public", "internal"), None),
        ("restricted", ("public", "internal"), "the model yolox may see public, internal, not restricted"),
        (None, ("public",), "the model yolox may see public, not unknown (handled as restricted)"),
        (None, ("restricted",), None),
        ("unknown", ("restricted",), None),
    ],
)
def test_a_model_may_not_see_what_its_manifest_does_not_allow(
    stated: str | None, allowed: tuple[str, ...], text: str | None, valid: dict[str, Any]
) -> None:
    valid["cameras"]["dock"]["data_class"] = stated
    config = NodeConfig.model_validate(valid)
    found = [said for _, said in class_checks(config, {"yolox": [DataClass(name) for name in allowed]})]
    assert found == ([] if text is None else [text])
    assert list(class_checks(config, {})) == []


def _with_variants(valid: dict[str, Any], variants: Any) -> dict[str, Any]:
    models = {name: {"package": f"models/{name}"} for name in ("yolox", "small", "tiny")}
    return {**valid, "models": models, "guard": {"governor": {"variants": variants}}}


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ({"yolox": ["small", "tiny"]}, []),
        ({"yolox": ["huge"]}, ["yolox[0]: there is no model named huge; models are small, tiny, yolox"]),
        ({"yolox": ["yolox"]}, ["yolox[0]: a model cannot take its own place"]),
        ({"yolox": ["small", "small"]}, ["yolox[1]: small is listed twice"]),
        ({"small": ["tiny"]}, ["small: no camera uses a model named small"]),
        ({"yolox": 3, "small": None}, ["small: no camera uses a model named small"]),
        ([], []),
        ({"yolox": [["small"]]}, []),
    ],
)
def test_smaller_models_are_named_for_a_model_that_looks(
    variants: Any, said: list[str], valid: dict[str, Any]
) -> None:
    found = [f"{format_location(at)}: {text}" for at, text in cross_checks(_with_variants(valid, variants))]
    assert found == [f"guard.governor.variants.{text}" for text in said]


def test_a_smaller_model_counts_as_used(valid: dict[str, Any], write: Write) -> None:
    loaded = load_config(write(_with_variants(valid, {"yolox": ["small"]})))
    assert [warning.path for warning in loaded.warnings if "uses" in warning.text] == ["models.tiny"]


@pytest.mark.parametrize(
    ("labels", "allowed", "said"),
    [
        (["person", "car"], ["public", "internal"], []),
        (["person", "car"], ["public", "internal", "restricted"], []),
        (
            ["car", "person"],
            ["public", "internal"],
            ["the model small does not know the same labels, in the same order, as yolox"],
        ),
        (["person", "car"], ["public"], ["the model small may not see internal, and yolox may"]),
        (None, None, []),
    ],
)
def test_a_smaller_model_can_take_the_place_of_the_other(
    labels: list[str] | None, allowed: list[str] | None, said: list[str], valid: dict[str, Any]
) -> None:
    config = NodeConfig.model_validate(_with_variants(valid, {"yolox": ["small"]}))
    known = {"yolox": ["person", "car"]} | ({} if labels is None else {"small": labels})
    classes = {"yolox": [DataClass.PUBLIC, DataClass.INTERNAL]}
    classes |= {} if allowed is None else {"small": [DataClass(name) for name in allowed]}
    found = list(variant_checks(config, known, classes))
    assert [text for _, text in found] == said
    assert {format_location(at) for at, _ in found} <= {"guard.governor.variants.yolox[0]"}


@pytest.mark.parametrize(
    ("polygon", "edges"),
    [
        ([(0, 0), (1, 0), (1, 1), (0, 1)], None),
        ([(0, 0), (1, 1), (1, 0), (0, 1)], (0, 2)),
        ([(0, 0), (1, 0), (0.5, 1)], None),
        ([(0, 0), (4, 0), (4, 4), (2, 4), (2, 1), (1, 1), (1, 4), (0, 4)], None),
        ([(0, 0), (2, 2), (4, 0), (4, 4), (2, 2), (0, 4)], None),
        ([(0, 0), (4, 4), (4, 0), (0, 3), (-1, 2)], (0, 2)),
    ],
)
def test_polygons_that_cross_themselves(
    polygon: list[tuple[float, float]], edges: tuple[int, int] | None
) -> None:
    assert crossing_edges(polygon) == edges


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("rtsp://bob:hunter22@h/x", True),
        ("rtsp://${env:WHO}:hunter22@h/x", True),
        ("rtsp://bob:hunter22@${env:WHERE}/x", True),
        ("rtsp://bob:${env:SECRET}@h/x", False),
        ("rtsp://${env:WHO}@h/x", False),
        ("rtsp://h:554/x@y", False),
    ],
)
def test_only_a_password_that_stands_in_the_file_is_regretted(
    url: str, warned: bool, valid: dict[str, Any], write: Write
) -> None:
    valid["cameras"]["dock"]["source"]["url"] = url
    environment = {"WHO": "operator", "WHERE": "camera.local", "SECRET": "tr0ub4dor"}
    warnings = load_config(write(json.dumps(valid)), environment).warnings
    assert any("a password stands in this file" in problem.text for problem in warnings) == warned


def test_an_empty_delivery_section_is_a_warning(valid: dict[str, Any], write: Write) -> None:
    empty = load_config(write(json.dumps(valid | {"delivery": None})))
    assert [problem.text for problem in empty.warnings if problem.path == "delivery"] == [
        "is empty, so nothing is delivered; write delivery: {} for its defaults"
    ]
    meant = load_config(write(json.dumps(valid | {"delivery": {}})))
    assert meant.config.delivery is not None
    assert not [problem for problem in meant.warnings if problem.path == "delivery"]


def test_what_people_regret_is_a_warning(valid: dict[str, Any], write: Write) -> None:
    camera = valid["cameras"]["dock"]
    valid["models"]["spare"] = {"package": "p"}
    valid["cameras"]["yard"] = {"source": {"kind": "rtsp", "url": "rtsp://a:hunter22@h/x"}, "model": "yolox"}
    camera["source"] |= {"username": "a", "password": "hunter22"}
    camera["rules"][0] |= {"units": "pixels"}
    camera["masks"] = [{"polygon": [[0, 0], [1, 1], [1, 0], [0, 1]]}]
    loaded = load_config(write(json.dumps(valid, indent=1)))
    said = {problem.path: problem.text for problem in loaded.warnings}
    assert said["models.spare"] == "no camera uses this model"
    assert said["cameras.dock.rules[0].polygon"].startswith("lies within one pixel")
    assert said["cameras.dock.masks[0].polygon"].startswith("crosses itself: the edges after points 0 and 2")
    assert "a password stands in this file" in said["cameras.dock.source"]
    assert "a password stands in this file" in said["cameras.yard.source"]
    on_yard = [problem.text for problem in loaded.warnings if problem.path == "cameras.yard"]
    assert any("has no data_class" in text for text in on_yard)
    assert any("has no rules" in text for text in on_yard)
    assert all(problem.line for problem in loaded.warnings)
    assert "hunter" not in repr(loaded.warnings)
