"""What the models say about themselves: docstrings and their `Attributes:` sections, per field."""

import inspect
import re
from collections.abc import Iterator

from pydantic import BaseModel

from edge_runtime.config.node import NodeConfig
from edge_runtime.config.shape import Shape, field_shape

_ENTRY = re.compile(r"(?P<names>[a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): (?P<text>.*)")


def summary(model: type[BaseModel]) -> str:
    """The model's docstring up to its sections, as paragraphs of one line each."""
    text = _docstring(model).split("\nAttributes:\n")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """One line per field, from the `Attributes:` sections of the model and its bases."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel):
            docs |= _entries(_docstring(base))
    return {name: docs[name] for name in model.model_fields if name in docs}


def all_models() -> list[type[BaseModel]]:
    """Every model of the configuration, in the order in which a reader meets them."""
    found: dict[type[BaseModel], None] = {}
    waiting = [NodeConfig]
    while waiting:
        model = waiting.pop(0)
        if model not in found:
            found[model] = None
            for info in model.model_fields.values():
                waiting.extend(_models_in(field_shape(info)))  # type: ignore[arg-type]
    return list(found)


def _models_in(shape: Shape) -> Iterator[type[BaseModel]]:
    if shape.model is not None:
        yield shape.model
    yield from dict.fromkeys(shape.variants.values())
    for item in shape.items:
        yield from _models_in(item)


def _docstring(model: type[BaseModel]) -> str:
    # `__dict__`, because a model without a docstring would inherit that of its base.
    return inspect.cleandoc(model.__dict__.get("__doc__") or "")


def _entries(docstring: str) -> dict[str, str]:
    """Names and texts of an `Attributes:` section in Google style."""
    _, found, section = docstring.partition("\nAttributes:\n")
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines() if found else ():
        match = _ENTRY.fullmatch(line[4:]) if line.startswith("    ") and line[4:5] != " " else None
        if match:
            names = match["names"].split(", ")
            docs |= dict.fromkeys(names, match["text"])
        elif line.startswith("        ") and names:
            docs |= {name: f"{docs[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return docs
