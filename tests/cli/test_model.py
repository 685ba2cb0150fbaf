"""`edge-runtime model …` as it is typed: exit codes, one sentence on stderr, JSON on stdout."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.packages import ensure_weights, open_package
from tests.rigs.onnx_files import changed_file, declare

from .conftest import Cli

FACES = "ultraface_rfb_320x240"
REPOSITORY = Path(__file__).resolve().parents[2]


def one_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def test_import_writes_a_package_that_is_fit(cli: Cli, onnx_models: Path, tmp_path: Path) -> None:
    file = onnx_models / f"{FACES}.onnx"
    done = cli("model", "import", file, "--out", tmp_path / "p", "--yes")
    assert done.code == 0
    assert done.err == ""
    assert "guess: licence = NOASSERTION" in done.out
    assert "sure: head.family = ultraface" in done.out
    checked = cli("model", "check", tmp_path / "p", "--json")
    report = json.loads(checked.out)
    assert (checked.code, report["fit"]) == (0, True)
    assert [problem["code"] for problem in report["problems"]] == ["licence"]
    assert report["digest"] == open_package(tmp_path / "p").digest


def test_import_as_json(cli: Cli, onnx_models: Path, tmp_path: Path) -> None:
    file = onnx_models / f"{FACES}.onnx"
    done = cli("model", "import", file, "--out", tmp_path / "p", "--yes", "--json", "--name", "Faces!")
    report = json.loads(done.out)
    assert report["name"] == "faces"
    assert {"field", "value", "confidence", "why"} == set(report["findings"][0])


def test_guesses_need_a_yes_where_nobody_can_be_asked(cli: Cli, onnx_models: Path, tmp_path: Path) -> None:
    done = cli("model", "import", onnx_models / f"{FACES}.onnx", "--out", tmp_path / "p")
    assert done.code == 1
    assert "review the guesses (licence, released, thresholds, labels, input.preprocessing)" in one_line(
        done.err
    )
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 1)])
def test_on_a_terminal_guesses_are_asked_about(  # type: ignore[no-untyped-def]
    cli: Cli, onnx_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer, code
) -> None:
    import typer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    asked: list[str] = []

    def confirm(text: str) -> bool:
        asked.append(text)
        return bool(answer)

    monkeypatch.setattr(typer, "confirm", confirm)
    done = cli("model", "import", onnx_models / f"{FACES}.onnx", "--out", tmp_path / "p")
    assert (done.code, len(asked)) == (code, 1)
    assert "field" in done.out  # the table
    assert (tmp_path / "p").exists() is bool(answer)


def test_a_saved_web_page_is_refused_in_one_sentence(cli: Cli, onnx_models: Path, tmp_path: Path) -> None:
    done = cli(
        "model", "import", onnx_models / "not_a_model_saved_web_page.onnx", "--out", tmp_path / "p", "-y"
    )
    assert done.code == 1
    assert "saved web page" in one_line(done.err)
    assert done.out == ""
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--family", "yolov99"], 1, "no head family yolov99"),
        (["--family", "yolov8"], 1, "do not fit the family yolov8"),
        (["--licence", "free for all"], 1, "not an SPDX"),
        (["--released", "yesterday"], 1, "not a day"),
        (["--size", "640"], 2, "like 640x480"),
        (["--size", "0x5"], 2, "like 640x480"),
        (["--size", "640x480"], 1, "it runs at 320x240"),
        (["--labels", "nowhere.txt"], 1, "label file cannot be read"),
    ],
)
def test_wishes_that_cannot_be_met(  # type: ignore[no-untyped-def]
    cli: Cli, onnx_models: Path, tmp_path: Path, options, code, sentence
) -> None:
    done = cli("model", "import", onnx_models / f"{FACES}.onnx", "--out", tmp_path / "p", "--yes", *options)
    assert done.code == code
    assert sentence in one_line(done.err)


def test_labels_come_from_a_file(cli: Cli, onnx_models: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("visage\n")
    file = onnx_models / f"{FACES}.onnx"
    done = cli("model", "import", file, "--out", tmp_path / "p", "--labels", tmp_path / "names.txt", "--yes")
    assert done.code == 0
    assert open_package(tmp_path / "p").manifest.labels == ("visage",)


def test_a_raw_file_that_lies_about_its_size_is_named_by_check(
    cli: Cli, onnx_models: Path, tmp_path: Path
) -> None:
    path = changed_file(
        onnx_models / "fastestdet_coco_352.onnx", tmp_path / "lies.onnx", declare((None, None, 416, 416))
    )
    raw = cli("model", "check", path, "--json")
    assert raw.code == 1
    assert json.loads(raw.out)["problems"][0]["code"] == "declared-size-not-runnable"
    kept = cli("model", "import", path, "--out", tmp_path / "kept", "--no-repair", "--yes")
    assert kept.code == 0
    unfit = cli("model", "check", tmp_path / "kept")
    assert unfit.code == 1
    assert "error: declared-size-not-runnable: the graph cannot run at the declared 416x416" in unfit.out
    assert "lies: unfit" in unfit.out
    assert cli("model", "import", path, "--out", tmp_path / "repaired", "--yes").code == 0
    fit = cli("model", "check", tmp_path / "repaired")
    assert fit.code == 0
    assert "warning: repaired:" in fit.out


@pytest.mark.trial
def test_the_real_yolov10_is_named_and_repaired(cli: Cli, onnx_models: Path, tmp_path: Path) -> None:
    path = onnx_models / "yolov10n_coco_int8_declares320_runs640.onnx"
    raw = cli("model", "check", path, "--json")
    assert raw.code == 1
    first = json.loads(raw.out)["problems"][0]
    assert first["code"] == "declared-size-not-runnable"
    assert "640x640" in first["text"]
    assert cli("model", "import", path, "--out", tmp_path / "p", "--yes").code == 0
    assert cli("model", "check", tmp_path / "p").code == 0


def test_the_damaged_detector_is_unfit(cli: Cli, package_of: Callable[[str], Path]) -> None:
    done = cli("model", "check", package_of("deimv2_atto_coco_int8_320_damaged"), "--json")
    assert done.code == 1
    assert json.loads(done.out)["problems"][0]["code"] == "does-not-see"


def test_check_reports_what_cannot_be_opened(
    cli: Cli, onnx_models: Path, package_of: Callable[[str], Path], tmp_path: Path
) -> None:
    def code_of(path: Path) -> Any:
        done = cli("model", "check", path, "--json")
        assert done.code == 1
        report = json.loads(done.out)
        assert report["fit"] is False
        return report["problems"][0]["code"]

    assert code_of(tmp_path / "nowhere") == "not-a-package"
    assert code_of(onnx_models / "not_a_model_saved_web_page.onnx") == "not-a-package"
    damaged = tmp_path / "damaged"
    shutil.copytree(package_of(FACES), damaged)
    weights = damaged / open_package(damaged).manifest.weights.file
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    assert code_of(damaged) == "file-differs"
    weights.unlink()
    assert code_of(damaged) == "weights-absent"
    (damaged / "manifest.json").write_text("{}")
    assert code_of(damaged) == "manifest-invalid"


def test_a_packed_package_is_checked_and_inspected(
    cli: Cli, package_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGE_RUNTIME_CACHE", str(tmp_path / "cache"))
    packed = cli("model", "pack", package_of(FACES), "--out", tmp_path / "faces.tar")
    assert packed.code == 0
    assert "sha256" in packed.out
    assert cli("model", "check", tmp_path / "faces.tar").code == 0
    inspected = json.loads(cli("model", "inspect", tmp_path / "faces.tar", "--json").out)
    assert inspected["head"]["family"] == "ultraface"
    assert inspected["digest"].startswith("sha256:")


def test_inspect_shows_files_and_packages(
    cli: Cli, onnx_models: Path, package_of: Callable[[str], Path]
) -> None:
    file = cli("model", "inspect", onnx_models / f"{FACES}.onnx", "--json")
    facts = json.loads(file.out)
    assert facts["inputs"] == ["input 1x3x240x320 float32"]
    assert facts["opset"] == 9
    shown = cli("model", "inspect", package_of(FACES))
    assert shown.code == 0
    assert "ultraface" in shown.out
    assert cli("model", "inspect", onnx_models / "coco80.txt").code == 1


def test_fetch_takes_a_copy_and_import_starts_from_a_recipe(
    cli: Cli, onnx_models: Path, tmp_path: Path
) -> None:
    from edge_runtime.durable import sha256_file

    file = onnx_models / f"{FACES}.onnx"
    recipe = {
        "source": {"kind": "file", "path": file.name, "roots": ["$FACES_FOLDER", str(file.parent)]},
        "original_sha256": sha256_file(file),
        "original_bytes": file.stat().st_size,
    }
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "recipe.json").write_text(json.dumps(recipe))
    done = cli("model", "import", tmp_path / "p" / "recipe.json", "--out", tmp_path / "p", "--yes")
    assert done.code == 0
    weights = tmp_path / "p" / f"{FACES}.onnx"
    weights.unlink()
    fetched = cli("model", "fetch", tmp_path / "p", "--from", file)
    assert fetched.code == 0
    assert weights.is_file()
    weights.unlink()
    assert cli("model", "fetch", tmp_path / "p" / "recipe.json").code == 0
    weights.unlink()
    (tmp_path / "wrong").write_bytes(b"wrong")
    refused = cli("model", "fetch", tmp_path / "p", "--from", tmp_path / "wrong")
    assert refused.code == 1
    assert "not the file that the recipe names" in one_line(refused.err)


@pytest.mark.parametrize("folder", ["models/centerface", "tests/bench/packages/yolox_nano_416"])
def test_committed_packages_are_whole(folder: str) -> None:
    from edge_runtime.durable import sha256_file
    from edge_runtime.packages import read_manifest
    from edge_runtime.packages.package import golden_files, inside
    from edge_runtime.packages.recipe import read_recipe

    directory = REPOSITORY / folder
    manifest = read_manifest(directory)
    for name, digest in golden_files(manifest):
        assert sha256_file(inside(directory, name)) == digest
    recipe = read_recipe(directory / "recipe.json")
    assert recipe.original_sha256 == (manifest.weights.original_sha256 or manifest.weights.sha256)
    assert (directory / "CARD.md").is_file()


def test_the_centerface_package_is_fit(cli: Cli) -> None:
    # Its weights are there after `make assets`, which `make test` runs first; without them they are fetched.
    ensure_weights(REPOSITORY / "models" / "centerface")
    done = cli("model", "check", REPOSITORY / "models" / "centerface", "--json")
    report = json.loads(done.out)
    assert (done.code, report["fit"]) == (0, True), report
    assert [problem["code"] for problem in report["problems"]] == ["repaired"]
