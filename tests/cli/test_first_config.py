import io
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import pytest

from edge_runtime.config import load_config
from edge_runtime.config.rules import OccupancyRule
from edge_runtime.protocol import DataClass
from tests.rigs.packages import write_package

Cli = Callable[..., Any]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_package(tmp_path / "models" / "tiny", labels=("bottle", "person"))
    return tmp_path


def _answers(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def _size(path: str) -> tuple[int, int]:
    image = cv2.imread(path)
    assert image is not None
    return image.shape[1], image.shape[0]


def test_a_file_as_the_camera(place: Path, media: Path, cli: Cli) -> None:
    outcome = cli("config", "init", "--camera", media / "vtest.avi", "--label", "public", "--yes")
    assert outcome.code == 0, outcome.err
    assert "768x576, 10 fps" in outcome.out
    assert "site.yaml: written and valid" in outcome.out
    loaded = load_config("site.yaml")
    camera = loaded.config.cameras["vtest"]
    assert camera.data_class is DataClass.PUBLIC
    assert loaded.resolve(camera.source.path) == media / "vtest.avi"  # type: ignore[union-attr]
    assert loaded.resolve(loaded.config.models["tiny-v1"].package) == place / "models" / "tiny"
    (rule,) = camera.rules
    assert isinstance(rule, OccupancyRule)
    assert (rule.name, rule.labels) == ("person-present", ("person",))
    assert _size("vtest.jpg") == (768, 576)
    assert "768x576, 10 fps" in Path("site.yaml").read_text()
    assert loaded.warnings == ()


def test_a_turned_clip_is_saved_upright(place: Path, media: Path, cli: Cli) -> None:
    clip = media / "odd" / "rotated_by_metadata_90.mp4"
    flags = [
        "--name",
        "hall",
        "--object",
        "bottle",
        "--out",
        "hall.yaml",
        "--still",
        "seen.png",
        "--model",
        "models/tiny",
    ]
    outcome = cli("config", "init", "--camera", clip, "--label", "internal", "--yes", *flags)
    assert outcome.code == 0, outcome.err
    width, height = _size("seen.png")
    assert height > width
    assert f"{width}x{height}" in outcome.out
    (rule,) = load_config("hall.yaml").config.cameras["hall"].rules
    assert rule.labels == ("bottle",)


def test_answers_of_a_person_who_errs(
    place: Path, media: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers(
        monkeypatch,
        "",
        "nothing.mp4",
        str(media / "vtest.avi"),
        "nowhere",
        "",
        "people",
        "confidential",
        "dog",
        "bottle",
    )
    outcome = cli("config", "init", "--no-probe")
    assert outcome.code == 0, outcome.err
    assert "the camera is empty" in outcome.err
    assert "nothing.mp4 is no camera" in outcome.err
    assert "nowhere is no model package" in outcome.err
    assert "'people' is no label for what a camera sees" in outcome.err
    assert "restricted: people can be recognised" in outcome.err
    assert "the model does not know 'dog'" in outcome.err
    written = load_config("site.yaml").config.cameras["vtest"]
    assert written.data_class is DataClass.CONFIDENTIAL
    assert written.rules[0].labels == ("bottle",)
    assert not Path("vtest.jpg").exists()


def test_credentials_go_to_a_file_of_their_own(place: Path, cli: Cli) -> None:
    url = "rtsp://admin:hunter2000@dock.lan/live"
    outcome = cli("config", "init", "--camera", url, "--label", "internal", "--yes", "--no-probe")
    assert outcome.code == 0, outcome.err
    secret = Path("dock-lan.url.secret")
    assert secret.read_text() == url + "\n"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    text = Path("site.yaml").read_text()
    assert "hunter2000" not in text + outcome.out + outcome.err
    assert "admin" not in text
    loaded = load_config("site.yaml")
    assert loaded.config.cameras["dock-lan"].source.url == url  # type: ignore[union-attr]
    assert loaded.warnings == ()


def test_a_camera_that_does_not_answer_writes_nothing(place: Path, cli: Cli) -> None:
    url = "rtsp://admin:hunter2000@127.0.0.1:9/live"
    outcome = cli("config", "init", "--camera", url, "--label", "internal", "--yes", "--timeout", "1")
    assert outcome.code == 1
    assert "no picture within 1 s" in outcome.err
    assert "hunter2000" not in outcome.err
    assert sorted(path.name for path in place.iterdir()) == ["models"]


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["--label", "public"], 2, "--camera is missing, and with --yes nobody is asked"),
        (["--camera", "synthetic"], 2, "--label is missing, and with --yes nobody is asked"),
        (["--camera", "nope.mp4", "--label", "public"], 2, "nope.mp4 is no camera"),
        (["--camera", "synthetic", "--label", "person"], 2, "'person' is no label for what a camera sees"),
        (
            ["--camera", "synthetic", "--label", "public", "--object", "cat"],
            2,
            "the model does not know 'cat'",
        ),
        (["--camera", "synthetic", "--label", "public", "--name", "a b"], 2, "'a b' is not a usable name"),
        (["--camera", "synthetic", "--label", "public", "--model", "x"], 1, "x is no model package"),
        (["--camera", "synthetic", "--label", "public", "--out", "no/x.yaml"], 2, "there is no folder"),
        (
            ["--camera", "synthetic", "--label", "public", "--still", "x.txt"],
            2,
            "OpenCV writes no .txt files",
        ),
        (["--camera", "synthetic", "--label", "public", "--still", "no/x.png"], 2, "cannot be written"),
    ],
)
def test_answers_that_cannot_be_used(
    flags: list[str], code: int, sentence: str, place: Path, cli: Cli
) -> None:
    outcome = cli("config", "init", "--yes", *flags)
    assert outcome.code == code
    assert sentence in outcome.err
    assert not Path("site.yaml").exists()


