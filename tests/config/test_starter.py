import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.config import load_config
from edge_runtime.config.base import NAME_PATTERN
from edge_runtime.config.rules import OccupancyRule
from edge_runtime.config.starter import (
    CameraAnswer,
    Starter,
    camera_name,
    choose_object,
    data_class,
    guess_source,
    render,
    slug,
)
from edge_runtime.errors import ConfigError
from edge_runtime.protocol import DataClass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Front Door.mp4").write_bytes(b"")
    (tmp_path / "stills").mkdir()
    (tmp_path / "3").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "key", "value", "name"),
    [
        ("rtsp://10.0.0.7/live", "rtsp", "url", "rtsp://10.0.0.7/live", "camera"),
        (" rtsps://u:p@dock.lan:554/1 ", "rtsp", "url", "rtsps://u:p@dock.lan:554/1", "dock-lan"),
        ("RTSP://dock/1", "rtsp", "url", "RTSP://dock/1", "dock"),
        ("http://yard/mjpeg", "http", "url", "http://yard/mjpeg", "yard"),
        ("https://yard/mjpeg", "http", "url", "https://yard/mjpeg", "yard"),
        ("/dev/video2", "v4l2", "device", "/dev/video2", "video2"),
        ("0", "v4l2", "device", "/dev/video0", "video0"),
        ("3", "file", "path", "3", "video"),
        ("/dev/v4l/by-id/usb-Cam_1", "v4l2", "device", "/dev/v4l/by-id/usb-Cam_1", "usb-cam-1"),
        ("videotestsrc ! videoconvert", "gstreamer", "pipeline", "videotestsrc ! videoconvert", "camera"),
        ("Front Door.mp4", "file", "path", "Front Door.mp4", "front-door"),
        ("file://stills", "images", "path", "stills", "stills"),
        ("synthetic", "synthetic", "", "", "synthetic"),
    ],
)  # fmt: skip
def test_what_a_text_means(text: str, kind: str, key: str, value: str, name: str, folder: Path) -> None:
    assert guess_source(text, folder) == CameraAnswer(kind, key, value, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the camera is empty"),
        ("nothing.mp4", "nothing.mp4 is no camera: there is no such file or folder"),
        ("ftp://u:hunter22@host/x", "ftp:// is no camera's URL here"),
        ("rtsp://u:hunter22@", "the camera's URL names no host"),
        ("rtsp://u:hunter 22@cam", "the camera's URL must not hold spaces"),
        ("u:hunter22@10.0.0.1//x?password=hunter22", "is no camera"),
        ("a\0b", "a\\u0000b is no camera"),
    ],
)
def test_what_is_no_camera(text: str, sentence: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as caught:
        guess_source(text, folder)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("rtsp://10.0.0.7/live", False),
        ("rtsp://u:p@10.0.0.7/live", True),
        ("http://yard/v?token=abc", True),
        ("rtspsrc user-pw=abc ! x", True),
    ],
)
def test_which_answers_must_not_stand_in_a_file(text: str, secret: bool, folder: Path) -> None:
    answer = guess_source(text, folder)
    assert answer.holds_secret == secret
    assert "abc" not in answer.shown
    assert ":p@" not in answer.shown


@given(st.text(max_size=200))
def test_a_slug_is_a_usable_name(text: str) -> None:
    assert re.fullmatch(NAME_PATTERN, slug(text, "camera"))


@pytest.mark.parametrize("text", ["", "a b", "-a", "x" * 65, "a/b", "ü"])
def test_unusable_names(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a usable name"):
        camera_name(text)


def test_labels_for_what_a_camera_sees() -> None:
    assert data_class(" Internal ") is DataClass.INTERNAL
    for text in ("unknown", "person", ""):
        with pytest.raises(ConfigError, match="public, internal, confidential, restricted"):
            data_class(text)


def test_what_the_first_rule_looks_for() -> None:
    assert choose_object(("bicycle", "person")) == "person"
    assert choose_object(("face",)) == "face"
    assert choose_object(("bottle", "cup")) == "bottle"
    assert choose_object(("bottle", "cup"), "cup") == "cup"
    with pytest.raises(ConfigError, match="the model does not know 'dog'; it knows bottle, cup"):
        choose_object(("bottle", "cup"), "dog")


def _starter(
    value: str, target: str, *, secret_file: str | None = None, package: str = "models/m"
) -> Starter:
    return Starter(
        camera=CameraAnswer("file", "path", value, "dock"),
        name="dock",
        secret_file=secret_file,
        model="m",
        package=package,
        label=DataClass.INTERNAL,
        target=target,
        seen="768x576, 10 fps, mpeg4",
        still="dock.jpg",
    )


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


@given(value=_TEXT, target=_TEXT, package=_TEXT)
def test_whatever_the_answers_the_file_says_just_that(
    value: str, target: str, package: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "starter.yaml"
    path.write_text(render(_starter(value, target, package=package)), encoding="utf-8")
    config = load_config(path).config
    camera = config.cameras["dock"]
    assert camera.source.path == value  # type: ignore[union-attr]
    assert config.models["m"].package == package
    (rule,) = camera.rules
    assert isinstance(rule, OccupancyRule)
    assert rule.labels == (target,)
    assert camera.data_class is DataClass.INTERNAL


def test_the_profile_that_the_comments_suggest_is_valid(tmp_path: Path) -> None:
    text = render(_starter("clip.mp4", "person"))
    path = tmp_path / "site.yaml"
    uncommented = re.sub(r"^  # (profile:|  [a-z_]+: .*)$", r"  \1", text, flags=re.MULTILINE)
    uncommented = uncommented.replace("        # polygon:", "        polygon:")
    path.write_text(uncommented)
    config = load_config(path).config
    assert config.device.profile is not None
    assert config.device.profile.link == "intermittent"
    assert len(config.cameras["dock"].rules[0].polygon) == 4  # type: ignore[union-attr, arg-type]


def test_a_secret_stands_as_a_reference(tmp_path: Path) -> None:
    (tmp_path / "dock.secret").write_text("rtsp://u:hunter22@cam/1\n")
    (tmp_path / "dock.secret").chmod(0o600)
    starter = _starter("", "person", secret_file="dock.secret")
    starter = Starter(
        **{
            **{name: getattr(starter, name) for name in starter.__slots__},
            "camera": CameraAnswer("rtsp", "url", "rtsp://u:hunter22@cam/1", "dock"),
        }
    )
    text = render(starter)
    assert "hunter22" not in text
    assert "# rtsp://***@cam/1" in text
    path = tmp_path / "site.yaml"
    path.write_text(text)
    loaded = load_config(path)
    assert loaded.config.cameras["dock"].source.url == "rtsp://u:hunter22@cam/1"  # type: ignore[union-attr]
    assert json.dumps(loaded.warnings) == "[]"
