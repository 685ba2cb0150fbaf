"""Starts at which something else than the engine is wrong: none may end the process, or cost a good engine."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.cli.engine_build import configured_targets
from edge_runtime.config import load_config
from edge_runtime.durable import sha256_file
from edge_runtime.engines.errors import StoreUnusable
from edge_runtime.engines.opening import ModelOptions, OpenedModel, open_model
from edge_runtime.engines.progress import BuildProgress
from edge_runtime.engines.source import EngineSource
from edge_runtime.engines.store import EngineStore
from edge_runtime.node.engines import log_progress
from edge_runtime.node.models import load_models
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.packages.manifest import MANIFEST_NAME
from edge_runtime.perception.backends.tensorrt import Cuda
from edge_runtime.perception.backends.tensorrt.log import EngineLog
from tests.rigs.devices import write_device
from tests.rigs.openings import Device
from tests.rigs.small_disk import fill_up, small_disk
from tests.rigs.tensorrt_double import installed


def _opens(source: EngineSource, package: ModelPackage) -> OpenedModel:
    opened = open_model(package, ModelOptions(("tensorrt", "cpu")), source, name="m")
    opened.model.close()
    return opened


def test_a_terminal_that_is_gone_ends_no_build(device: Device, small: ModelPackage) -> None:
    def gone(_now: BuildProgress) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    opened = _opens(replace(device.source(), progress=gone), small)
    assert opened.report.refusals == []
    assert EngineStore(device.engines).failures.failing_keys() == ()


def test_who_waits_for_another_build_tells_the_guard_each_second(device: Device, small: ModelPackage) -> None:
    """The guard allows 600 s between two signs of progress, and a build half an hour."""
    key = device.opens(small).report.tensorrt.key
    (device.engines / f"{key}.json").unlink()
    noted: list[str] = []
    asked = threading.Event()

    def note(stage: str) -> None:
        noted.append(stage)
        if len(noted) == 3:
            asked.set()

    with EngineStore(device.engines).lock(key, 0):
        opened = _opens(replace(device.source(), progress=log_progress(note), stop=asked.is_set), small)
    assert noted == ["engine"] * 3
    (refusal,) = opened.report.refusals
    assert "the build was called off" in refusal.reason
    assert EngineStore(device.engines).failures.failing_keys() == ()


def test_a_library_that_breaks_its_word_is_a_reason_and_is_not_asked_at_each_start(
    device: Device, small: ModelPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_runtime.engines.build_process.device_memory", lambda *_: -1)
    for _start in range(3):
        opened = _opens(device.source(), small)
        (refusal,) = opened.report.refusals
        assert "device_memory_bytes" in refusal.reason
        assert "\n" not in refusal.reason
        assert opened.model.backend.facts.effective == "cpu"
    assert len(device.workshop.keys) == 1


def test_a_disk_that_fills_up_in_a_build_is_built_on_once_there_is_room(
    tmp_path: Path, small: ModelPackage
) -> None:
    with small_disk(tmp_path / "disk", 1) as disk, installed("10.3.0") as double:
        device = Device(double, disk / "engines")
        filler = fill_up(disk)
        os.truncate(filler, filler.stat().st_size - (64 << 10))
        (full,) = device.opens(small).report.refusals
        assert "the engine cannot be built: " in full.reason
        assert "No space left on device" in full.reason
        (waits,) = device.opens(small).report.refusals
        assert "there was no room for it" in waits.reason
        assert waits.reason.endswith("`edge-runtime engine build` tries at once")
        assert "or at a start that finds room" in waits.reason
        assert len(device.workshop.keys) == 1
        filler.unlink()
        assert device.opens(small).report.refusals == []


def with_other_golden_vectors(small: ModelPackage, folder: Path) -> ModelPackage:
    """The same weights in a package whose author measured something else."""
    shutil.copytree(small.directory, folder)
    vector = small.manifest.golden[0]
    path = folder / vector.outputs
    measured = dict(np.load(path))
    np.savez(
        path,
        **{
            name: values + np.float32(9) if values.dtype == np.float32 else values
            for name, values in measured.items()
        },
    )
    changed = vector.model_copy(update={"outputs_sha256": sha256_file(path)})
    manifest = small.manifest.model_copy(update={"golden": (changed, *small.manifest.golden[1:])})
    (folder / MANIFEST_NAME).write_bytes(manifest.canonical_bytes())
    return open_package(folder)


def test_a_wrong_package_does_not_cost_another_its_engine(
    tmp_path: Path, device: Device, small: ModelPackage
) -> None:
    assert device.opens(small, name="good").report.refusals == []
    (refusal,) = device.opens(
        with_other_golden_vectors(small, tmp_path / "wrong"), name="new"
    ).report.refusals
    assert "does not answer as the package's author measured" in refusal.reason
    assert "look at the package" in refusal.reason
    assert device.opens(small, name="good").report.refusals == []
    assert len(device.workshop.keys) == 1
    assert EngineStore(device.engines).quarantined() == ()


def test_what_is_built_beforehand_is_what_a_run_wants(
    tmp_path: Path, small: ModelPackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller model for hot days runs with the batch of the one whose place it takes."""
    settings = {
        "package": str(small.directory),
        "accept_licences": ["NOASSERTION"],
        "providers": ["tensorrt", "cpu"],
    }
    models = {"m": settings | {"batch": 2}, "n": settings | {"batch": 4}, "o": settings | {"batch": 5}}
    guard = {"governor": {"variants": {"m": ["n"]}}}
    loaded = load_config(write_device(tmp_path, small.directory, models=models, guard=guard))
    wanted: list[tuple[str, int]] = []

    def look(
        package: ModelPackage, options: ModelOptions, source: EngineSource, *, name: str, holds: bool
    ) -> OpenedModel:
        wanted.append((name, options.tensorrt.engine.batch))
        return open_model(package, ModelOptions(), source, name=name, holds=holds)

    monkeypatch.setattr("edge_runtime.node.models.open_model", look)
    load_models(loaded)["m"].close()
    built = [(target.name, target.options.engine.batch) for target in configured_targets(loaded, ())]
    assert wanted == [("m", 2), ("n", 2)]
    assert built == [*wanted, ("o", 5)]


