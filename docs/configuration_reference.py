"""The page docs/configuration.md, made from the models that validate the file."""

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edge_runtime.config.base import LONGEST_S, NAME_PATTERN, ConfigModel
from edge_runtime.config.describe import attribute_docs, summary
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.schema import CLOCK_PATTERN, json_schema
from edge_runtime.config.shape import Shape, field_shape

HEAD = """\
# Configuration

One YAML file says which cameras a device has, which model looks at each, and what counts as an event. This
page lists every field; it is made from the models that validate the file.

```yaml
models:
  people: {package: models/yolox_nano}
cameras:
  dock:
    source: {kind: rtsp, url: "${file:dock.url.secret}"}
    model: people
    data_class: internal
    rules:
      - name: loading-bay
        kind: zone
        labels: [person]
        on: [enter, leave]
        polygon: [[0.1, 0.4], [0.6, 0.4], [0.6, 1.0], [0.1, 1.0]]
```

- `edge-runtime config init` writes a first file; `edge-runtime config check FILE` lists every problem with its
  line and its place, such as `site.yaml:12: cameras.dock.rules[2].polygon: needs at least 3 points`.
- `edge-runtime config schema` prints the JSON Schema. With a YAML extension in your editor, a first line
  `# yaml-language-server: $schema=edge-runtime.schema.json` gives completion.
- Paths are relative to the file. Times are seconds, measured on the source's own timeline, never frames.
- YAML is read with the scalars of version 1.2: only `true` and `false` are booleans, so a key `on`, a label `no`
  and a time `22:30` need no quotes. Duplicate keys are refused. `<<` merges are allowed.
- **Units** of points are told apart by the field `units`, never by value: `relative` runs from 0 to 1 of the
  frame's width and height, `pixels` counts pixels of the frame after rotation.

What each rule means exactly is told in [Rules and events](events.md).

## Secrets

`${env:NAME}` and `${file:PATH}` stand for an environment variable and for the content of a file without its last
line end; `$${` is a literal `${`. Within `{ }` they must stand in quotes. Values that come from references,
passwords, and credentials in URLs appear in no message, log, metric or `repr`, and neither enter nor change the
configuration's digest. A secret file that every user can read is named as a warning.
"""


def configuration_page() -> str:
    """The reference of the configuration file."""
    parts = [HEAD, "## The file\n", summary(NodeConfig) + "\n", _table(NodeConfig)]
    for name, info in NodeConfig.model_fields.items():
        parts += _sections(name, field_shape(info))
    return "\n".join(parts).rstrip() + "\n"


def _sections(path: str, shape: Shape) -> Iterator[str]:
    """Sections for what stands at `path` and below it, in the order of the fields."""
    if shape.kind == "map":
        yield from _sections(f"{path}.NAME", shape.items[0])
    elif shape.kind == "list":
        yield from _sections(f"{path}[]", shape.items[0])
    elif shape.kind == "choice":
        yield from _choice(path, shape)
    elif shape.model is not None:
        yield f"## `{path}`\n"
        yield summary(shape.model) + "\n"
        yield _table(shape.model)
        for name, info in shape.model.model_fields.items():
            yield from _sections(f"{path}.{name}", field_shape(info))


def _choice(path: str, shape: Shape) -> Iterator[str]:
    """One of several models: what some of them share, each once, then each with its own fields."""
    kinds = ", ".join(f"[`{tag}`](#{_anchor(path, tag)})" for tag in shape.variants)
    yield f"## `{path}`\n"
    yield f"`{shape.discriminator}` says which fields it takes: {kinds}.\n"
    shared: dict[type[BaseModel], list[str]] = {}
    for tag, model in shape.variants.items():
        for base in reversed(_bases(model)):
            shared.setdefault(base, []).append(tag)
    for base, tags in shared.items():
        yield f"### Fields of {', '.join(f'`{tag}`' for tag in tags)}\n"
        yield summary(base) + "\n"
        yield _table(base, own=True)
    nested: dict[str, Shape] = {}
    for tag, model in shape.variants.items():
        yield f"### `{path}`: `{tag}` {{ #{_anchor(path, tag)} }}\n"
        yield summary(model) + "\n"
        also = [tags for base, tags in shared.items() if tag in tags]
        if also:
            groups = " and of ".join(", ".join(f"`{name}`" for name in tags) for tags in also)
            yield f"Its fields, besides those of {groups} above:\n"
        yield _table(model, own=True)
        nested |= {name: field_shape(info) for name, info in model.model_fields.items()}
    for name, inner in nested.items():
        yield from _sections(f"{path}.{name}", inner)


