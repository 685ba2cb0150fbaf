"""The way out beside real cameras: outbox and uplink as processes, the gate in this one."""

import json
from pathlib import Path

import pytest
import yaml

from edge_runtime.cli.outputs import summary_json
from edge_runtime.clock import SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.node.camera_board import look_at_board, read_board, write_board
from edge_runtime.node.delivery import Delivery
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from edge_runtime.node.places import state_of
from edge_runtime.node.snapshot import RunSnapshot
from edge_runtime.state import ENVIRONMENT, StateDirectory
from edge_runtime.telemetry.metrics import Metrics
from tests.rigs.gate import event
from tests.rigs.outbox import process

EVERYTHING = {
    "version": 1,
    "name": "everything",
    "recipients": {"fleet": {"place": "organisation", "accepts": ["public"], "purposes": ["operations"]}},
    "permits": [{"name": "all", "when": {}, "to": ["fleet"], "purpose": "operations", "evidence": "none"}],
}


@pytest.fixture(name="loaded")
def _loaded(tmp_path: Path, yolox_package: Path) -> LoadedConfig:
    config = {
        "models": {"m": {"package": str(yolox_package), "accept_licences": ["NOASSERTION"]}},
        "cameras": {
            "yard": {
                "source": {"kind": "synthetic", "fps": 10, "width": 320, "height": 240, "objects": 2},
                "model": "m",
                "data_class": "public",
                "rules": [{"kind": "absence", "name": "empty", "seconds": 0.5}],
            }
        },
        "delivery": {"state": "state", "policy": "policy.yaml"},
    }
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(EVERYTHING), encoding="utf-8")
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return load_config(path)


_EMPTY = RunSnapshot(0.0, {}, {}, {}, (), interrupted=False)


def test_the_state_directory_is_the_options_before_the_environments_before_the_configurations(
    loaded: LoadedConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert state_of(loaded).path == tmp_path / "state"
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "environment"))
    assert state_of(loaded).path == tmp_path / "environment"
    assert state_of(loaded, tmp_path / "option").path == tmp_path / "option"


def test_events_of_a_run_are_in_the_outbox_at_its_end_and_say_that_nothing_is_sent(
    loaded: LoadedConfig,
) -> None:
    state = state_of(loaded).ensure()
    numbers = Metrics("sha256:" + "0" * 64)
    with process(state):
        delivery = Delivery(loaded, state, SystemClock(), numbers)
        models = load_models(loaded)
        node = Node(loaded, models, sinks=[delivery], max_frames=20)
        delivery.start(node.snapshot)
        result = node.run()
        end = delivery.close()
        for ready in models.values():
            ready.model.close()
    assert result.frames == 20
    assert not end.enrolled
    assert end.outbox is not None
    assert end.outbox.ledger.accepted == end.outbox.ledger.queued > 0
    assert end.outbox.ledger.balances
    assert end.processes == ()  # there is no guard here
    exposed = numbers.expose().decode()
    assert f'edge_outbox_events{{fate="accepted"}} {end.outbox.ledger.accepted:.1f}' in exposed
    assert "edge_outbox_balanced 1.0" in exposed


def test_a_gate_without_an_outbox_ends_in_time_and_says_what_it_could_not_hand_over(
    loaded: LoadedConfig,
) -> None:
    delivery = Delivery(loaded, state_of(loaded), SystemClock())
    delivery.start(lambda: _EMPTY)
    assert delivery.write(event(SystemClock(), data_class="public"))
    end = delivery.close()
    assert end.outbox is None
    found = summary_json(_EMPTY, events_lost=0, delivery=end)["delivery"]
    assert found["outbox"] is None
    assert end.gate.overflowed == 1


def test_the_board_is_read_while_it_is_fresh(tmp_path: Path) -> None:
    state, clock = StateDirectory(tmp_path).ensure(), SystemClock()
    assert read_board(state, clock) == ()
    write_board(state, _EMPTY, clock)
    assert read_board(state, clock) == ()
    (state.run / "cameras.json").write_text(
        json.dumps(
            {
                "boottime_ns": clock.boottime_ns(),
                "cameras": [
                    {
                        "v": [1, 0],
                        "name": "a",
                        "state": "running",
                        "evaluated": 3,
                        "dropped": 1,
                        "age_ms": 5.0,
                    }
                ],
            }
        ),
        encoding="utf-8",
    )
    (camera,) = read_board(state, clock)
    assert (camera.name, camera.evaluated) == ("a", 3)
    for garbage in ("", "[]", '{"boottime_ns": 0, "cameras": []}', '{"boottime_ns": "x"}'):
        (state.run / "cameras.json").write_text(garbage, encoding="utf-8")
        assert read_board(state, clock) == ()


def test_a_board_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    state, clock = StateDirectory(tmp_path).ensure(), SystemClock()
    path = state.run / "cameras.json"
    assert look_at_board(state, clock).reason == "no camera has been heard of for 20 s"
    path.write_text("[", encoding="utf-8")
    assert look_at_board(state, clock).reason == f"{path} is damaged"
    path.unlink()
    path.mkdir()  # also root cannot read a folder
    assert look_at_board(state, clock).reason == f"{path} cannot be read: Is a directory"
