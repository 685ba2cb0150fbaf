"""Slopes, budgets and verdicts by plain numbers, and the file that people write."""

import math
import random
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from sim.soak import BUDGETS, Figure, judge, read_budgets, theil_sen
from sim.soak.slope import LEAST, settled

HOURS = [3600.0 * number / 60 for number in range(300)]


def test_the_tooth_of_a_saw_at_the_end_is_no_growth() -> None:
    """A heap that fills for an hour and is collected; the run ends just before a collection."""
    saw = [(at, 100.0 + 30.0 * ((at / 3600 + 0.02) % 1.0)) for at in HOURS]
    found = theil_sen(saw)
    assert found is not None
    assert found.low <= 0.0 <= found.high or abs(found.per_hour) < 2.0


def test_outliers_do_not_bend_it() -> None:
    rng = random.Random(1)
    series = [(at, 50.0 + 1.5 * at / 3600 + rng.gauss(0, 0.2)) for at in HOURS]
    for place in rng.sample(range(len(series)), 20):
        series[place] = (series[place][0], 5000.0)
    found = theil_sen(series)
    assert found is not None
    assert found.per_hour == pytest.approx(1.5, abs=0.1)
    assert found.low < 1.5 < found.high


def test_noise_around_a_constant_is_within_its_bounds() -> None:
    rng = random.Random(2)
    found = theil_sen([(at, 50.0 + rng.gauss(0, 1.0)) for at in HOURS])
    assert found is not None
    assert found.low < 0.0 < found.high
    assert math.isfinite(found.high - found.low)


@pytest.mark.parametrize("series", [[], [(0.0, 1.0)] * 20, [(float(n), 1.0) for n in range(LEAST - 1)]])
def test_too_little_has_no_slope(series: list[tuple[float, float]]) -> None:
    assert theil_sen(series) is None


def test_a_warm_up_is_left_out_by_time() -> None:
    series = [(0.0, 9.0), (1.0, 9.0), (2.0, 9.0), (10.0, 1.0), (20.0, 1.0)]
    assert settled(series, 0.3) == [(10.0, 1.0), (20.0, 1.0)]
    assert settled(series, 0.0) == series


def test_verdicts() -> None:
    figures = [
        Figure("a", "memory_slope", 5.0, low=0.5, high=9.0),
        Figure("a", "descriptor_slope", 5.0, low=1.5, high=9.0),
        Figure("a", "log", None),
        Figure("a", "cpu", 90.0),
        Figure("new", "cpu", 1.0),
    ]
    budgets = {"a": {"memory_slope": 1.0, "descriptor_slope": 1.0, "log": 5.0}, "gone": {"cpu": 5.0}}
    lines = {(one.figure.subject, one.figure.measure): one for one in judge(figures, budgets)}  # type: ignore[arg-type]
    assert {where: line.why for where, line in lines.items()} == {
        ("a", "memory_slope"): "",
        ("a", "descriptor_slope"): "it is over its budget",
        ("a", "log"): "the run was too short to say",
        ("a", "cpu"): "",
        ("new", "cpu"): "it has no budget",
        ("gone", "cpu"): "it was never seen",
    }
    assert [where for where, line in lines.items() if line.met] == [("a", "cpu"), ("a", "memory_slope")]


def test_the_file_of_the_project_has_a_budget_for_every_run() -> None:
    found = read_budgets(BUDGETS)
    assert set(found.runs) == {"cart", "device", "fleet", "live", "server"}
    with pytest.raises(ConfigError, match="no budgets for a run moon"):
        found.of("moon")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("warm_up = 2\nlook_every = 1\n[runs]", "warm_up"),
        ("warm_up = 0.1\nlook_every = 1\n[runs.a.b]\nspeed = 1", "runs.a.b.speed"),
        ("warm_up = 0.1\nlook_every = 1\n[runs.a.b]\ncpu = -1", "runs.a.b.cpu"),
        ("warm_up =", "Invalid value"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_file_of_budgets_is_one_sentence(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "budgets.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_budgets(path)
