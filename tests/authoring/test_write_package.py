"""Packages are written whole, verified from the disk, and never over another one unasked."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.authoring.propose import Proposal, Wishes, propose
from edge_runtime.authoring.write_package import write_package
from edge_runtime.errors import PackageError
from edge_runtime.packages import open_package
from edge_runtime.packages.recipe import FileSource, Recipe, read_recipe


@pytest.fixture(scope="module")
def proposal(onnx_models: Path) -> Proposal:
    return propose(onnx_models / "ultraface_rfb_320x240.onnx")


def other(proposal: Proposal) -> Proposal:
    manifest = proposal.manifest.model_copy(update={"name": "other"})
    return replace(proposal, manifest=manifest)


def test_a_package_is_written_and_opens(proposal: Proposal, tmp_path: Path) -> None:
    package = write_package(proposal, tmp_path / "new" / "package")
    assert package.digest == proposal.manifest.digest()
    assert open_package(tmp_path / "new" / "package").manifest == proposal.manifest
    card = (package.directory / "CARD.md").read_text()
    assert "## Guessed on import" in card
    assert "thresholds" in card
    assert json.loads((package.directory / "manifest.json").read_text())["name"] == proposal.manifest.name


def test_writing_the_same_package_again_is_allowed(proposal: Proposal, tmp_path: Path) -> None:
    first = write_package(proposal, tmp_path / "p")
    assert write_package(proposal, tmp_path / "p").digest == first.digest


def test_another_package_stays_unless_it_is_forced(proposal: Proposal, tmp_path: Path) -> None:
    first = write_package(proposal, tmp_path / "p")
    with pytest.raises(PackageError, match="holds another package already"):
        write_package(other(proposal), tmp_path / "p")
    assert open_package(tmp_path / "p").digest == first.digest
    assert write_package(other(proposal), tmp_path / "p", replace=True).manifest.name == "other"
    (tmp_path / "p" / "manifest.json").write_text("{}")
    with pytest.raises(PackageError, match="cannot be read: --force"):
        write_package(proposal, tmp_path / "p")


def test_other_folders_are_left_alone(proposal: Proposal, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters.txt").write_text("dear")
    for target in (tmp_path / "home", tmp_path / "home" / "letters.txt"):
        with pytest.raises(PackageError, match=r"choose another|needs a folder"):
            write_package(proposal, target, replace=True)
    assert (tmp_path / "home" / "letters.txt").read_text() == "dear"


def test_a_recipe_to_start_from_is_kept(proposal: Proposal, tmp_path: Path) -> None:
    source = FileSource(kind="file", path="faces.onnx")
    recipe = Recipe(source=source, original_sha256="0" * 64, original_bytes=1)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "recipe.json").write_text("{}")
    write_package(replace(proposal, recipe=recipe), tmp_path / "p")
    assert read_recipe(tmp_path / "p" / "recipe.json") == recipe


def test_a_full_disk_leaves_nothing(
    proposal: Proposal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PackageError, match="No space left on device"):
        write_package(proposal, tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def test_an_import_of_the_same_file_gives_the_same_digest(onnx_models: Path, proposal: Proposal) -> None:
    again = propose(onnx_models / "ultraface_rfb_320x240.onnx", Wishes())
    assert again.manifest.digest() == proposal.manifest.digest()
