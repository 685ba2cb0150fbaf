"""A package opens only when every file that its manifest names is the one it names."""

import json
from pathlib import Path

import pytest

from edge_runtime.errors import PackageError
from edge_runtime.packages import (
    FileDiffers,
    ManifestInvalid,
    WeightsAbsent,
    open_package,
    pack_package,
    require_licence,
)
from edge_runtime.packages.manifest import ModelManifest

from .conftest import MakePackage, manifest_json


def manifest_of(directory: Path) -> ModelManifest:
    return open_package(directory).manifest


def test_an_intact_folder_opens(make_package: MakePackage) -> None:
    directory = make_package()
    package = open_package(directory)
    assert package.weights == directory / "tiny.onnx"
    assert package.digest == package.manifest.digest()
    assert package.file("golden/a.inputs.npz").read_bytes() == b"inputs"


def test_the_digest_does_not_depend_on_how_the_manifest_is_laid_out(make_package: MakePackage) -> None:
    directory = make_package()
    before = open_package(directory).digest
    path = directory / "manifest.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(list(data.items()))), indent=8))
    assert open_package(directory).digest == before


@pytest.mark.parametrize("file", ["tiny.onnx", "golden/a.inputs.npz", "golden/a.outputs.npz"])
def test_a_changed_file_is_refused_by_name(make_package: MakePackage, file: str) -> None:
    directory = make_package()
    (directory / file).write_bytes(b"other bytes")
    with pytest.raises(FileDiffers, match=file):
        open_package(directory)


def test_a_missing_golden_file_is_refused(make_package: MakePackage) -> None:
    directory = make_package()
    (directory / "golden/a.outputs.npz").unlink()
    with pytest.raises(FileDiffers, match="cannot be read"):
        open_package(directory)


def test_absent_weights_say_how_to_obtain_them(make_package: MakePackage) -> None:
    directory = make_package()
    (directory / "tiny.onnx").unlink()
    with pytest.raises(WeightsAbsent, match="names this weights file, but it is absent"):
        open_package(directory)
    (directory / "recipe.json").write_text("{}")
    with pytest.raises(WeightsAbsent, match="edge-runtime model fetch"):
        open_package(directory)


def test_what_is_no_package_says_so(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no such folder or archive"):
        open_package(tmp_path / "nowhere")
    with pytest.raises(PackageError, match="edge-runtime model import"):
        open_package(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b" " * (1 << 21))
    with pytest.raises(PackageError, match="larger than a manifest"):
        open_package(tmp_path)


def test_an_unreadable_manifest_is_a_sentence(make_package: MakePackage) -> None:
    directory = make_package()
    (directory / "manifest.json").unlink()
    (directory / "manifest.json").symlink_to(directory / "manifest.json")
    with pytest.raises(PackageError, match="manifest"):
        open_package(directory)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": "latest"}, "version"),
        ({"version": "sha256:" + "0" * 64}, "name the exact checkpoint"),
        ({"released": "2026-02-31"}, "out of range|day is|range for month"),
        ({"labels": []}, "labels"),
        ({"tokenizer": "bpe"}, "tokenizer"),
        ({"colour": "red"}, "colour"),
        ({"task": "classify"}, "task"),
        ({"head": {"family": "yolov99", "outputs": ["y"]}}, "head.family"),
    ],
)
def test_a_wrong_field_is_named(make_package: MakePackage, changes: dict[str, object], sentence: str) -> None:
    directory = make_package(**changes)
    with pytest.raises(ManifestInvalid, match=sentence) as caught:
        open_package(directory)
    assert "\n" not in str(caught.value)


REQUIRED = [name for name, field in ModelManifest.model_fields.items() if field.is_required()]


@pytest.mark.parametrize("field", REQUIRED)
def test_no_required_field_may_be_missing(field: str) -> None:
    data = manifest_json(b"weights", {"golden/a": b"a", "golden/b": b"b"})
    del data[field]
    with pytest.raises(ValueError, match=field):
        ModelManifest.model_validate_json(json.dumps(data))


def test_the_ten_fields_of_a_deployment_manifest_are_required() -> None:
    # R000-33: model and version, weight source, licence, tokenizer, chat template, quantisation, runtime, tool
    # parser, allowed data classes, evaluation results.
    ten = {
        "version",
        "weights",
        "licence",
        "tokenizer",
        "chat_template",
        "quantisation",
        "runtime",
        "tool_parser",
        "data_classes",
        "evaluation",
    }
    assert ten | {"input", "labels", "thresholds", "head"} <= set(REQUIRED)


def test_a_file_name_may_not_lead_out_of_the_package(make_package: MakePackage) -> None:
    weights = manifest_json(b"x", {"golden/a": b"a", "golden/b": b"b"})["weights"]
    directory = make_package(weights=b"x")
    data = json.loads((directory / "manifest.json").read_text())
    data["weights"] = {**weights, "file": "golden/../../other.onnx"}
    (directory / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(PackageError, match="leads out of the package"):
        open_package(directory)


def test_a_packed_package_opens_and_is_the_same(make_package: MakePackage, tmp_path: Path) -> None:
    directory = make_package()
    (directory / "CARD.md").write_text("# tiny")
    (directory / "notes.txt").write_text("not part of a package")
    package = open_package(directory)
    first = pack_package(package, tmp_path / "a.tar")
    second = pack_package(package, tmp_path / "b.tar")
    assert first == second
    opened = open_package(tmp_path / "a.tar", cache=tmp_path / "cache")
    assert opened.digest == package.digest
    assert (opened.directory / "CARD.md").read_text() == "# tiny"
    assert not (opened.directory / "notes.txt").exists()


def test_only_permissive_or_accepted_licences_run(make_package: MakePackage) -> None:
    require_licence(manifest_of(make_package("mit")))
    agpl = manifest_of(make_package("agpl", licence={"spdx": "AGPL-3.0", "evidence": "metadata"}))
    with pytest.raises(PackageError, match=r"accept_licences: \[AGPL-3.0\]"):
        require_licence(agpl)
    require_licence(agpl, ["AGPL-3.0"])
    nobody = manifest_of(make_package("nobody", licence={"spdx": "NOASSERTION", "evidence": "nothing"}))
    with pytest.raises(PackageError, match="licence is not known"):
        require_licence(nobody, ["AGPL-3.0"])
