"""Engines in a run: the guard that waits for a build, the models of a configuration, what is told of them."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from edge_runtime.cli.run import _show_models
from edge_runtime.clock import SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.engines.holds import Role
from edge_runtime.engines.progress import BuildProgress
from edge_runtime.errors import BackendError
from edge_runtime.guard.settings import Row, parse
from edge_runtime.node.camera_board import degraded_models, look_at_models, write_board
from edge_runtime.node.engines import engine_source, let_others_go, log_progress
from edge_runtime.node.guarding import PERCEPTION, compile_settings
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from edge_runtime.node.uplink_process import hands
from edge_runtime.outbox import OutboxClient
from edge_runtime.packages import ModelPackage
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry.metrics import Metrics
from edge_runtime.uplink import LinkIdentity
from tests.rigs.devices import write_device
from tests.rigs.openings import Device
from tests.rigs.tensorrt_double import Faults


def device_configuration(folder: Path, package: ModelPackage, **model: Any) -> LoadedConfig:
    """A device whose one camera looks with the model `m`."""
    settings = {"package": str(package.directory), "accept_licences": ["NOASSERTION"], **model}
    return load_config(write_device(folder, package.directory, models={"m": settings}))


def perception(loaded: LoadedConfig) -> Row:
    state = StateDirectory(loaded.base / "state")
    told_ = compile_settings(loaded, state, ["run", "site.yaml"], finite=False)
    return next(row for row in parse(json.dumps(told_).encode()).rows if row.name == PERCEPTION)


def test_the_guard_waits_for_a_build_that_gets_on(tmp_path: Path, small: ModelPackage) -> None:
    plain = perception(device_configuration(tmp_path, small))
    assert plain.start_ns == 180 * 10**9
    assert plain.start_longest_ns == 1800 * 10**9
    engines = {"build_budget": 1200}
    settings = {
        "package": str(small.directory),
        "accept_licences": ["NOASSERTION"],
        "providers": ["tensorrt", "cpu"],
    }
    path = write_device(tmp_path, small.directory, models={"m": settings}, engines=engines)
    building = perception(load_config(path))
    assert building.start_ns == 600 * 10**9, "one long step of TensorRT fits"
    assert building.start_longest_ns == (600 + 2 * 1200) * 10**9, "a build, and one more where it was damaged"
    engines = {"build_budget": 86_400}
    path = write_device(tmp_path, small.directory, models={"m": settings}, engines=engines)
    assert perception(load_config(path)).start_longest_ns == 6 * 3600 * 10**9


def test_each_sign_of_progress_is_told_to_the_guard_and_a_few_to_the_log() -> None:
    noted: list[str] = []
    with structlog.testing.capture_logs() as logs:
        progress = log_progress(noted.append)
        for step in range(100):
            progress(BuildProgress("Tactics", step, 100))
            progress(BuildProgress("Tactics", step, 100))
    assert noted == ["engine"] * 100, "what is told again is no progress"
    assert 2 <= len(logs) <= 10


def test_engines_lie_in_the_state_directory(
    tmp_path: Path, small: ModelPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGE_RUNTIME_STATE", raising=False)
    loaded = device_configuration(tmp_path, small)
    assert engine_source(loaded).store.folder.path == tmp_path / "state" / "engines"
    assert not (tmp_path / "state").exists()
    assert engine_source(loaded, tmp_path / "other").store.folder.path == tmp_path / "other" / "engines"


def test_the_models_of_a_configuration_run_on_their_engines(
    tmp_path: Path, small: ModelPackage, device: Device
) -> None:
    loaded = device_configuration(tmp_path, small, providers=["tensorrt", "cpu"], mode="throughput")
    models = load_models(loaded, device.source())
    try:
        ready = models["m"]
        assert ready.model.backend.facts.effective == "tensorrt"
        assert ready.execution.workers == 2, "as many as the GPU takes, however many cores there are"
        assert [opening.tensorrt.supply.built for opening in ready.openings] == [1]
        numbers = Metrics()
        _show_models(numbers, models)
        exposed = numbers.expose().decode()
        version = ready.model.backend.facts.version
        assert (
            f'edge_model_info{{backend="tensorrt {version}",effective="tensorrt",model="m"}} 1.0' in exposed
        )
        assert 'edge_model_degraded{model="m"} 0.0' in exposed
        assert 'edge_engine_builds_total{model="m"} 1.0' in exposed
        assert 'edge_engine_quarantined_total{model="m"} 0.0' in exposed
        result = Node(loaded, models, max_frames=5).run()
        assert result.frames == 5
    finally:
        for each in models.values():
            each.close()


def test_what_asks_for_no_engine_any_more_holds_none(tmp_path: Path, small: ModelPackage) -> None:
    asks = device_configuration(tmp_path, small, providers=["tensorrt", "cpu"])
    source = engine_source(asks)
    for name in ("m", "gone"):
        source.store.hold(name, "0" * 64, Role.RUNNING)
        source.store.hold(name, "1" * 64, Role.ASSIGNED)
    let_others_go(asks, source)
    assert {(hold.model, hold.role) for hold in source.store.holds()} == {
        ("m", Role.RUNNING),
        ("m", Role.ASSIGNED),
        ("gone", Role.ASSIGNED),  # somebody may have built it for a configuration to come
    }
    let_others_go(device_configuration(tmp_path, small, providers=["cpu"]), source)
    assert {hold.role for hold in source.store.holds()} == {Role.ASSIGNED}


def test_a_lesser_provider_is_told_everywhere(tmp_path: Path, small: ModelPackage, device: Device) -> None:
    device.double.set_faults(Faults(build_fails=-1))
    loaded = device_configuration(tmp_path, small, providers=["tensorrt", "cpu"])
    models = load_models(loaded, device.source())
    try:
        numbers = Metrics()
        _show_models(numbers, models)
        assert 'edge_model_degraded{model="m"} 1.0' in numbers.expose().decode()
        result = Node(loaded, models, max_frames=2).run()
    finally:
        for each in models.values():
            each.close()
    assert result.models["m"].effective == "cpu"
    state, clock = StateDirectory(tmp_path / "state").ensure(), SystemClock()
    assert look_at_models(state, clock).reason == "no model has been heard of for 20 s"
    write_board(state, result, clock)
    (model,) = look_at_models(state, clock).value or ()
    assert (model.name, model.effective) == ("m", "cpu")
    (sentence,) = degraded_models(state, clock)
    assert sentence.startswith("model m is degraded: tensorrt was asked for but cpu runs the model")

    def renew() -> LinkIdentity:
        raise AssertionError("nobody renews here")

    with contextlib.closing(OutboxClient(state.outbox_socket, clock, 1.0)) as outbox:
        assert hands(loaded, state, outbox, renew).degraded() == (sentence,), (
            "the health that is sent says it too"
        )


def test_a_model_that_must_have_a_gpu_keeps_the_run_from_starting(
    tmp_path: Path, small: ModelPackage, device: Device
) -> None:
    device.double.set_faults(Faults(build_fails=-1))
    loaded = device_configuration(tmp_path, small, providers=["tensorrt", "cpu"], require_gpu=True)
    with pytest.raises(BackendError, match="require_gpu forbids that"):
        load_models(loaded, device.source())


def test_a_smaller_model_for_hot_days_has_an_engine_of_its_own(
    tmp_path: Path, small: ModelPackage, device: Device
) -> None:
    settings = {
        "package": str(small.directory),
        "accept_licences": ["NOASSERTION"],
        "providers": ["tensorrt", "cpu"],
    }
    guard = {"governor": {"variants": {"m": ["n"]}}}
    models = {"m": settings, "n": settings | {"tensorrt": {"tf32": False}}}
    loaded = load_config(write_device(tmp_path, small.directory, models=models, guard=guard))
    ready = load_models(loaded, device.source())["m"]
    try:
        first, second = (opening.tensorrt.key for opening in ready.openings)
        assert first != second
        assert len(ready.variants) == 1
    finally:
        ready.close()