def _bases(model: type[BaseModel]) -> list[type[BaseModel]]:
    """The classes between `model` and the base of all, nearest first."""
    return [base for base in model.__mro__[1:] if issubclass(base, ConfigModel) and base is not ConfigModel]


def _anchor(path: str, tag: str) -> str:
    return f"{path.replace('.', '-').replace('[]', '').lower()}-{tag}"


def _table(model: type[BaseModel], *, own: bool = False) -> str:
    docs = attribute_docs(model)
    schemas = _section_schema(model)
    rows = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, info in model.model_fields.items():
        if not own or name in inspect.get_annotations(model):
            meaning = _cell(docs[name][:1].upper() + docs[name][1:])
            rows.append(f"| `{name}` | {_cell(_type(schemas[name]))} | {_default(info)} | {meaning} |")
    return "\n".join(rows) + "\n"


def _section_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = _SCHEMA if model is NodeConfig else _SCHEMA["$defs"].get(model.__name__)
    if schema is None:  # a shared base, which no file can name
        heir = next(
            heir for heir in model.__subclasses__() + _heirs(model) if heir.__name__ in _SCHEMA["$defs"]
        )
        schema = _SCHEMA["$defs"][heir.__name__]
    properties: dict[str, Any] = schema["properties"]
    return properties


def _heirs(model: type[BaseModel]) -> list[type[BaseModel]]:
    return [heir for child in model.__subclasses__() for heir in child.__subclasses__()]


_SCHEMA = json_schema()


def _type(schema: dict[str, Any]) -> str:
    """A field's type in words, from its JSON Schema."""
    if "anyOf" in schema:
        schema = next(option for option in schema["anyOf"] if option.get("type") != "null")
    if "$ref" in schema:
        schema = _SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    words = [str(word) for word in schema.get("enum", [schema["const"]] if "const" in schema else [])]
    if words:
        return ", ".join(f"`{word}`" for word in words)
    kind = schema.get("type")
    if kind == "array":
        return _list_type(schema)
    if kind == "string":
        return _text_type(schema.get("pattern", ""))
    if kind in ("integer", "number"):
        return _number_type(schema)
    named = {
        "boolean": "`true` or `false`",
        "object": "section" if "properties" in schema else "sections by name",
    }
    return named.get(str(kind), "section")  # what is left is one of several sections


def _text_type(pattern: str) -> str:
    return {NAME_PATTERN: "name", CLOCK_PATTERN: "time of day"}.get(pattern, "text")


def _number_type(schema: dict[str, Any]) -> str:
    what = "whole number" if schema["type"] == "integer" else "number"
    if schema.get("maximum") == LONGEST_S:
        return "seconds, above 0" if "exclusiveMinimum" in schema else "seconds"
    return " ".join([what, *_bounds(schema)])


def _list_type(schema: dict[str, Any]) -> str:
    items = schema["items"]
    if items.get("type") == "number" and schema.get("maxItems") == 2:
        return "point [x, y]"
    if items.get("type") == "array" and schema.get("maxItems") == 2:
        return "two points [[x, y], [x, y]]"
    if items.get("type") == "array":
        return "list of points [x, y]"
    inner = _type(items)
    return f"list of {'sections' if inner == 'section' else inner}"


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is not None and high is not None and "exclusiveMinimum" not in schema:
        yield f"{low:,} to {high:,}".replace(",", " ")
        return
    if low is not None:
        yield f"{'above' if 'exclusiveMinimum' in schema else 'from'} {low:,}".replace(",", " ")
    if high is not None:
        yield f"to {high:,}".replace(",", " ")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "**required**"
    value = info.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, Enum):
        value = value.value
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
