"""The configuration of rig `local`'s device: the runtime takes it, also that of each mutant."""

from pathlib import Path

import pytest

from edge_runtime.config import load_config
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.profile import from_json
from edge_runtime.node.guarding import body_faults, body_profile, compile_settings, guard_problems
from edge_runtime.state import StateDirectory
from sim.local.device_file import IGNORED, Surroundings, has_profile, write_device
from sim.local.site import TABLES, WISH_M_S
from sim.scenario.document import read_scenario, scenario_files
from sim.scenario.records import DeviceSpec, Protection

CART = DeviceSpec(body="cart", battery=0.9, pose=True)
STILL = DeviceSpec(camera_fps=2)
LOCAL = [scenario for path in scenario_files() if "local" in (scenario := read_scenario(path)).rigs]
MUTANTS: list[tuple[DeviceSpec, Protection]] = [
    (scenario.device, name) for scenario in LOCAL for name in scenario.protections.get("local", {})
]


def written(folder: Path, spec: DeviceSpec, *without: Protection) -> Path:
    places = Surroundings(
        folder=folder,
        camera="http://127.0.0.1:1/video",
        broker=("localhost", 1),
        state=StateDirectory(folder / "state"),
        policy=folder / "policy.yaml",
        root=folder / "machine",
        drive=folder / "drive.sock",
        key="7c" * 32,
    )
    return write_device(places, spec, without)


@pytest.mark.parametrize(
    ("spec", "without"),
    [
        *[pytest.param(spec, (), id=f"{spec.body}") for spec in (CART, STILL, DeviceSpec(battery=0.5))],
        *[
            pytest.param(spec, (name,), id=f"{number}-{spec.body}-{name}")
            for number, (spec, name) in enumerate(MUTANTS)
        ],
    ],
)
def test_the_runtime_takes_it(tmp_path: Path, spec: DeviceSpec, without: tuple[Protection, ...]) -> None:
    loaded = load_config(written(tmp_path, spec, *without))
    state = StateDirectory(tmp_path / "state").ensure()
    assert not guard_problems(loaded, state)
    settings = compile_settings(loaded, state, ["run"], finite=False)
    assert settings["arms_itself"] is not has_profile(spec, without)


def test_the_cart_stands_within_its_free_range_on_a_guard_without_a_schedule_of_its_own(
    tmp_path: Path,
) -> None:
    loaded = load_config(written(tmp_path, CART))
    profile = from_json(body_profile(loaded))
    assert not body_faults(loaded, profile, realtime=False)
    assert profile.stopping.v_max_m_s == WISH_M_S
    assert profile.limits == TABLES


@pytest.mark.parametrize("spec", [CART, STILL])
@pytest.mark.parametrize("name", IGNORED)
def test_a_mutant_ignores_what_it_takes_away_and_nothing_else(
    tmp_path: Path, spec: DeviceSpec, name: Protection
) -> None:
    def ignored(folder: str, *without: Protection) -> set[Condition]:
        place = tmp_path / folder
        place.mkdir()
        return {
            one for one, _ in from_json(body_profile(load_config(written(place, spec, *without)))).ignored
        }

    gone = ignored("mutant", name) - ignored("whole")
    late = {Condition.INFERENCE_LATE} if name == "camera_watch" and spec is STILL else set()
    assert gone <= set(IGNORED[name]) | late
    assert late <= gone
    assert set(IGNORED[name]) - gone <= ignored("again"), "what is not ignored anew was ignored before"
