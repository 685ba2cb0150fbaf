"""`guard explain`: every condition of a body, within 80 columns, and what is wrong with its profile."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.guard.conditions import BY_BIT
from tests.rigs.guard_bodies import CART, altered

Cli = Callable[..., Any]


def profile_file(folder: Path, **changes: Any) -> Path:
    path = folder / "cart.json"
    document = altered(CART, {name.replace("__", "."): value for name, value in changes.items()})
    path.write_text(json.dumps(document))
    return path


def test_the_overview_tells_each_condition_within_80_columns(cli: Cli, tmp_path: Path) -> None:
    found = cli("guard", "explain", "--profile", profile_file(tmp_path))
    assert found.code == 0
    lines = found.out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: " ".join(line.split()) for line in lines if line[:1].isalpha()}
    assert set(rows) >= {condition.value for condition in BY_BIT}
    assert rows["worker_dead"] == "worker_dead at once SAFE ack guard"
    assert rows["pose_stale"] == "pose_stale 500 ms slower → SAFE 1.5 s alone, 1 s monitor"
    assert rows["estop"] == "estop at once SAFE standstill + ack motion-gate"
    assert rows["config_changed"] == "config_changed at once SAFE reset + ack guard"
    assert rows["repeated_latches"] == "repeated_latches found LOCKOUT reset + ack guard"
    assert "1.55 m of 2.00 m" in found.out
    assert "! refused without a real-time schedule: stopping: a stop takes 2.95 m" in found.out


def test_without_a_file_it_is_about_the_body_that_cannot_move(cli: Cli) -> None:
    found = cli("guard", "explain")
    assert found.code == 0
    assert found.out.startswith("still: ")
    assert "this body does not travel" in found.out
    assert "SAFE" not in found.out, "nothing latches"
    assert "estop                ignored: nothing moves" in found.out


def test_a_profile_that_the_guard_would_refuse_leaves_with_1(cli: Cli, tmp_path: Path) -> None:
    found = cli("guard", "explain", "--profile", profile_file(tmp_path, stopping__free_range_m=1))
    assert found.code == 1
    assert "! refused: stopping: a stop takes 1.55 m, but only 1.00 m are free" in found.out


def test_one_condition_is_told_in_full(cli: Cli, tmp_path: Path) -> None:
    path = profile_file(tmp_path, conditions__map_stale={"ignored": "there is no map"})
    found = cli("guard", "explain", "pose-stale", "MAP_STALE", "--profile", path)
    assert found.code == 0
    assert found.out.splitlines() == [
        "pose_stale: the pose is too old or too uncertain",
        "  does           slower, after 1500 ms SAFE, latched",
        "  counts         after 500 ms",
        "  left by        alone, when clear for 1000 ms; latched: acknowledgement",
        "  evaluator      monitor",
        "  not evaluated  in crawl, where it makes it slower at worst",
        "",
        "map_stale: the map is too old",
        "  does           nothing: it is ignored (there is no map)",
        "  evaluator      monitor",
    ]


def test_programs_get_all_of_it(cli: Cli, tmp_path: Path) -> None:
    found = cli("guard", "explain", "estop", "--json", "--profile", profile_file(tmp_path))
    record = json.loads(found.out)
    assert [one["condition"] for one in record["conditions"]] == ["estop"]
    assert record["conditions"][0]["severity"] == "safe"
    assert record["stopping"]["distance_m"] == 1.55
    assert record["refused"] == []
    assert len(record["refused_without_real_time"]) == 1
    assert record["modes"][0]["fallbacks"] == {"pose": "crawl"}
    everything = json.loads(cli("guard", "explain", "--json").out)
    assert [one["condition"] for one in everything["conditions"]] == [c.value for c in BY_BIT]


def test_the_profile_of_a_configuration_is_read(cli: Cli, tmp_path: Path) -> None:
    profile_file(tmp_path)
    config = tmp_path / "site.yaml"
    config.write_text("version: 1\nguard: {profile: cart.json}\n" + CAMERAS)
    found = cli("guard", "explain", "--config", config)
    assert found.code == 1  # all that `run` would refuse, not only what the profile says of itself
    assert "\ncart: what the guard does on this body\n" in found.out
    assert "! refused: this body travels, and without guard.motion_gate" in found.out
    assert "conditions.battery_low: nothing on this device looks at it" in found.out
    config.write_text("version: 1\n" + CAMERAS)
    assert cli("guard", "explain", "--config", config).out.startswith("still: ")


CAMERAS = """\
models:
  yolox: {package: models/yolox}
cameras:
  dock:
    source: {kind: rtsp, url: rtsp://10.0.0.1/live}
    model: yolox
    data_class: internal
    rules:
      - {name: enters, kind: zone, on: [enter], polygon: [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]]}
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("estp",), "there is no condition estp; did you mean estop?"),
        (("xyz",), "there is no condition xyz; edge-runtime guard explain lists all"),
        (("--profile", "none.json"), "none.json: cannot be read: No such file or directory"),
        (("--profile", "empty.json"), "empty.json: profile: must be an object, not null"),
        (("--profile", "bad.json"), "bad.json: profile.name: is missing"),
        (("--profile", "bad.json", "--config", "x"), "give --profile or --config, not both"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], said: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.json").write_text("")
    Path("bad.json").write_text("{}")
    found = cli("guard", "explain", *arguments)
    assert (found.code, found.out, found.err) == (2, "", f"error: {said}\n")
