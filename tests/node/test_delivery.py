"""The way out beside real cameras: outbox and uplink as processes, the gate in this one."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from edge_runtime.cli.outputs import summary_json
from edge_runtime.clock import SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.node import Node, load_models
from edge_runtime.node.camera_board import read_board, write_board
from edge_runtime.node.delivery import OUTBOX, Delivery, state_of
from edge_runtime.node.snapshot import RunSnapshot
from edge_runtime.node.way_out import WayState
from edge_runtime.outbox import OutboxClient
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.state import ENVIRONMENT, StateDirectory
from edge_runtime.telemetry.metrics import Metrics
from sim.ports import free_port
from tests.rigs.cameras import wait_until
from tests.rigs.gate import event
from tests.rigs.pki import Pki
from tests.rigs.uplinks import enrol_by_hand

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


@pytest.fixture(name="road")
def _road(loaded: LoadedConfig) -> Iterator[Callable[[Metrics | None], Delivery]]:
    made: list[Delivery] = []

    def build(metrics: Metrics | None = None) -> Delivery:
        made.append(Delivery(loaded, state_of(loaded), SystemClock(), metrics))
        made[-1].start(lambda: _EMPTY)
        return made[-1]

    yield build
    for delivery in made:
        delivery.close()


_EMPTY = RunSnapshot(0.0, {}, {}, {}, (), interrupted=False)


def accepted(state: StateDirectory) -> int:
    with contextlib.closing(OutboxClient(state.outbox_socket, SystemClock(), 1.0)) as client:
        return client.status().ledger.accepted


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
    delivery = Delivery(loaded, state_of(loaded), SystemClock())
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


def test_a_killed_outbox_comes_back_and_no_event_is_missing(
    road: Callable[..., Delivery], loaded: LoadedConfig
) -> None:
    numbers = Metrics("sha256:" + "0" * 64)
    delivery = road(numbers)
    state = state_of(loaded)
    assert wait_until(lambda: delivery.snapshot().outbox is not None, 20)
    assert delivery.write(event(SystemClock(), data_class="public"))
    assert wait_until(lambda: accepted(state) == 1, 10)
    (outbox,) = (process for process in delivery.snapshot().processes if process.name == OUTBOX)
    assert outbox.pid is not None
    os.kill(outbox.pid, signal.SIGKILL)
    for _ in range(5):
        assert delivery.write(event(SystemClock(), data_class="public"))
    end = delivery.close()
    assert end.outbox is not None
    assert end.outbox.ledger.accepted == end.outbox.ledger.queued == 6
    assert not psutil.pid_exists(outbox.pid)
    exposed = numbers.expose().decode()
    assert 'edge_outbox_events{fate="accepted"} 6.0' in exposed
    assert "edge_outbox_balanced 1.0" in exposed
    assert 'edge_process_restarts{process="outbox"} 1.0' in exposed


def test_a_device_that_reaches_no_broker_says_so_and_counts_what_its_gate_decided(
    loaded: LoadedConfig, road: Callable[..., Delivery], tmp_path: Path
) -> None:
    state = state_of(loaded).ensure()
    authority = Pki(tmp_path / "pki")
    enrol_by_hand(state, authority.device("cam-1"), BrokerAddress(host="localhost", port=free_port()))
    delivery = road()
    assert delivery.write(event(SystemClock(), data_class="public"))
    assert delivery.write(event(SystemClock(), data_class="unknown"))
    assert wait_until(lambda: "refused" in (delivery.snapshot().way_out.why or ""), 30)
    end = delivery.close()
    assert end.way_out.state is WayState.CUT_OFF
    assert end.way_out.why == "no connection: Connection refused; the server never answered this device"
    assert end.gate.decided == {"send": 1, "hold": 1}
    found = summary_json(_EMPTY, events_lost=0, delivery=end)["delivery"]
    assert found["server"] == {"state": "cut_off", "why": end.way_out.why, "last_answered": None}
    assert found["gate"] == {"keep": 0, "hold": 1, "send": 1}


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
