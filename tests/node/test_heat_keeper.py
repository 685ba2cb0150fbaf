"""The governor at work: a board that gets hot, a limit that a person gave, a machine without sensors."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.manifests import manifest_problems, readable_manifests
from edge_runtime.config import load_config
from edge_runtime.config.governor import GovernorConfig
from edge_runtime.config.node import NodeConfig
from edge_runtime.health import HealthReader, read_health
from edge_runtime.health.governor import LADDER, Level
from edge_runtime.node import heat_keeper
from edge_runtime.node.heat_keeper import LEAST_RELIED_ON, Heat, HeatKeeper, Rates, ladder
from edge_runtime.node.models import ReadyModel, governor_of
from edge_runtime.telemetry.metrics import Metrics
from tests.rigs.boards import Board, FixedClock
from tests.rigs.watched import Watched, loaded_models, watched, write_watched

S = 1_000_000_000
TRIPS = (("passive", 95_000), ("critical", 105_000))
BOUND = {0: ("cpufreq-cpu0",)}
YARD = {"kind": "synthetic", "fps": 20, "width": 320, "height": 240}


class HotBoard:
    """A board of one sensor, whose temperature is set, and a governor that looks at it each second."""

    def __init__(
        self, root: Path, governor: GovernorConfig | None = None, highest_c: float | None = None
    ) -> None:
        self.board, self.clock = Board(root), FixedClock()
        self.reader = HealthReader(self.clock, root=root, disks=())
        self.heat = Heat(governor or GovernorConfig(), 0, highest_c, self.clock.now_ns)

    def zone(self, celsius: float | None, trips: Any = TRIPS) -> None:
        value = None if celsius is None else int(celsius * 1000)
        self.board.zones({"cpu-thermal": value}, trips, BOUND if trips else None)

    def set(self, celsius: float) -> None:
        self.board.put("/sys/class/thermal/thermal_zone0/temp", int(celsius * 1000))

    def run(self, seconds: int) -> float:
        for _ in range(seconds):
            self.clock.now_ns += S
            self.heat.step(read_health(self.reader), self.clock.now_ns)
        return self.heat.level.frame_share


@pytest.mark.parametrize(
    ("variants", "levels"),
    [
        (0, [(1.0, 0), (0.75, 0), (0.5, 0), (0.35, 0), (0.25, 0), (0.1, 0)]),
        (1, [(1.0, 0), (0.75, 0), (0.5, 0), (0.35, 0), (0.35, 1), (0.25, 1), (0.1, 1)]),
        (2, [(level.frame_share, level.variant) for level in LADDER]),
    ],
)
def test_the_ladder_has_no_level_that_changes_nothing(variants: int, levels: list[tuple[float, int]]) -> None:
    assert ladder(variants, 0.0) == tuple(Level(*level) for level in levels)


def test_a_body_that_relies_on_its_cameras_keeps_half_of_the_work_and_gets_the_smaller_models() -> None:
    assert ladder(2, LEAST_RELIED_ON) == (
        Level(1.0),
        Level(0.75),
        Level(0.5),
        Level(0.5, 1),
        Level(0.5, 2),
    )


def test_a_board_that_gets_hot_does_less_and_a_cool_one_all_of_it_again(tmp_path: Path) -> None:
    hot = HotBoard(tmp_path)
    hot.zone(60)
    assert hot.run(30) == 1.0
    hot.set(87)
    assert hot.run(2) < 1.0
    hot.set(93)
    assert hot.run(10) == 0.1
    assert "close to 95 C" in hot.heat.why
    hot.set(60)
    assert hot.run(900) == 1.0


def test_a_sensor_that_vanishes_is_not_cool(tmp_path: Path) -> None:
    hot = HotBoard(tmp_path)
    hot.zone(60)
    hot.run(5)
    (tmp_path / "sys/class/thermal/thermal_zone0/temp").unlink()
    assert hot.run(4) == 1.0
    assert hot.run(4) == 0.5
    assert "no temperature" in hot.heat.why


def test_how_careful_it_is_then_is_configured(tmp_path: Path) -> None:
    hot = HotBoard(tmp_path, GovernorConfig(careful_level=4))
    hot.zone(60)
    hot.run(5)
    (tmp_path / "sys/class/thermal/thermal_zone0/temp").unlink()
    assert hot.run(10) == 0.25


def test_a_machine_without_sensors_works_in_full(tmp_path: Path) -> None:
    hot = HotBoard(tmp_path)
    assert hot.run(3600) == 1.0
    assert hot.heat.why == "not governed: this machine shows no temperatures"
    hot.zone(60)
    assert hot.run(5) == 1.0
    hot.set(94)
    assert hot.run(5) < 1.0


def test_a_machine_without_sensors_that_says_it_is_slowed_down_does_less(tmp_path: Path) -> None:
    hot = HotBoard(tmp_path)
    hot.board.cooling({"cpufreq-cpu0": (3, 20)})
    assert hot.run(5) < 1.0
    assert hot.heat.why == "the hardware throttles"


@pytest.mark.parametrize(
    ("governor", "highest_c", "limit_c"),
    [
        (GovernorConfig(), None, 95.0),
        (GovernorConfig(), 70.0, 70.0),
        (GovernorConfig(limit_c=80), 70.0, 80.0),
        (GovernorConfig(), 150.0, 130.0),
        (GovernorConfig(), 20.0, 40.0),
    ],
)
def test_which_limit_holds(
    tmp_path: Path, governor: GovernorConfig, highest_c: float | None, limit_c: float
) -> None:
    assert HotBoard(tmp_path, governor, highest_c).heat.limit_c == limit_c


def test_a_limit_that_a_person_gave_holds_beside_the_sensors_own(tmp_path: Path) -> None:
    hot = HotBoard(tmp_path, GovernorConfig(limit_c=70))
    hot.zone(69)  # 26 degrees below where it throttles
    assert hot.run(10) < 1.0
    assert hot.heat.celsius == 69
    own = HotBoard(tmp_path / "own")
    own.zone(69)
    assert own.run(10) == 1.0


def test_the_rate_that_holds_is_of_windows() -> None:
    rates = Rates()
    assert rates.rate() is None
    rates.add(0, 0.0)
    assert rates.rate() is None
    total, seconds = 0, 0.0
    for hertz in (20, 20, 15, 10, 10, 10, 10, 10, 10):
        total, seconds = total + hertz * 60, seconds + 60.0
        rates.add(total, seconds)
    rate = rates.rate()
    assert rate is not None
    assert (rate.peak_hz, rate.sustained_hz, rate.settled) == (20.0, 10.0, True)


def test_a_deadline_that_the_warm_device_cannot_hold_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = HotBoard(tmp_path)
    hot.zone(60)
    inferences = 0

    def work() -> tuple[int, float, float]:
        nonlocal inferences
        inferences += 600
        return inferences, inferences / 10, 0.02

    keeper = HeatKeeper(
        hot.heat, hot.reader, apply=lambda _: None, work=work, deadline_s=0.2, clock=hot.clock
    )
    assert keeper.snapshot().shortest_deadline_s is None
    for _ in range(700):
        hot.clock.now_ns += S
        keeper.look()
        keeper.turn()
    held = keeper.snapshot()
    assert held.sustained_hz == pytest.approx(10)
    assert held.settled
    assert held.shortest_deadline_s == pytest.approx(0.22)
    said = capsys.readouterr()
    assert (said.out + said.err).count("a deadline is shorter than this device can hold") == 1


def test_a_look_that_hangs_grows_old_and_makes_the_governor_careful(tmp_path: Path) -> None:
    hot = HotBoard(tmp_path)
    hot.zone(60)
    levels: list[Level] = []
    keeper = HeatKeeper(
        hot.heat,
        hot.reader,
        apply=levels.append,
        work=lambda: (0, 0.0, 0.0),
        deadline_s=1.0,
        clock=hot.clock,
    )
    keeper.turn()  # before the first look there is nothing to go by
    keeper.look()
    for _ in range(5):
        hot.clock.now_ns += S
        keeper.turn()
    assert levels == []
    hot.clock.now_ns += S
    keeper.turn()
    assert levels == [Level(0.5)]
    assert keeper.snapshot().why == "no temperature for 6 s"


def configuration(**more: Any) -> NodeConfig:
    return NodeConfig.model_validate(
        {
            "models": {"m": {"package": "p"}},
            "cameras": {"yard": {"source": YARD, "model": "m", "rules": []}},
            **more,
        }
    )


def test_the_governor_is_part_of_a_device_not_of_a_run() -> None:
    assert governor_of(configuration()) is None
    assert governor_of(configuration(delivery={})) == GovernorConfig()
    assert governor_of(configuration(guard={})) == GovernorConfig()
    assert governor_of(configuration(guard={"governor": {"enabled": False}})) is None
    given = governor_of(configuration(guard={"governor": {"limit_c": 80}}))
    assert given is not None
    assert given.limit_c == 80


@pytest.fixture(scope="module")
def models(
    yolox_package: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, ReadyModel]]:
    folder = tmp_path_factory.mktemp("models")
    with loaded_models(write_watched(folder, yolox_package, {"yard": {"source": YARD}})) as found:
        yield found


def share(run: Watched) -> float | None:
    heat = run.node.snapshot().heat
    return None if heat is None else heat.frame_share


def variant(run: Watched) -> int | None:
    heat = run.node.snapshot().heat
    return None if heat is None else heat.variant


def test_a_hot_device_looks_at_fewer_frames_and_says_so(
    tmp_path: Path,
    yolox_package: Path,
    models: Mapping[str, ReadyModel],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heat_keeper, "PERIOD_S", 0.1)
    board = Board(tmp_path / "board")
    board.zones({"cpu-thermal": 60_000}, TRIPS, BOUND)
    path = write_watched(tmp_path, yolox_package, {"yard": {"source": YARD}}, guard={})
    numbers = Metrics("test")
    with watched(path, models, board=board.root, metrics=numbers) as run:
        run.until_evaluated()
        assert run.node.snapshot().cameras["yard"].drops.get("thermal", 0) == 0
        assert share(run) == 1.0
        board.put("/sys/class/thermal/thermal_zone0/temp", 94_000)
        run.until(lambda: run.node.snapshot().cameras["yard"].drops.get("thermal", 0) > 10, "heat")
        heat = run.node.snapshot().heat
        assert heat is not None
        assert heat.frame_share < 1.0
        assert heat.celsius == 94.0
        assert "94.0 C" in heat.why
        assert run.tripped == set()  # what is left out on purpose is not late
        run.until(lambda: f"edge_frame_share {share(run)}".encode() in numbers.expose(), "the share")
        run.until(lambda: b'cause="thermal"' in numbers.expose(), "what was left out")
    assert not [thread for thread in threading.enumerate() if thread.name == "heat"]


def test_a_run_without_a_guard_is_not_governed(
    tmp_path: Path, yolox_package: Path, models: Mapping[str, ReadyModel]
) -> None:
    path = write_watched(tmp_path, yolox_package, {"yard": {"source": YARD}})
    with watched(path, models) as run:
        run.until_evaluated()
        assert run.node.snapshot().heat is None


def test_a_smaller_model_takes_over_on_a_hot_device_and_events_name_it(
    tmp_path: Path, package_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heat_keeper, "PERIOD_S", 0.1)
    board = Board(tmp_path / "board")
    board.zones({"cpu-thermal": 60_000}, TRIPS, BOUND)
    nobody = {"kind": "absence", "name": "nobody", "labels": ["zebra"], "seconds": 0.1}
    path = write_watched(
        tmp_path,
        package_of("yolov8n_coco_int8_640"),
        {"yard": {"source": YARD, "rules": [nobody]}},
        guard={"governor": {"variants": {"m": ["small"]}}},
        smaller={"small": package_of("yolox_nano_coco_416")},
    )
    loaded = load_config(path)
    assert list(loaded.warnings) == []
    assert manifest_problems(loaded, readable_manifests(loaded)[0]) == []
    with loaded_models(path) as found, watched(path, found, board=board.root) as run:
        assert list(found) == ["m"]
        large, small = (model.package.digest for model in (found["m"].model, *found["m"].variants))
        run.until(lambda: len(run.node.snapshot().recent) > 0, "an event")
        assert run.node.snapshot().recent[0].model == large
        board.put("/sys/class/thermal/thermal_zone0/temp", 94_000)
        run.until(lambda: variant(run) == 1, "a smaller model")
        before = run.faulty["m"].inferences
        evaluated = run.node.snapshot().cameras["yard"].evaluated
        run.until(lambda: run.node.snapshot().cameras["yard"].evaluated > evaluated + 3, "frames")
        assert run.faulty["m"].inferences <= before + 1  # one was in flight
    last = run.node.snapshot().recent[-1]
    assert (last.state.value, last.model) == ("interrupted", small)
