"""Opening a package: read the manifest, verify every file that it names, hand out paths.

The digest of the manifest identifies the package, and the manifest names the SHA-256 of every file that
decides what the model does, so a package that opens is exactly the one its author made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from edge_runtime.durable import sha256_file
from edge_runtime.errors import PackageError
from edge_runtime.packages.archive import DOCUMENTS, pack, unpacked
from edge_runtime.packages.manifest import MANIFEST_NAME, ModelManifest
from edge_runtime.packages.recipe import RECIPE_NAME
from edge_runtime.packages.validation import explain

_MAX_MANIFEST_BYTES = 1 << 20


class ManifestInvalid(PackageError):
    """`manifest.json` does not describe a package."""


class FileDiffers(PackageError):
    """A file of the package is not the one that its manifest names."""


class WeightsAbsent(PackageError):
    """The package is there, but its weights are not."""


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A package whose files were verified when it was opened.

    Attributes:
        manifest: what the model is and how it runs.
        directory: the folder that holds the files.
        weights: the weights file.
        digest: `sha256:` and the digest of the manifest's canonical bytes.
    """

    manifest: ModelManifest
    directory: Path
    weights: Path
    digest: str

    def file(self, name: str) -> Path:
        """The path of a file that the manifest names."""
        return inside(self.directory, name)


def open_package(path: Path, *, cache: Path | None = None) -> ModelPackage:
    """Open a package folder or archive and verify every file that its manifest names.

    Args:
        path: a folder with `manifest.json`, or an archive made by `edge-runtime model pack`.
        cache: where archives are unpacked, once for each digest; default `~/.cache/edge-runtime`.

    Raises:
        PackageError: something is absent, unreadable, or not what the manifest says.
    """
    if not path.is_file():
        return _open(path, path)
    opened: list[ModelPackage] = []
    directory = unpacked(path, cache, verify=lambda folder: opened.append(_open(folder, path)))
    manifest = opened[-1].manifest
    return ModelPackage(manifest, directory, inside(directory, manifest.weights.file), opened[-1].digest)


def _open(directory: Path, called: Path) -> ModelPackage:
    """Open the folder `directory`; errors speak of `called`, the folder or archive that the user named."""
    manifest = read_manifest(directory, called)
    weights = inside(directory, manifest.weights.file)
    if not weights.is_file():
        raise WeightsAbsent(_absent(directory, called, manifest))
    _verify(weights, called, manifest.weights.file, manifest.weights.sha256)
    for name, digest in golden_files(manifest):
        _verify(inside(directory, name), called, name, digest)
    return ModelPackage(manifest, directory, weights, manifest.digest())


def read_manifest(directory: Path, called: Path | None = None) -> ModelManifest:
    """Read `manifest.json` in a package folder, without looking at the other files.

    Args:
        directory: the folder.
        called: the archive that it was unpacked from, for errors to name.

    Raises:
        PackageError: there is none, or it is not a manifest; the text names the field.
    """
    path = directory / MANIFEST_NAME
    called = called or directory
    shown = called / MANIFEST_NAME
    try:
        if not directory.is_dir():
            why = (
                "it is neither a folder nor a regular file"
                if directory.exists()
                else "there is no such folder or archive"
            )
            raise PackageError(f"{directory} is no model package: {why}")
        if not path.is_file():
            raise PackageError(
                f"{called} is no model package: it has no {MANIFEST_NAME} "
                f"(make one with `edge-runtime model import FILE --out DIR`)"
            )
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            raise PackageError(f"{shown} is larger than a manifest may be (1 MiB)")
        return ModelManifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise PackageError(f"{shown}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ManifestInvalid(explain(str(shown), error)) from error


def golden_files(manifest: ModelManifest) -> Iterator[tuple[str, str]]:
    """Name and SHA-256 of every golden vector file."""
    for vector in manifest.golden:
        yield vector.inputs, vector.inputs_sha256
        yield vector.outputs, vector.outputs_sha256


def inside(directory: Path, name: str) -> Path:
    """The path of `name` in a package folder.

    Raises:
        PackageError: the name would lead out of the folder.
    """
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts:
        raise PackageError(f"the manifest names {name}, which leads out of the package")
    return directory / pure


def _verify(path: Path, called: Path, name: str, expected: str) -> None:
    shown = called / name
    try:
        actual = sha256_file(path)
    except OSError as error:
        raise FileDiffers(
            f"{shown}: the manifest names it, but it cannot be read: {error.strerror}"
        ) from error
    if actual != expected:
        raise FileDiffers(
            f"{shown} is not the file that the manifest names: sha256 {actual[:12]}… instead of "
            f"{expected[:12]}… (damaged or exchanged: obtain {name} again, or import the model anew)"
        )


def _absent(directory: Path, called: Path, manifest: ModelManifest) -> str:
    if called == directory and (directory / RECIPE_NAME).is_file():
        return (
            f"the weights of {manifest.name} are not here yet: "
            f"obtain them with `edge-runtime model fetch {directory}`"
        )
    return f"{called / manifest.weights.file}: the manifest names this weights file, but it is absent"


def pack_package(package: ModelPackage, archive: Path) -> str:
    """Write a package as a single file and return the file's SHA-256.

    Raises:
        PackageError: a file cannot be read or the archive cannot be written.
    """
    names = [MANIFEST_NAME, package.manifest.weights.file]
    names += [name for name, _ in golden_files(package.manifest)]
    names += [name for name in DOCUMENTS if (package.directory / name).is_file()]
    return pack({name: package.file(name) for name in names}, archive)
