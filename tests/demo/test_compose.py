"""`make demo CLIP=… MODEL=… RULES=…` becomes a configuration that the runtime accepts."""

from pathlib import Path

import pytest

from deploy.demo.compose import ANY_OBJECT, DEMO, Wishes, compose, read_rules
from edge_runtime.config import load_config
from edge_runtime.config.rules import ZoneRule
from edge_runtime.config.source import FileSource, GStreamerSource, HttpSource, PlaylistSource, RtspSource
from edge_runtime.errors import ConfigError
from edge_runtime.protocol import DataClass


def test_the_demo_itself_is_a_valid_configuration() -> None:
    loaded = load_config(DEMO)
    (camera,) = loaded.config.cameras.values()
    assert isinstance(camera.source, PlaylistSource)
    assert [Path(clip.path).stem for clip in camera.source.clips] == ["carphone", "bikes", "carphone"]
    assert {rule.name for rule in camera.rules} == {"driver_present", "head_position", "no_driver"}
    assert all(rule.min_height == pytest.approx(0.3) for rule in camera.rules)
    assert camera.data_class is DataClass.RESTRICTED


def test_another_clip_gets_rules_for_any_object_and_no_label_that_nobody_gave(tmp_path: Path) -> None:
    (tmp_path / "my clip.mp4").write_bytes(b"x")
    path = compose(Wishes(clip="my clip.mp4"), tmp_path, tmp_path)
    config = load_config(path).config
    (camera,) = config.cameras.values()
    assert isinstance(camera.source, FileSource)
    assert Path(camera.source.path) == tmp_path / "my clip.mp4"
    assert camera.data_class is None
    assert [rule.name for rule in camera.rules] == [rule["name"] for rule in ANY_OBJECT]
    (model,) = config.models.values()
    assert Path(model.package).name == "centerface"


def test_another_model_on_the_demos_own_clips(tmp_path: Path) -> None:
    wishes = Wishes(package=tmp_path / "package", accept=("NOASSERTION",))
    path = compose(wishes, tmp_path, tmp_path)
    config = load_config(path).config
    (camera,) = config.cameras.values()
    assert isinstance(camera.source, PlaylistSource)
    assert all(Path(clip.path).is_absolute() for clip in camera.source.clips)
    (model,) = config.models.values()
    assert model.package == str(tmp_path / "package")
    assert model.accept_licences == ("NOASSERTION",)
    assert camera.rules[0].labels == ()


def test_credentials_of_a_url_stay_out_of_the_configuration(tmp_path: Path) -> None:
    url = "rtsp://user:pa$${x}ss@camera.local:554/stream?a=1"
    path = compose(Wishes(clip=url), tmp_path, tmp_path)
    assert "pa$" not in path.read_text()
    assert (tmp_path / "source.txt").stat().st_mode & 0o077 == 0
    (camera,) = load_config(path).config.cameras.values()
    assert isinstance(camera.source, RtspSource)
    assert camera.source.url == url


@pytest.mark.parametrize(
    ("clip", "kind"),
    [
        ("http://camera.local/mjpeg?x=${y}", HttpSource),
        ("videotestsrc ! video/x-raw,width=64", GStreamerSource),
    ],
)
def test_urls_and_pipelines_are_told_apart(tmp_path: Path, clip: str, kind: type) -> None:
    (camera,) = load_config(compose(Wishes(clip=clip), tmp_path, tmp_path)).config.cameras.values()
    assert isinstance(camera.source, kind)


RULE = "{name: a, kind: zone, on: [leave], polygon: [[0, 0], [1, 0], [1, 1]]}"


@pytest.mark.parametrize("text", [f"- {RULE}", f"rules: [{RULE}]"])
def test_rules_may_stand_alone_or_under_their_key(tmp_path: Path, text: str) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(text)
    assert read_rules(rules)[0]["on"] == ["leave"], "a word, not the boolean of old YAML"
    (camera,) = load_config(compose(Wishes(rules=rules), tmp_path, tmp_path)).config.cameras.values()
    (rule,) = camera.rules
    assert isinstance(rule, ZoneRule)
    assert rule.on == ("leave",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read"),
        (b"a: [", "rules.yaml:1: "),
        (b"\xff\xfe", "UTF-8"),
        (b"rules: 3", "needs a list of rules"),
        (b"", "needs a list of rules"),
        (b"[]", "needs a list of rules"),
    ],
)
def test_unusable_rules_are_one_sentence(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    rules = tmp_path / "rules.yaml"
    if content is not None:
        rules.write_bytes(content)
    with pytest.raises(ConfigError, match=sentence) as caught:
        read_rules(rules)
    assert "\n" not in str(caught.value)


def test_a_clip_that_is_nothing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no camera"):
        compose(Wishes(clip="absent.mp4"), tmp_path, tmp_path)