def test_nothing_is_overwritten_without_force(place: Path, cli: Cli) -> None:
    flags = ["--camera", "synthetic", "--label", "public", "--yes"]
    Path("site.yaml").write_text("mine")
    outcome = cli("config", "init", *flags)
    assert (outcome.code, outcome.err) == (
        2,
        "error: site.yaml exists; give another name, or --force to overwrite it\n",
    )
    assert Path("site.yaml").read_text() == "mine"
    Path("synthetic.jpg").write_text("mine")
    outcome = cli("config", "init", *flags, "--out", "new.yaml")
    assert outcome.code == 2
    assert "synthetic.jpg exists" in outcome.err
    assert cli("config", "init", *flags, "--force").code == 0
    assert "synthetic" in load_config("site.yaml").config.cameras


def test_a_drawn_scene_is_a_live_camera(place: Path, cli: Cli) -> None:
    outcome = cli("config", "init", "--camera", "synthetic", "--label", "public", "--yes")
    assert outcome.code == 0, outcome.err
    assert "640x480" in outcome.out
    checked = cli("config", "check", "--json", "site.yaml")
    assert json.loads(checked.out)["valid"] is True


def test_with_several_packages_one_must_be_named(place: Path, cli: Cli) -> None:
    write_package(place / "models" / "second")
    outcome = cli("config", "init", "--camera", "synthetic", "--label", "public", "--yes", "--no-probe")
    assert outcome.code == 2
    assert "--model is missing" in outcome.err


def test_the_end_of_the_input_is_a_missing_answer(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers(monkeypatch)
    outcome = cli("config", "init")
    assert outcome.code == 2
    assert "give --camera" in outcome.err


def test_a_licence_is_accepted_by_a_person_or_nothing_is_written(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(place / "models" / "guarded", spdx="AGPL-3.0")
    flags = [
        "--camera",
        "synthetic",
        "--model",
        "models/guarded",
        "--label",
        "public",
        "--object",
        "car",
        "--no-probe",
    ]
    flags += ["--object", "car"]
    for answers in ([], ["n"]):
        _answers(monkeypatch, *answers)
        outcome = cli("config", "init", *flags)
        assert outcome.code == 2
        assert "the licence of tiny.v1 was not accepted" in outcome.err
        assert not Path("site.yaml").exists()
    _answers(monkeypatch, "y")
    assert cli("config", "init", *flags).code == 0
    assert load_config("site.yaml").config.models["tiny-v1"].accept_licences == ("AGPL-3.0",)
    outcome = cli("config", "init", *flags, "--yes", "--force")
    assert outcome.code == 0
    assert "warning: accepted by --yes: AGPL-3.0" in outcome.err
    assert "licence" not in cli("preflight", "site.yaml").err
