"""`edge-runtime eval` as its user meets it."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.cli.main import run
from edge_runtime.packages import open_package
from edge_runtime.packages.archive import pack
from edge_runtime.packages.manifest import HeadSpec, InputSpec
from tests.rigs.detectors import REAL_MODELS, RealModel
from tests.rigs.graphs import constant_graph


@pytest.fixture
def package(onnx_models: Path, tmp_path: Path) -> Path:
    return REAL_MODELS["yolox_nano"].write(onnx_models, tmp_path / "package")


@pytest.fixture
def four(truth: Path, tmp_path: Path) -> list[str]:
    """Options for the first four images of the real set."""
    source = truth / "coco_val128"
    data = json.loads((source / "instances.json").read_text())
    data["images"] = data["images"][:4]
    numbers = {image["id"] for image in data["images"]}
    data["annotations"] = [box for box in data["annotations"] if box["image_id"] in numbers]
    folder = tmp_path / "val4"
    folder.mkdir()
    for image in data["images"]:
        shutil.copy(source / "images" / image["file_name"], folder)
    (folder / "truth.json").write_text(json.dumps(data))
    return ["--images", str(folder), "--annotations", str(folder / "truth.json")]


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    captured = capsys.readouterr()
    assert captured.err == ""
    result: dict[str, Any] = json.loads(captured.out)
    return result


def test_json(package: Path, four: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(package), *four, "--json"]) == 0
    result = figures(capsys)
    assert result["images"] == 4
    assert 0 < result["map"] < result["ap50"] <= 1
    assert result["unreadable"] == []
    assert (result["floor"], result["fit"]) == (None, True)
    assert set(result["per_class"]) > {"person", "tv"}


def test_text_and_classes(package: Path, four: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(package), *four, "--classes", "person,tv", "--classes", "chair"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("mAP 0.")
    assert out.endswith("over 4 images and 3 classes\n")


def test_below_the_floor(package: Path, four: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(package), *four, "--json", "--floor", "0.99"]) == 1
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["fit"] is False
    assert result["floor"] == {"metric": "map", "minimum": 0.99}
    assert err == f"error: yolox-nano-coco-416: map {result['map']:.4f} is below the floor of 0.99\n"


def test_the_packages_own_floor(package: Path, four: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    path = package / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "accuracy_floor": {"metric": "ap50", "minimum": 1.0}}))
    assert run(["eval", str(package), *four]) == 1
    assert "is below the floor of 1" in capsys.readouterr().err
    assert run(["eval", str(package), *four, "--floor", "0.1"]) == 0


def test_record(package: Path, four: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(package), *four, "--record", "--json"]) == 0
    result = figures(capsys)
    first, second = open_package(package).manifest.evaluation
    assert (first.dataset, first.metric, first.value) == ("val4", "map", result["map"])
    assert (second.metric, second.value) == ("ap50", result["ap50"])
    assert run(["eval", str(package), *four, "--record", "--dataset", "site-3"]) == 0
    assert open_package(package).manifest.evaluation[-1].dataset == "site-3"


def test_an_archive_is_measured_but_not_written(
    package: Path,
    four: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    archive = tmp_path / "model.tar"
    pack({path.name: path.resolve() for path in package.iterdir()}, archive)
    assert run(["eval", str(archive), *four]) == 0
    capsys.readouterr()
    assert run(["eval", str(archive), *four, "--record"]) == 2
    assert "--record cannot write into an archive" in capsys.readouterr().err


def test_unreadable_images(package: Path, four: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (Path(four[1]) / "000000000139.jpg").write_bytes(b"")
    assert run(["eval", str(package), *four]) == 1
    assert "000000000139.jpg: not an image that can be decoded" in capsys.readouterr().err
    (Path(four[1]) / "000000000139.jpg").unlink()
    assert run(["eval", str(package), *four]) == 2
    assert "lacks 1 of 4 annotated images" in capsys.readouterr().err
    assert run(["eval", str(package), *four, "--skip-unreadable"]) == 0
    assert "left out as unreadable: 1 image, the first is 000000000139.jpg" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("--images", "/nowhere"), 2, "there is no such folder of images"),
        (("--annotations", "/nowhere.json"), 2, "cannot be read"),
        (("--provider", "tpu"), 2, "there is no provider tpu; choose among tensorrt, cuda, cpu"),
        (("--classes", "unicorn"), 2, "no category 'unicorn'"),
        (("--score", "2"), 2, "Invalid value for '--score'"),
    ],
)
def test_what_cannot_be_used(
    package: Path,
    four: list[str],
    change: tuple[str, str],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", str(package), *four, *change]) == code
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_numbers_that_are_not_finite_are_said(
    four: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], onnx_models: Path
) -> None:
    row = np.array([[[np.nan] * 6, [0, 0, 20, 20, 0.9, 0]]], np.float32)
    (tmp_path / "coco80.txt").write_text((onnx_models / "coco80.txt").read_text())
    path = constant_graph(tmp_path / "broken.onnx", {"output0": row}, [1, 3, 64, 64])
    head = HeadSpec(family="yolo_end2end", outputs=("output0",), nms="inside")
    model = RealModel(path.name, InputSpec(name="images", height=64, width=64), head)
    assert run(["eval", str(model.write(tmp_path, tmp_path / "broken")), *four]) == 0
    assert "candidates with NaN or infinite numbers: 4\n" in capsys.readouterr().out


def test_a_terminal_shows_a_bar_on_stderr_only(package: Path, four: list[str]) -> None:
    reader, terminal = os.openpty()
    arguments = ["-m", "edge_runtime.cli.main", "eval", str(package), *four, "--json"]
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # a closed terminal reads as EIO
            while piece := os.read(reader, 4096):
                shown += piece
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["images"] == 4
    os.close(reader)
    assert process.returncode == 0
    assert b"images" in shown
    assert b"/4" in shown


def test_no_package(four: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(tmp_path / "none"), *four]) == 1
    assert "is no model package" in capsys.readouterr().err
