"""`edge-runtime fault`: what a person orders at a device on a bench, and what is refused elsewhere."""

import json
import re
from pathlib import Path

import pytest

from edge_runtime.faults import EFFECTS, orders_file, read_orders
from edge_runtime.state import StateDirectory
from tests.cli.conftest import Cli
from tests.rigs.guarded_state import guarded_state

CAMERA = """\
cameras: {dock: {source: {kind: synthetic}, model: m}}
models: {m: {package: p}}
"""
SITE = CAMERA + "guard: {monitor: {batteries: {pack: {}}}}\n"
PERMITTED = "device: {purpose: bench}\nfaults: {enabled: true}\n"


@pytest.fixture
def bench(tmp_path: Path) -> list[str]:
    """The words that name a device on a bench and its state."""
    path = tmp_path / "site.yaml"
    path.write_text(SITE + PERMITTED, encoding="utf-8")
    return [str(path), "--state", str(tmp_path / "state")]


def test_what_is_ordered_lies_in_the_state_directory(cli: Cli, bench: list[str], tmp_path: Path) -> None:
    config, *place = bench
    done = cli(
        "fault", "inject", config, "camera", "slow", "--amount", "2", "--for", "30", "--by", "ada", *place
    )
    assert done.code == 0, done.err
    assert "camera slow: a picture every 2 s, for 30 s; no guard runs here" in done.out
    (order,) = read_orders(orders_file(StateDirectory(tmp_path / "state")))
    assert (order.amount, order.by, order.name) == (2.0, "ada", "")
    assert cli("fault", "inject", config, "battery", "off", "--name", "pack", *place).code == 0
    listed = json.loads(cli("fault", "list", config, "--json", *place).out)
    assert [row["unit"] for row in listed["faults"]] == ["camera", "battery"]
    first, second = cli("fault", "list", config, *place).out.splitlines()
    assert re.search(r"camera slow: a picture every 2 s; ends in \d+ s, by ada$", first)
    assert re.search(r"battery pack off: .*; ends in \d+ s$", second)
    assert cli("fault", "clear", config, *place).code == 0
    assert cli("fault", "list", config, *place).out == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["guard", "off"], "guard off is not injected: what holds the permission"),
        (["disk", "stuck"], "disk stuck is not injected: the state of a disk"),
        (["camera", "off", "--amount", "2"], "camera off takes no amount"),
        (["camera", "off", "--for", "0"], "a fault lasts more than 0"),
        (["camera", "off", "--name", "dok"], "the configuration has no camera dok; it has dock"),
        (["battery", "off", "--name", "spare"], "the configuration has no battery spare; it has pack"),
        (["disk", "off", "--name", "x"], "disk off takes no name"),
    ],
)
def test_what_cannot_be_injected_is_refused(cli: Cli, bench: list[str], words: list[str], says: str) -> None:
    config, *place = bench
    done = cli("fault", "inject", config, *words, *place)
    assert done.code == 2
    assert says in done.err
    assert cli("fault", "list", config, *place).out == ""


@pytest.mark.parametrize(
    ("guard", "unit", "says"),
    [
        ("guard: {}\n", "battery", "the configuration has no battery: nothing would fail"),
        ("", "memory", "nobody reads memory here"),
    ],
)
def test_what_would_do_nothing_is_refused(cli: Cli, tmp_path: Path, guard: str, unit: str, says: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(CAMERA + guard + PERMITTED, encoding="utf-8")
    done = cli("fault", "inject", str(path), unit, "off", "--state", str(tmp_path / "state"))
    assert done.code == 2
    assert says in done.err


@pytest.mark.parametrize("verb", [["inject", "camera", "off"], ["list"], ["clear"]])
def test_a_device_in_the_field_takes_no_orders(cli: Cli, tmp_path: Path, verb: list[str]) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(SITE, encoding="utf-8")
    done = cli("fault", verb[0], str(path), *verb[1:], "--state", str(tmp_path / "state"))
    assert done.code == 2
    assert "faults are not permitted here" in done.err
    assert not (tmp_path / "state").exists()


def test_where_a_guard_runs_it_begins_within_a_second(cli: Cli, bench: list[str], tmp_path: Path) -> None:
    config, *place = bench
    with guarded_state(tmp_path):
        assert "; begins within a second" in cli("fault", "inject", config, "camera", "off", *place).out


def test_units_lists_every_combination(cli: Cli) -> None:
    rows = json.loads(cli("fault", "units", "--json").out)["faults"]
    assert {(row["unit"], row["fault"]) for row in rows} == {
        (unit.value, kind.value) for unit, kind in EFFECTS
    }
    assert len(cli("fault", "units").out.splitlines()) == len(EFFECTS)
