import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.packages import write_package

Cli = Callable[..., Any]

VALID = """\
version: 1
models:
  yolox: {package: models/yolox}
cameras:
  dock:
    source: {kind: rtsp, url: rtsp://10.0.0.1/live}
    model: yolox
    data_class: internal
    rules:
      - name: enters
        kind: zone
        on: [enter]
        polygon: [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_package(tmp_path / "models" / "yolox")
    path = Path("site.yaml")
    path.write_text(VALID)
    return path


def test_a_valid_file(site: Path, cli: Cli) -> None:
    outcome = cli("config", "check", site)
    assert outcome.code == 0
    assert outcome.out.startswith("site.yaml: valid; cameras: 1, models: 1, rules: 1; sha256:")
    assert outcome.err == ""


def test_warnings_do_not_make_a_file_invalid(site: Path, cli: Cli) -> None:
    site.write_text(VALID.replace("    data_class: internal\n", ""))
    outcome = cli("config", "check", site)
    assert outcome.code == 0
    assert outcome.err == (
        "warning: site.yaml:5: cameras.dock: has no data_class: everything that it sees is unknown, "
        "which is handled as restricted and held\n"
    )


def test_the_problem_of_the_issue_stands_alone_on_its_line(site: Path, cli: Cli) -> None:
    site.write_text(VALID.replace(", [0.9, 0.9]]", "]"))
    outcome = cli("config", "check", site)
    assert outcome.code == 2
    assert outcome.err == "site.yaml:13: cameras.dock.rules[0].polygon: needs at least 3 points\n"
    assert outcome.out == ""


def test_every_problem_has_its_line(site: Path, cli: Cli) -> None:
    site.write_text(VALID.replace("version: 1", "version: 3").replace("kind: zone", "kind: zoone"))
    outcome = cli("config", "check", site)
    assert outcome.code == 2
    assert [line.split(": ")[:2] for line in outcome.err.splitlines()] == [
        ["site.yaml:1", "version"],
        ["site.yaml:11", "cameras.dock.rules[0].kind"],
    ]


def test_json_for_programs(site: Path, cli: Cli) -> None:
    outcome = cli("config", "check", "--json", site)
    assert outcome.code == 0
    answer = json.loads(outcome.out)
    assert answer["valid"] is True
    assert answer["digest"].startswith("sha256:")
    site.write_text(VALID.replace("version: 1", "version: 3"))
    outcome = cli("config", "check", "--json", site)
    assert outcome.code == 2
    assert json.loads(outcome.out) == {
        "valid": False,
        "problems": [{"path": "version", "line": 1, "text": "must be 1, not 3"}],
        "warnings": [],
        "digest": None,
    }
    assert outcome.err == ""


def test_no_secret_reaches_the_terminal(site: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAMERA_URL", "rtp://admin:hunter2000@10.0.0.1/live")
    site.write_text(
        VALID.replace("rtsp://10.0.0.1/live", "'${env:CAMERA_URL}'").replace(
            "model: yolox", "model: hunter2000"
        )
    )
    for arguments in (["config", "check", site], ["config", "check", "--json", site]):
        outcome = cli(*arguments)
        assert outcome.code == 2
        assert "cameras.dock.source.url" in outcome.out + outcome.err
    monkeypatch.setenv("CAMERA_URL", "hunter2000")
    outcome = cli("config", "check", site)
    assert "hunter2000" not in outcome.err.replace("there is no model named hunter2000", "")


def test_files_that_are_none(tmp_path: Path, cli: Cli) -> None:
    outcome = cli("config", "check", tmp_path / "none.yaml")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert cli("config", "check", tmp_path).code == 2


def test_the_schema_is_json(cli: Cli) -> None:
    outcome = cli("config", "schema")
    assert outcome.code == 0
    assert json.loads(outcome.out)["required"] == ["models", "cameras"]


def test_labels_are_held_against_a_manifest_that_can_be_read(site: Path, cli: Cli) -> None:
    site.write_text(VALID.replace("kind: zone", "kind: zone\n        labels: [person, preson]"))
    outcome = cli("config", "check", site)
    assert outcome.code == 2
    assert outcome.err == (
        "site.yaml:12: cameras.dock.rules[0].labels[1]: "
        "the model yolox does not know preson; did you mean person?\n"
    )
    Path("models/yolox/model.onnx").unlink()  # weights may still have to be fetched
    assert cli("config", "check", site).code == 2


def test_a_class_of_data_that_the_model_may_not_see(site: Path, cli: Cli) -> None:
    site.write_text(VALID.replace("data_class: internal", "data_class: confidential"))
    outcome = cli("config", "check", "--json", site)
    assert outcome.code == 2
    (problem,) = json.loads(outcome.out)["problems"]
    assert problem["path"] == "cameras.dock.data_class"


def test_a_package_that_is_not_there_is_a_warning(site: Path, cli: Cli) -> None:
    site.write_text(VALID.replace("models/yolox", "models/none"))
    outcome = cli("config", "check", site)
    assert outcome.code == 0
    assert outcome.err.startswith("warning: site.yaml:3: models.yolox.package: ")
