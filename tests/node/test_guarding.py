"""What a guard is told, made from a device's configuration; and the example bodies, which have to be safe."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.errors import ConfigError
from edge_runtime.guard.motion_gate.settings import parse as parse_motion_gate
from edge_runtime.guard.profile import from_json
from edge_runtime.guard.refusals import check
from edge_runtime.guard.settings import Ends, Settings, parse
from edge_runtime.node.guarding import compile_settings, guard_problems, is_finite
from edge_runtime.state import StateDirectory
from tests.rigs.devices import SYNTHETIC, write_device

BODIES = Path(__file__).parents[2] / "deploy" / "bodies"


def device(folder: Path, source: dict[str, Any] = SYNTHETIC, **sections: Any) -> LoadedConfig:
    for name in ("cart", "cart_motion"):
        if not (folder / f"{name}.yaml").exists():
            shutil.copy(BODIES / f"{name}.yaml", folder)
    return load_config(write_device(folder, folder / "package", source, **sections))


def change(folder: Path, name: str, **changes: Any) -> None:
    data = yaml.safe_load((BODIES / f"{name}.yaml").read_text(encoding="utf-8"))
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(data | changes, sort_keys=False), encoding="utf-8")


def compiled(loaded: LoadedConfig, *, finite: bool = False) -> Settings:
    state = StateDirectory(loaded.base / "state")
    return parse(json.dumps(compile_settings(loaded, state, ["run", "site.yaml"], finite=finite)).encode())


def problems(loaded: LoadedConfig) -> list[str]:
    return [text for _, text in guard_problems(loaded, StateDirectory(loaded.base / "state"))]


CART = {"profile": "cart.yaml", "motion_gate": "cart_motion.yaml"}


def test_the_example_bodies_are_safe_with_and_without_a_real_time_schedule() -> None:
    profile = from_json(yaml.safe_load((BODIES / "cart.yaml").read_text(encoding="utf-8")))
    assert check(profile, realtime=True) == check(profile, realtime=False) == []
    assert profile.limits == ("crawl", "full")


def test_a_device_that_cannot_move(tmp_path: Path) -> None:
    settings = compiled(device(tmp_path))
    assert [row.name for row in settings.rows] == ["outbox", "uplink", "monitor", "perception"]
    assert [row.name for row in settings.rows if not row.critical] == ["uplink"]
    assert [row.name for row in settings.rows if row.ring] == ["monitor"]
    assert settings.arms_itself
    assert not settings.profile.stopping.travels
    assert [Path(path).name for path, _ in settings.configuration] == ["site.yaml"]
    assert settings.rows[-1].command[-2:] == ("run", "site.yaml")
    assert settings.rows[-1].ends is Ends.DONE
    assert compiled(device(tmp_path), finite=True).rows[-1].ends is Ends.ALWAYS


def test_a_body_that_travels_has_a_motion_gate_whose_tables_are_in_the_order_of_the_lease(
    tmp_path: Path,
) -> None:
    settings = compiled(device(tmp_path, guard=CART))
    assert not settings.arms_itself
    assert [Path(path).name for path, _ in settings.configuration] == [
        "site.yaml",
        "cart.yaml",
        "cart_motion.yaml",
    ]
    (gate,) = (row for row in settings.rows if row.lives_on)
    tables = parse_motion_gate(gate.settings).profile.tables
    assert tuple(table.name for table in tables) == settings.profile.limits == ("crawl", "full")


def test_what_only_one_of_both_says_is_refused(tmp_path: Path) -> None:
    assert problems(device(tmp_path, guard=CART)) == []
    (travels,) = problems(device(tmp_path, guard={"profile": "cart.yaml"}))
    assert travels.endswith("this body travels, and without guard.motion_gate nothing would hold it")
    (gate,) = problems(device(tmp_path, guard={"motion_gate": "cart_motion.yaml"}))
    assert gate.endswith("a motion gate needs guard.profile, which says what the body allows")
    with pytest.raises(ConfigError, match="nothing would hold it"):
        compiled(device(tmp_path, guard={"profile": "cart.yaml"}))


def test_a_camera_whose_frames_may_be_older_than_the_body_relies_on_is_refused(tmp_path: Path) -> None:
    (found,) = problems(device(tmp_path, SYNTHETIC | {"max_age": 0.8}, guard=CART))
    assert found.endswith("freshness_ms.camera is 500, and frames of camera yard may be 800 ms old (max_age)")


def test_a_condition_that_nobody_on_this_device_looks_at_is_refused(tmp_path: Path) -> None:
    loaded = device(tmp_path, guard=CART)
    body = yaml.safe_load((BODIES / "cart.yaml").read_text(encoding="utf-8"))
    change(tmp_path, "cart", conditions={**body["conditions"], "battery_low": {"severity": "degraded"}})
    (found,) = problems(loaded)
    assert found.endswith(
        "conditions.battery_low: nothing on this device looks at it; name a battery in guard.monitor, or ignore it "
        "and say why"
    )


def test_limits_that_the_motion_gate_does_not_have_are_refused(tmp_path: Path) -> None:
    loaded = device(tmp_path, guard=CART)
    change(tmp_path, "cart", modes={"drive": {"limits": "leap", "needs": ["camera", "inference"]}})
    (missing,) = problems(loaded)
    assert missing.endswith("no table is called leap, which a mode of the profile names")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not a section with the motion gate's settings"),
        ("output: {kind: udp", "line 1: "),
        ("a: 1\na: 2\n", "line 2: "),
        ("output: {kind: udp, host: localhost, port: 1}\nprofile: {}\n", "profile.axes: missing"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    loaded = device(tmp_path, guard=CART)
    (tmp_path / "cart_motion.yaml").write_text(text, encoding="utf-8")
    (found,) = problems(loaded)
    assert str(tmp_path / "cart_motion.yaml") in found
    assert says in found


def test_an_unsafe_profile_is_refused_with_every_reason(tmp_path: Path) -> None:
    loaded = device(tmp_path, guard=CART)
    profile = yaml.safe_load((BODIES / "cart.yaml").read_text(encoding="utf-8"))
    change(
        tmp_path,
        "cart",
        stopping=profile["stopping"] | {"free_range_m": 0.1},
        conditions=profile["conditions"] | {"worker_dead": {"severity": "warn"}},
    )
    found = problems(loaded)
    assert len(found) >= 2
    assert any("worker_dead" in sentence for sentence in found)


@pytest.mark.parametrize(
    ("source", "limited", "ends"),
    [
        ({"kind": "file", "path": "a.mp4"}, False, True),
        ({"kind": "file", "path": "a.mp4", "loop": True}, False, False),
        ({"kind": "file", "path": "a.mp4", "loop": True}, True, True),
        ({"kind": "images", "path": "folder"}, False, True),
        (SYNTHETIC, False, False),
        (SYNTHETIC, True, True),
        ({"kind": "rtsp", "url": "rtsp://camera/1"}, False, False),
    ],
)
def test_which_cameras_end_by_themselves(
    tmp_path: Path, source: dict[str, Any], limited: bool, ends: bool
) -> None:
    (camera,) = device(tmp_path, source).config.cameras.values()
    assert is_finite(camera, limited=limited) is ends
