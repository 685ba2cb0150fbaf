"""`edge-runtime model quantize` as it is typed: both numbers, exit codes, and nothing written that is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import pytest

from edge_runtime.cli.main import run
from edge_runtime.packages import open_package


@pytest.fixture(scope="module")
def eight(truth: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight images of the real set with their ground truth, laid out as the set itself is."""
    source, folder = truth / "coco_val128", tmp_path_factory.mktemp("sets") / "val8"
    data = json.loads((source / "instances.json").read_text())
    data["images"] = data["images"][:8]
    numbers = {image["id"] for image in data["images"]}
    data["annotations"] = [box for box in data["annotations"] if box["image_id"] in numbers]
    (folder / "images").mkdir(parents=True)
    for image in data["images"]:
        shutil.copy(source / "images" / image["file_name"], folder / "images")
    (folder / "instances.json").write_text(json.dumps(data))
    return folder


def line(package: Path, eight: Path, out: Path, *more: str) -> list[str]:
    """A command line that four pictures of the set calibrate and the other four are measured by."""
    pictures = ["--calibration", str(eight / "images"), "--images", "4"]
    measured = ["--evaluate-on", str(eight / "instances.json"), "--max-drop", "8"]
    return [
        "model",
        "quantize",
        str(package),
        *pictures,
        *measured,
        "-o",
        str(out),
        "--method",
        "minmax",
        *more,
    ]


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    out, err = capsys.readouterr()
    result: dict[str, Any] = json.loads(out)
    return result, err


def test_json(yolox_package: Path, eight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(line(yolox_package, eight, tmp_path / "p", "--json")) == 0
    result, err = printed(capsys)
    assert err == ""
    assert (result["fit"], result["images"], result["dataset"]) == (True, 4, "val8")
    assert result["calibration"]["images"] == 4
    assert result["parent"]["digest"] == open_package(yolox_package).digest
    last = result["candidates"][-1]
    assert last["drop"] == pytest.approx((result["parent"]["map"] - last["map"]) * 100, abs=0.02)
    assert last["drop"] <= result["max_drop"] == 8
    assert last["refused"] is None
    assert last["bytes"] < 0.4 * result["parent"]["bytes"]
    assert "Conv_44" in last["left"]
    written = open_package(tmp_path / "p")
    assert (result["package"], result["digest"]) == (str(tmp_path / "p"), written.digest)
    assert written.manifest.derivation is not None
    assert written.manifest.derivation.calibration.sha256 == result["calibration"]["sha256"]


def test_refused_is_not_written(
    yolox_package: Path, eight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    black = tmp_path / "black"
    black.mkdir()
    for path in sorted((eight / "images").iterdir())[:2]:
        picture = cv2.imread(str(path))
        assert picture is not None
        cv2.imwrite(str(black / f"{path.stem}.png"), picture * 0)
    bad = ["--calibration", str(black), "--images", "2", "--max-drop", "2"]
    capsys.readouterr()
    assert run(line(yolox_package, eight, tmp_path / "p", *bad, "--json")) == 1
    result, err = printed(capsys)
    assert (result["fit"], result["package"], result["digest"]) == (False, None, None)
    assert all(candidate["refused"] for candidate in result["candidates"])
    assert result["parent"]["map"] > max(candidate["map"] for candidate in result["candidates"]) + 0.02
    assert err.startswith(
        "error: yolox_nano_coco_416 in int8 is refused, and nothing is written: mAP falls by "
    )
    assert err.count("\n") == 1
    assert not (tmp_path / "p").exists()


def test_text_for_people_and_16_bits(
    yolox_package: Path, eight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(line(yolox_package, eight, tmp_path / "p", "--precision", "fp16", "--name", "half")) == 0
    out, err = capsys.readouterr()
    first, second, third = out.splitlines()
    assert err == ""
    assert first.startswith("parent: mAP 0.")
    assert first.endswith("over 4 images, 3678356 bytes")
    assert second.startswith("candidate 1: mAP 0.")
    assert second.endswith("accepted")
    assert third == f"{tmp_path / 'p'}: half {open_package(tmp_path / 'p').digest}"


def test_another_package_stays_unless_it_is_forced(
    yolox_package: Path, eight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(yolox_package, tmp_path / "p")
    capsys.readouterr()
    assert run(line(yolox_package, eight, tmp_path / "p")) == 1
    assert capsys.readouterr().err.endswith("holds a package already: choose another --out, or --force\n")
    assert open_package(tmp_path / "p").digest == open_package(yolox_package).digest
    forced = line(yolox_package, eight, tmp_path / "p", "--precision", "fp16", "--force")
    assert run(forced) == 0
    assert open_package(tmp_path / "p").manifest.quantisation == "fp16"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("--calibration", "/nowhere"), 2, "neither a folder of pictures nor a COCO file"),
        (("--images", "9"), 2, "holds 8 pictures, fewer than the 9"),
        (("--images", "8"), 2, "every annotated picture of --evaluate-on is one that was calibrated with"),
        (("--evaluate-on", "/nowhere.json"), 2, "cannot be read"),
        (("--evaluate-images", "/nowhere"), 2, "there is no such folder of images"),
        (("--classes", "unicorn"), 2, "no category 'unicorn'"),
        (("--leave", "unicorn"), 2, "--leave unicorn: the graph has no such layer; it has "),
        (("--precision", "int4"), 2, "Invalid value for '--precision'"),
        (("--max-drop", "99"), 1, "could not be told from ruin"),
    ],
)
def test_what_cannot_be_used(
    yolox_package: Path,
    eight: Path,
    tmp_path: Path,
    change: tuple[str, str],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    assert run(line(yolox_package, eight, tmp_path / "p", *change)) == code
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "p").exists()


def test_the_ruined_int8_of_the_field_is_caught_by_its_floor(
    onnx_models: Path, eight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no parent: imported, it declares a floor that it does not meet."""
    damaged = onnx_models / "deimv2_atto_coco_int8_320_damaged.onnx"
    assert run(["model", "import", str(damaged), "--out", str(tmp_path / "bad"), "--yes"]) == 0
    assert "`edge-runtime model check` will call it unfit" in capsys.readouterr().err
    manifest = open_package(tmp_path / "bad").manifest
    assert manifest.derivation is None
    assert manifest.accuracy_floor is not None
    assert run(["model", "check", str(tmp_path / "bad")]) == 1
    measured = ["--images", str(eight / "images"), "--annotations", str(eight / "instances.json")]
    capsys.readouterr()
    assert run(["eval", str(tmp_path / "bad"), *measured]) == 1
    assert "is below the floor of 0.1" in capsys.readouterr().err
    assert run(line(tmp_path / "bad", eight, tmp_path / "p")) == 1
    assert "is int8-dynamic already" in capsys.readouterr().err
