"""The recipe of an engine: all that decides what TensorRT makes, and the key that follows from it.

Caches that name an engine after the model's file, or after the structure of its graph, have served one model's
answers for another's (onnxruntime #6455, #32254). Here it is the SHA-256 of the whole recipe, weights included.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from edge_runtime.engines.facts import MachineFacts, Text

RECIPE_FORMAT: Final = 1
"""Layout of the recipe's record."""

RECIPE_VERSION: Final = 1
"""How this release builds engines; raised whenever the same recipe would be built in another way."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(min_length=1, max_length=256)]
"""Of a tensor or a file; a graph may use any Unicode in it."""

_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Extent = Annotated[int, Field(ge=0, lt=1 << 31)]
_Shape = Annotated[tuple[_Extent, ...], Field(max_length=16)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class TensorDeclaration(_Strict):
    """An input or output of the network.

    Attributes:
        dtype: NumPy's name, such as `float32`.
        shape: None where the extent is chosen when the model runs.
    """

    name: Name
    dtype: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    shape: Annotated[tuple[_Extent | None, ...], Field(max_length=16)]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {'x'.join('?' if n is None else str(n) for n in self.shape) or 'scalar'}"


class Profile(_Strict):
    """The shapes that an input with free extents may take.

    Attributes:
        input: its name.
        minimum, optimum, maximum: of one rank, ascending in each extent; the engine is tuned for the middle one.
    """

    input: Name
    minimum: _Shape
    optimum: _Shape
    maximum: _Shape

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        ranks = {len(self.minimum), len(self.optimum), len(self.maximum)}
        if len(ranks) > 1 or not all(
            low <= middle <= high
            for low, middle, high in zip(self.minimum, self.optimum, self.maximum, strict=True)
        ):
            raise ValueError(
                f"profile of {self.input}: minimum <= optimum <= maximum does not hold in every extent"
            )
        return self

    def __str__(self) -> str:
        low, middle, high = ("x".join(map(str, one)) for one in (self.minimum, self.optimum, self.maximum))
        return f"{self.input} {low} to {high}, best {middle}"


def _sorted_once(flags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(flags)))


class EngineRecipe(_Strict):
    """All that decides what an engine is.

    Attributes:
        weights_sha256: of the ONNX file.
        external: SHA-256 of each file of external data, by its name in the graph.
        machine: that builds and runs it.
        precision: what the package says of its weights, such as `as-exported`, `fp16` or `int8-qdq`.
        inputs, outputs: in the order of the graph.
        profiles: one for each input with free extents.
        batch: images in one run at most.
        flags: of the builder, by TensorRT's names; they are sorted here.
        plugins: SHA-256 of each plugin library, by file name.
        workspace_bytes: limit of the builder's workspace.
        builder: `RECIPE_VERSION` of the release that builds.
        format: `RECIPE_FORMAT`.
    """

    weights_sha256: Sha256
    machine: MachineFacts
    precision: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._+-]{0,63}$")] = "as-exported"
    inputs: Annotated[tuple[TensorDeclaration, ...], Field(min_length=1, max_length=64)]
    outputs: Annotated[tuple[TensorDeclaration, ...], Field(min_length=1, max_length=256)]
    workspace_bytes: _Count
    external: Annotated[dict[Name, Sha256], Field(max_length=256)] = Field(default_factory=dict)
    profiles: Annotated[tuple[Profile, ...], Field(max_length=64)] = ()
    batch: Annotated[int, Field(ge=1, le=4096)] = 1
    flags: Annotated[tuple[Text, ...], Field(max_length=64), AfterValidator(_sorted_once)] = ()
    plugins: Annotated[dict[Name, Sha256], Field(max_length=64)] = Field(default_factory=dict)
    builder: _Count = RECIPE_VERSION
    format: _Count = RECIPE_FORMAT

    @property
    def key(self) -> str:
        """SHA-256 of `canonical`, in lower-case hexadecimal."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def canonical(self) -> bytes:
        """The recipe as JSON of which there is one spelling: sorted keys, no spaces, ASCII, whole numbers only."""
        return canonical_json(self.model_dump(mode="json"))


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two recipes differ.

    Attributes:
        field: its path, such as `machine.sm`.
        wanted: what was asked for, as text.
        found: what the engine was built for, as text.
    """

    field: str
    wanted: str
    found: str

    def __str__(self) -> str:
        kind, label = _LABELS.get(self.field, ("", self.field.replace("_", " ")))
        here = "this device has" if kind else "wanted is"
        return f"built for {label} {self.found}, {here} {label} {self.wanted}"


_LABELS: Final = {
    "machine.sm": ("device", "SM"),
    "machine.gpu": ("device", "GPU"),
    "machine.tensorrt": ("device", "TensorRT"),
    "machine.l4t": ("device", "L4T"),
    "machine.driver": ("device", "driver"),
    "weights_sha256": ("", "weights"),
    "external": ("", "external data"),
}
"""What explains a difference best comes first."""


def differences(wanted: EngineRecipe, found: EngineRecipe) -> tuple[Difference, ...]:
    """Every field in which an engine's recipe is not the wanted one, the machine's first."""
    ours, theirs = dict(_fields(wanted)), dict(_fields(found))
    order = [*_LABELS, *(name for name in ours if name not in _LABELS)]
    return tuple(
        Difference(name, _shown(ours[name]), _shown(theirs[name]))
        for name in order
        if ours[name] != theirs[name]
    )


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys, no spaces and ASCII only, so that equal values are equal bytes."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def _fields(recipe: EngineRecipe) -> Iterator[tuple[str, Any]]:
    for name in type(recipe).model_fields:
        if name != "machine":
            yield name, getattr(recipe, name)
    for name in MachineFacts.__dataclass_fields__:
        yield f"machine.{name}", getattr(recipe.machine, name)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {digest}" for name, digest in sorted(value.items())) or "none"
    if isinstance(value, tuple):
        return "; ".join(map(str, value)) or "none"
    return "unknown" if value is None else str(value)
