"""Writes a proposed package into a folder: whole or not at all, and never over a different one unasked."""

import json
from collections.abc import Mapping
from pathlib import Path

from edge_runtime.authoring.card import card
from edge_runtime.authoring.propose import Proposal
from edge_runtime.durable import staged_directory, write_file
from edge_runtime.errors import PackageError
from edge_runtime.packages import ModelPackage, open_package, read_manifest
from edge_runtime.packages.archive import DOCUMENTS
from edge_runtime.packages.manifest import MANIFEST_NAME, ModelManifest
from edge_runtime.packages.recipe import RECIPE_NAME, Recipe


def write_package(proposal: Proposal, directory: Path, *, replace: bool = False) -> ModelPackage:
    """Write the package.

    Args:
        proposal: reviewed.
        directory: to make; an existing one is only replaced when it holds the same package, or on demand.
        replace: replace another package in `directory`.

    Returns:
        The package, opened and verified from the disk.

    Raises:
        PackageError: `directory` holds something else, or cannot be written.
    """
    files = {proposal.manifest.weights.file: proposal.weights}
    for recorded in proposal.vectors:
        files[recorded.vector.inputs] = recorded.inputs
        files[recorded.vector.outputs] = recorded.outputs
    files["CARD.md"] = card(proposal.manifest, proposal.findings).encode()
    if proposal.recipe is not None:
        files[RECIPE_NAME] = recipe_text(proposal.recipe)
    return write_files(proposal.manifest, files, directory, replace=replace)


def write_files(
    manifest: ModelManifest, files: Mapping[str, bytes], directory: Path, *, replace: bool = False
) -> ModelPackage:
    """Write a package of which every file is at hand; see `write_package`.

    Args:
        manifest: complete.
        files: content by path inside the package, all but the manifest.
        directory: as for `write_package`.
        replace: as for `write_package`.

    Raises:
        PackageError: `directory` holds something else, or cannot be written.
    """
    _may_take(directory, manifest, replace=replace)
    try:
        with staged_directory(directory) as staged:
            for name, data in files.items():
                (staged / name).parent.mkdir(exist_ok=True)
                write_file(staged / name, data)
            write_file(staged / MANIFEST_NAME, manifest_text(manifest))
    except OSError as error:
        raise PackageError(f"{directory}: the package cannot be written: {error.strerror}") from error
    return open_package(directory)


def manifest_text(manifest: ModelManifest) -> bytes:
    """`manifest.json` as people read it; the digest is taken from the canonical form, not from this."""
    return (json.dumps(manifest.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def recipe_text(recipe: Recipe) -> bytes:
    """`recipe.json` as people read it."""
    return (json.dumps(recipe.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def require_room(directory: Path, *, replace: bool) -> None:
    """Refuse a folder before minutes of work, where its content is only known afterwards.

    Raises:
        PackageError: `directory` holds something else than a package, or a package that is not to be replaced.
    """
    _require_package_or_nothing(directory)
    if (directory / MANIFEST_NAME).is_file() and not replace:
        raise PackageError(f"{directory} holds a package already: choose another --out, or --force")


def _may_take(directory: Path, manifest: ModelManifest, *, replace: bool) -> None:
    _require_package_or_nothing(directory)
    if replace or not (directory / MANIFEST_NAME).is_file():
        return
    try:
        present = read_manifest(directory).digest()
    except PackageError as error:
        raise PackageError(f"{directory} holds a package that cannot be read: --force replaces it") from error
    if present != manifest.digest():
        raise PackageError(f"{directory} holds another package already: choose another --out, or --force")


def _require_package_or_nothing(directory: Path) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        raise PackageError(f"{directory} is a file: --out needs a folder")
    if {entry.name for entry in directory.iterdir()} <= set(DOCUMENTS):  # at most a recipe to start from
        return
    if not (directory / MANIFEST_NAME).is_file():
        raise PackageError(f"{directory} holds other things than a model package: choose another --out")