def test_a_look_that_is_ended_says_nothing_about_an_engine(device: Device, small: ModelPackage) -> None:
    """The doctor gives a model a minute; three looks at a busy device must not cost it the engine."""
    device.opens(small)
    store = EngineStore(device.engines)
    (held,) = store.holds()
    inside: list[int] = []

    def sees(engines: EngineStore) -> EngineSource:
        source = device.source()

        def open_device() -> Cuda:
            inside.append(len(engines.failures.of(held.key)))
            return source.open_device()

        return replace(source, open_device=open_device)

    looked = open_model(small, ModelOptions(("tensorrt", "cpu")), sees(store), name="other", holds=False)
    looked.model.close()
    assert looked.report.refusals == []
    assert set(inside) == {0}, "nothing is written down while it loads"
    assert store.holds() == (held,)
    inside.clear()
    run = open_model(small, ModelOptions(("tensorrt", "cpu")), sees(store), name="m")
    run.model.close()
    assert set(inside) == {0, 1}


@pytest.mark.parametrize("link", [True, False])
def test_builds_are_no_door_to_other_folders(
    tmp_path: Path, device: Device, small: ModelPackage, *, link: bool
) -> None:
    """What is left of a build is garbage; where its folder is a link, somebody else's files would be."""
    others = tmp_path / "others"
    others.mkdir()
    (others / "photo").write_text("kept", encoding="utf-8")
    device.engines.mkdir(parents=True)
    building = device.engines / "building"
    if link:
        building.symlink_to(others)
    else:
        building.write_text("", encoding="utf-8")
    (refusal,) = device.opens(small).report.refusals
    assert f"building is a {'link' if link else 'file'}, not a folder: remove it" in refusal.reason
    with pytest.raises(StoreUnusable, match="not a folder"):
        EngineStore(device.engines).prune()
    assert (others / "photo").read_text(encoding="utf-8") == "kept"
    building.unlink()
    assert device.opens(small).report.refusals == []


def test_whatever_has_the_name_of_a_build_goes(tmp_path: Path, device: Device, small: ModelPackage) -> None:
    key = device.opens(small).report.tensorrt.key
    (device.engines / f"{key}.json").unlink()
    (device.engines / "building").mkdir()
    (device.engines / "building" / key).symlink_to(tmp_path)
    assert device.opens(small).report.refusals == []
    assert tmp_path.is_dir()


def test_names_from_a_model_drive_no_terminal(device: Device) -> None:
    trt = device.double.tensorrt
    log = EngineLog(trt)
    log.logger.log(trt.ILogger.ERROR, "node \x1b]0;evil\x07\n\x1b[2J\u202egone")
    assert log.since(0) == ("node ]0;evil [2J gone",)
