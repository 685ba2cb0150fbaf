"""The configuration's JSON Schema, for completion and checks in editors."""

from typing import Any

from edge_runtime.config.describe import all_models, attribute_docs, summary
from edge_runtime.config.node import NodeConfig

CLOCK_PATTERN = r"^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"


def json_schema() -> dict[str, Any]:
    """The schema as plain data, each section and field with its description.

    It states what one field alone allows. References between sections, and ranges that depend on units, are
    what `edge-runtime config check` adds. A `${…}` reference fits text fields only.
    """
    schema = NodeConfig.model_json_schema(mode="validation")
    sections = {"NodeConfig": schema, **schema.get("$defs", {})}
    for model in all_models():
        section = sections[model.__name__]
        section["description"] = summary(model)
        docs = attribute_docs(model)
        for name, entry in section["properties"].items():
            entry.pop("title", None)
            if name in docs:
                entry["description"] = docs[name]
    _simplify(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of edge-runtime",
        **{key: value for key, value in schema.items() if key != "title"},
    }


_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Pydantic leaves its own words where a validator stands before the number."""


def _simplify(node: Any) -> None:
    """Say in older words what editors with an older draft would miss: fixed lists and times of day."""
    if isinstance(node, list):
        for item in node:
            _simplify(item)
    elif isinstance(node, dict):
        for ours, theirs in _BOUNDS.items():
            if isinstance(node.get(ours), (int, float)):
                node[theirs] = node.pop(ours)
        items = node.get("prefixItems")
        if isinstance(items, list) and items and all(item == items[0] for item in items):
            node["items"] = items[0]
            del node["prefixItems"]
        if node.get("format") == "time":
            del node["format"]
            node["pattern"] = CLOCK_PATTERN
            if isinstance(node.get("default"), str):
                node["default"] = node["default"][:5]
        for value in node.values():
            _simplify(value)
