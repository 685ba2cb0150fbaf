"""The engine that a package wants on a machine: its recipe, from the manifest, the graph and the settings."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from pydantic import ValidationError

from edge_runtime.durable import sha256_file
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.engines.onnx_io import DeclaredModel, DeclaredTensor, read_declared
from edge_runtime.engines.recipe import EngineRecipe, Profile, TensorDeclaration
from edge_runtime.engines.records import first_problem
from edge_runtime.errors import PackageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.packages.package import ModelPackage
from edge_runtime.perception.backends.tensorrt.plugins import PluginLibrary, plugin_digests
from edge_runtime.qualification.agreement import PRECISIONS, Precision

MIB: Final = 1 << 20

_AS_EXPORTED: Final = "as-exported"
"""Word of a recipe for weights that nobody quantised."""

_CHANNELS: Final = 3


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What of the settings decides what an engine is.

    Attributes:
        batch: images in one run at most; the package may allow fewer.
        tf32: let 32-bit layers multiply with 10 bits of mantissa.
        workspace_bytes: limit of the builder's workspace.
        plugins: libraries with layers that TensorRT does not have.
    """

    batch: int = 1
    tf32: bool = True
    workspace_bytes: int = 512 * MIB
    plugins: tuple[PluginLibrary, ...] = ()


def wanted_recipe(package: ModelPackage, machine: MachineFacts, options: EngineOptions) -> EngineRecipe:
    """The recipe of the engine that runs a package here.

    Raises:
        PackageError: the weights cannot be read, or their inputs are not those of the manifest.
        PluginRefused: two plugin libraries have one name.
    """
    spec = package.manifest.input
    declared = read_declared(package.weights)
    batch = _batch(declared, spec, options)
    try:
        return _recipe(package, machine, options, declared, batch)
    except ValidationError as error:  # a name that no recipe can hold, for one
        raise PackageError(f"no engine of the model can be described: {first_problem(error)}") from error


def _recipe(
    package: ModelPackage, machine: MachineFacts, options: EngineOptions, declared: DeclaredModel, batch: int
) -> EngineRecipe:
    spec, quantisation = package.manifest.input, package.manifest.quantisation
    return EngineRecipe(
        weights_sha256=package.manifest.weights.sha256,
        external={name: _external(package, name) for name in declared.external},
        machine=machine,
        precision=_AS_EXPORTED if quantisation == "none" else quantisation,
        inputs=tuple(_declaration(tensor) for tensor in declared.inputs),
        outputs=tuple(_declaration(tensor) for tensor in declared.outputs),
        profiles=tuple(
            _profile(tensor, spec, batch)
            for tensor in declared.inputs
            if any(dim is None for dim in tensor.shape)
        ),
        batch=batch,
        flags=("STRONGLY_TYPED", *(("TF32",) if options.tf32 else ())),
        plugins=plugin_digests(options.plugins),
        workspace_bytes=options.workspace_bytes,
    )


def effective_precision(package: ModelPackage, recipe: EngineRecipe) -> Precision:
    """The precision whose tolerances hold for an engine: with TF32 a 32-bit layer is as exact as a 16-bit one."""
    declared = PRECISIONS[package.manifest.quantisation]
    return "fp16" if declared == "fp32" and "TF32" in recipe.flags else declared


def _batch(declared: DeclaredModel, spec: InputSpec, options: EngineOptions) -> int:
    image = next((tensor for tensor in declared.inputs if tensor.name == spec.name), None)
    if image is None:
        names = ", ".join(tensor.name for tensor in declared.inputs) or "none"
        raise PackageError(f"the graph has no input '{spec.name}'; it has {names}")
    fixed = image.shape[0] if image.shape else 1
    return fixed if fixed is not None else max(1, min(options.batch, spec.batch))


def _declaration(tensor: DeclaredTensor) -> TensorDeclaration:
    return TensorDeclaration(name=tensor.name, dtype=tensor.dtype, shape=tensor.shape)


def _profile(tensor: DeclaredTensor, spec: InputSpec, batch: int) -> Profile:
    """Shapes of an input with free extents: only the number of images varies when a package runs.

    A batch forms when frames wait, and one frame alone is the usual case: for that the engine is tuned.
    """
    sizes = _sizes(tensor, spec)
    if len(sizes) != len(tensor.shape):
        raise PackageError(
            f"the graph's input {tensor.name} has {len(tensor.shape)} axes, the package {len(sizes)}"
        )

    def shape(images: int) -> tuple[int, ...]:
        wanted = (images, *sizes[1:])
        return tuple(dim if dim is not None else size for dim, size in zip(tensor.shape, wanted, strict=True))

    return Profile(input=tensor.name, minimum=shape(1), optimum=shape(1), maximum=shape(batch))


def _sizes(tensor: DeclaredTensor, spec: InputSpec) -> tuple[int, ...]:
    if tensor.name == spec.name:
        plane = (spec.height, spec.width)
        return (1, _CHANNELS, *plane) if spec.layout == "nchw" else (1, *plane, _CHANNELS)
    if tensor.name == spec.size_input:
        return (1, 2)
    raise PackageError(
        f"the graph's input {tensor.name} may have any size, and the manifest does not speak of it"
    )


def _external(package: ModelPackage, name: str) -> str:
    """Digest of a file of weights beside the graph."""
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts:
        raise PackageError(f"the graph names weights in {name!r}, which leads out of the package")
    path = package.weights.parent / pure
    try:
        if not path.resolve(strict=True).is_relative_to(package.directory.resolve()):
            raise PackageError(f"the graph names weights in {name!r}, which leads out of the package")
        if not path.is_file():  # a pipe or a device would be read for ever
            raise PackageError(f"the graph's weights in {name!r} cannot be read: it is not a regular file")
        return sha256_file(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, before Python 3.13
        why = getattr(error, "strerror", None) or "its links lead in a circle"
        raise PackageError(f"the graph's weights in {name!r} cannot be read: {why}") from error
