"""The demo's server, device and policy: only what its own camera sees may leave."""

from pathlib import Path

import av
import pytest
import yaml

from deploy.demo.compose import DEMO, Wishes, compose
from deploy.demo.outlook import hint, length
from deploy.demo.site import POLICY, Site, complete, make_server_data
from edge_runtime.config import load_config
from edge_runtime.errors import ConfigError
from edge_runtime.policy import Policy
from edge_runtime.protocol import DataClass, EvidenceMode
from edge_runtime.state import StateDirectory
from fleet_server.settings import ServerSettings


def test_the_policy_permits_exactly_the_demos_rules_for_one_purpose() -> None:
    policy = Policy.model_validate(yaml.safe_load(POLICY.read_text()))
    (camera_name,) = load_config(DEMO).config.cameras
    rules = {rule.name for rule in load_config(DEMO).config.cameras[camera_name].rules}
    permitted = [rule for permit in policy.permits for rule in permit.when.rules]
    assert sorted(permitted) == sorted(rules)
    assert {permit.purpose for permit in policy.permits} == {"safety"}
    for permit in policy.permits:
        assert permit.when.cameras == (camera_name,)
        assert permit.when.classes == (DataClass.RESTRICTED,)
        assert permit.evidence is not EvidenceMode.CROP, "a face leaves redacted or not at all"


def test_the_server_accepts_restricted_and_listens_on_loopback_alone(tmp_path: Path) -> None:
    make_server_data(tmp_path / "fleet")
    settings = ServerSettings.load(tmp_path / "fleet", {})
    assert settings.accepts == (DataClass.RESTRICTED,)
    assert settings.broker.host == settings.http.host == "127.0.0.1"
    assert settings.broker.port > 0


@pytest.mark.parametrize("clip", [None, "clip.mp4"])
def test_a_completed_configuration_leads_through_the_cables(tmp_path: Path, clip: str | None) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"x")
    path = compose(Wishes(clip=clip), tmp_path, tmp_path, "real_time")
    complete(path, StateDirectory(tmp_path / "${x}"), 1883, 8443)
    loaded = load_config(path)
    delivery = loaded.config.delivery
    assert delivery is not None
    assert delivery.state == str(tmp_path / "${x}")
    assert delivery.policy == str(POLICY)
    settings = delivery.uplink_settings()
    assert settings["broker"]["port"] == 1883
    assert settings["server_url"] == "https://localhost:8443"
    assert settings["cap_s"] == 2
    (camera,) = loaded.config.cameras.values()
    assert getattr(camera.source, "pacing", None) == ("every_frame" if clip else "real_time")


def test_a_folder_that_no_demo_made_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "road").mkdir()
    (tmp_path / "road" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="was not made by a demo"):
        Site(tmp_path / "road", lambda what, text: None)
    assert (tmp_path / "road" / "thesis.txt").is_file()


def test_the_folder_of_the_demo_before_is_made_anew(tmp_path: Path) -> None:
    first = Site(tmp_path / "road", lambda what, text: None)
    (first.folder / "old").touch()
    second = Site(tmp_path / "road", lambda what, text: None)
    assert not (second.folder / "old").exists()
    assert second.folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("wishes", "advice"),
    [
        (Wishes(), ""),
        (Wishes(clip="clip.mp4"), "unlabelled, so held: "),
        (Wishes(package=Path("/models/other")), "without a permit, so held: "),
    ],
)
def test_what_may_not_leave_is_told_with_where_to_look_at_it(
    tmp_path: Path, wishes: Wishes, advice: str
) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"x")
    state = tmp_path / "road" / "device"
    found = hint(load_config(compose(wishes, tmp_path, tmp_path)), state)
    assert found.startswith(advice)
    assert not found or Path(found.rpartition(" ")[2]).absolute().resolve() == state.resolve()
    assert bool(found) == bool(advice)


def test_the_length_of_a_run_is_known_where_its_clips_say_so(tmp_path: Path) -> None:
    clip = tmp_path / "three.mp4"
    with av.open(str(clip), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame(32, 32, "yuv420p")))
        container.mux(stream.encode())
    loaded = load_config(compose(Wishes(clip="three.mp4"), tmp_path, tmp_path))
    assert length(loaded, None) == 3
    assert length(loaded, 2) == 2
    assert length(loaded, 9) == 3
    clip.write_bytes(b"no video")
    assert length(loaded, None) is None
    assert length(load_config(compose(Wishes(clip="synthetic"), tmp_path, tmp_path)), 7) == 7
