"""Writes a proposed package into a folder: whole or not at all, and never over a different one unasked."""

import json
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
    _may_take(directory, proposal.manifest, replace=replace)
    try:
        with staged_directory(directory) as staged:
            write_file(staged / proposal.manifest.weights.file, proposal.weights)
            for recorded in proposal.vectors:
                for name, data in (
                    (recorded.vector.inputs, recorded.inputs),
                    (recorded.vector.outputs, recorded.outputs),
                ):
                    (staged / name).parent.mkdir(exist_ok=True)
                    write_file(staged / name, data)
            write_file(staged / "CARD.md", card(proposal.manifest, proposal.findings).encode())
            if proposal.recipe is not None:
                write_file(staged / RECIPE_NAME, recipe_text(proposal.recipe))
            write_file(staged / MANIFEST_NAME, manifest_text(proposal.manifest))
    except OSError as error:
        raise PackageError(f"{directory}: the package cannot be written: {error.strerror}") from error
    return open_package(directory)


def manifest_text(manifest: ModelManifest) -> bytes:
    """`manifest.json` as people read it; the digest is taken from the canonical form, not from this."""
    return (json.dumps(manifest.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def recipe_text(recipe: Recipe) -> bytes:
    """`recipe.json` as people read it."""
    return (json.dumps(recipe.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def _may_take(directory: Path, manifest: ModelManifest, *, replace: bool) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        raise PackageError(f"{directory} is a file: --out needs a folder")
    if {entry.name for entry in directory.iterdir()} <= set(DOCUMENTS):  # at most a recipe to start from
        return
    if not (directory / MANIFEST_NAME).is_file():
        raise PackageError(f"{directory} holds other things than a model package: choose another --out")
    if replace:
        return
    try:
        present = read_manifest(directory).digest()
    except PackageError as error:
        raise PackageError(f"{directory} holds a package that cannot be read: --force replaces it") from error
    if present != manifest.digest():
        raise PackageError(f"{directory} holds another package already: choose another --out, or --force")
