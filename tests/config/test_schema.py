import json
from typing import Any

import pytest
from pydantic import BaseModel

from edge_runtime.config.base import TEXT_PATTERN
from edge_runtime.config.describe import all_models, attribute_docs, summary
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.schema import CLOCK_PATTERN, json_schema
from edge_runtime.config.sentences import NAMES_BY_PATTERN
from edge_runtime.config.shape import Shape, field_shape, place_of


@pytest.mark.parametrize("model", all_models(), ids=lambda model: model.__name__)
def test_every_section_and_field_is_described(model: type[BaseModel]) -> None:
    assert summary(model)
    assert set(attribute_docs(model)) == set(model.model_fields)


def test_all_models_are_found() -> None:
    names = {model.__name__ for model in all_models()}
    assert {"NodeConfig", "RtspSource", "PlaylistItem", "AbsenceRule", "Schedule", "DeviceProfile"} <= names


def test_descriptions_join_lines_and_names_that_share_one() -> None:
    class Model(BaseModel):
        """First line
        goes on.

        Second paragraph.

        Attributes:
            a, b: shared
                text.
            c: own: with a colon.

        Raises:
            d: no field.
        """

        a: int
        b: int
        c: int

    assert summary(Model) == "First line goes on.\n\nSecond paragraph."
    assert attribute_docs(Model) == {"a": "shared text.", "b": "shared text.", "c": "own: with a colon."}


def _nodes(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for item in node for found in _nodes(item)]
    if isinstance(node, dict):
        return [node, *(found for item in node.values() for found in _nodes(item))]
    return []


def test_the_schema_is_what_editors_understand() -> None:
    schema = json_schema()
    json.dumps(schema)
    assert schema["$schema"].startswith("https://json-schema.org/")
    nodes = _nodes(schema)
    names = {node["$ref"].removeprefix("#/$defs/") for node in nodes if isinstance(node.get("$ref"), str)}
    assert names <= set(schema["$defs"])
    for word in ("ge", "gt", "le", "lt", "prefixItems"):
        assert not any(word in node for node in nodes if "type" in node)
    assert not any(node.get("format") == "time" for node in nodes)


def test_the_schema_describes_and_bounds_fields() -> None:
    definitions = json_schema()["$defs"]
    score = definitions["ModelConfig"]["properties"]["score"]
    assert score["description"] == "override the package's thresholds."
    fraction = next(option for option in score["anyOf"] if option["type"] == "number")
    assert (fraction["minimum"], fraction["maximum"]) == (0, 1)
    zone = definitions["ZoneRule"]
    assert zone["additionalProperties"] is False
    assert zone["properties"]["kind"]["const"] == "zone"
    point = next(node for node in _nodes(zone["properties"]["polygon"]) if node.get("minItems") == 2)
    assert point["items"]["type"] == "number"
    assert definitions["Schedule"]["properties"]["start"]["default"] == "00:00"


@pytest.mark.parametrize(
    ("loc", "location", "kind"),
    [
        (("cameras", "a", "rules", 0, "line", "line", 1), ("cameras", "a", "rules", 0, "line", 1), "tuple"),
        (("cameras", "a", "rules", 0, "zone", "polygon"), ("cameras", "a", "rules", 0, "polygon"), "list"),
        (("cameras", "a", "source", "http", "http"), ("cameras", "a", "source", "http"), None),
        (("cameras", "a", "source"), ("cameras", "a", "source"), "choice"),
        (("cameras", "b c", "[key]"), ("cameras", "b c"), "section"),
        (("models", "m", "score"), ("models", "m", "score"), "value"),
        (("nothing", "here"), ("nothing", "here"), None),
    ],
)
def test_union_tags_are_no_part_of_a_location(
    loc: tuple[str | int, ...], location: tuple[str | int, ...], kind: str | None
) -> None:
    place = place_of(loc, NodeConfig)
    assert place.location == location
    assert (place.shape.kind if place.shape else None) == kind
    assert place.is_key == (loc[-1] == "[key]")


def test_closed_lists_give_their_words() -> None:
    fields = NodeConfig.model_fields
    assert field_shape(fields["version"]).words == ("1",)
    assert Shape("value", int).words == ()


def _patterns(node: Any) -> set[str]:
    if isinstance(node, list):
        return {pattern for item in node for pattern in _patterns(item)}
    if not isinstance(node, dict):
        return set()
    own = {node["pattern"]} if isinstance(node.get("pattern"), str) else set()
    return own.union(*map(_patterns, node.values()))


def test_each_pattern_has_a_sentence_that_says_what_it_asks() -> None:
    assert _patterns(json_schema()) == {TEXT_PATTERN, CLOCK_PATTERN, *NAMES_BY_PATTERN}
