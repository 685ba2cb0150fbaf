"""Plugin libraries: in the key, loaded before an engine, and refused when they are not what was named."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.durable import sha256_file
from edge_runtime.engines.opening import OpenedModel
from edge_runtime.engines.request import TensorRtOptions
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.wanted import EngineOptions
from edge_runtime.packages import ModelPackage, open_package
from edge_runtime.perception.backends.tensorrt import PluginLibrary
from tests.rigs.openings import Device
from tests.rigs.plugin_libraries import no_plugin_library, plugin_library, with_plugin_layer


@pytest.fixture(scope="module")
def special(small: ModelPackage, tmp_path_factory: pytest.TempPathFactory) -> ModelPackage:
    """A detector with a layer that TensorRT does not have, and with golden vectors."""
    return open_package(with_plugin_layer(small.directory, tmp_path_factory.mktemp("special") / "package"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> PluginLibrary:
    """Compiled once."""
    return plugin_library(tmp_path_factory.mktemp("made") / "libspecial.so")


@pytest.fixture
def library(tmp_path: Path, made: PluginLibrary) -> PluginLibrary:
    shutil.copy2(made.path, tmp_path / "libspecial.so")
    return replace(made, path=tmp_path / "libspecial.so")


def opens(device: Device, package: ModelPackage, *libraries: PluginLibrary) -> OpenedModel:
    options = TensorRtOptions(engine=EngineOptions(plugins=libraries), prepare="cpu")
    return device.opens(package, tensorrt=options)


def refusal(device: Device, package: ModelPackage, *libraries: PluginLibrary) -> str:
    """Why TensorRT does not run it; nothing may be remembered against the model, and nothing taken out of use."""
    opened = opens(device, package, *libraries)
    assert opened.model.backend.facts.effective == "cpu"
    store = EngineStore(device.engines)
    assert store.quarantined() == ()
    assert store.failures.failing_keys() == ()
    (found,) = opened.report.refusals
    return found.reason


def test_a_layer_out_of_a_library_is_built_and_loaded(
    device: Device, special: ModelPackage, library: PluginLibrary
) -> None:
    built = opens(device, special, library)
    assert built.report.refusals == []
    assert built.model.backend.facts.effective == "tensorrt"
    again = opens(device, special, library)
    assert again.report.tensorrt.supply.built == 0
    (entry,) = EngineStore(device.engines).entries()
    assert entry.manifest is not None
    assert entry.manifest.recipe.plugins == {"libspecial.so": library.sha256}


def test_without_the_library_it_is_not_built(device: Device, special: ModelPackage) -> None:
    opened = opens(device, special)
    (found,) = opened.report.refusals
    assert "No importer registered for op: Unchanged" in found.reason


def test_another_library_is_another_engine(
    device: Device, special: ModelPackage, library: PluginLibrary, tmp_path: Path
) -> None:
    first = opens(device, special, library).report.tensorrt.key
    changed = plugin_library(tmp_path / "libspecial.so", number=1)
    assert changed.sha256 != library.sha256
    second = opens(device, special, changed).report.tensorrt
    assert second.key != first
    assert second.supply.built == 1
    more = plugin_library(tmp_path / "libmore.so", "Other")
    assert opens(device, special, changed, more).report.tensorrt.key not in (first, second.key)
    moved = PluginLibrary(tmp_path / "elsewhere" / "libspecial.so", changed.sha256)
    moved.path.parent.mkdir()
    shutil.copy2(changed.path, moved.path)
    assert opens(device, special, moved).report.tensorrt.key == second.key  # where it lies is no matter


def test_the_order_in_which_libraries_are_named_is_no_matter(
    device: Device, special: ModelPackage, library: PluginLibrary, tmp_path: Path
) -> None:
    more = plugin_library(tmp_path / "libmore.so", "Other")
    one, two = opens(device, special, library, more), opens(device, special, more, library)
    assert one.report.tensorrt.key == two.report.tensorrt.key
    assert two.report.tensorrt.supply.built == 0


def test_a_library_that_was_changed_is_not_loaded(
    device: Device, special: ModelPackage, library: PluginLibrary, tmp_path: Path
) -> None:
    assert opens(device, special, library).report.refusals == []
    plugin_library(tmp_path / "libspecial.so", number=2)
    for _start in range(3):
        assert "libspecial.so was changed: it has SHA-256" in refusal(device, special, library)
    plugin_library(tmp_path / "libspecial.so")
    again = opens(device, special, library)
    assert again.report.refusals == []
    assert again.report.tensorrt.supply.built == 0


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_library_that_others_may_write_is_not_loaded(
    device: Device, special: ModelPackage, library: PluginLibrary, tmp_path: Path, place: str, mode: int
) -> None:
    (tmp_path / "plugins").mkdir(mode=0o755)
    library = replace(library, path=library.path.rename(tmp_path / "plugins" / "libspecial.so"))
    changed = library.path if place == "file" else library.path.parent
    changed.chmod(mode)
    assert f"`chmod go-w {changed}`" in refusal(device, special, library)


def test_a_library_of_another_user_is_not_loaded(
    device: Device, special: ModelPackage, library: PluginLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = library.path.stat().st_uid
    if owner == 0:
        os.chown(library.path, 1234, -1)
    else:
        monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    assert "belongs to neither root nor this user" in refusal(device, special, library)


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "loop", "not ELF", "no plugin"])
def test_what_is_no_library_is_a_sentence(
    device: Device, special: ModelPackage, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "libspecial.so"
    digest = "0" * 64
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "not ELF":
        path.write_bytes(b"no library")
        digest = sha256_file(path)
    elif kind == "no plugin":
        digest = no_plugin_library(path).sha256
    words = {
        "missing": "cannot be read: No such file",
        "folder": "is not a regular file",
        "pipe": "is not a regular file",
        "loop": "cannot be read:",
        "not ELF": "TensorRT does not load the plugin library",
        "no plugin": "it must export getCreators or getPluginCreators",
    }
    assert words[kind] in refusal(device, special, PluginLibrary(path, digest))


def test_a_link_is_followed_and_what_it_leads_to_is_looked_at(
    device: Device, special: ModelPackage, library: PluginLibrary, tmp_path: Path
) -> None:
    link = tmp_path / "libspecial.so.1"
    link.symlink_to(library.path)
    assert opens(device, special, replace(library, path=link)).report.refusals == []
    library.path.chmod(0o666)
    assert "chmod go-w" in refusal(device, special, replace(library, path=link))


def test_two_libraries_of_one_name_are_refused(
    device: Device, special: ModelPackage, library: PluginLibrary, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir(mode=0o755)
    other = plugin_library(tmp_path / "more" / "libspecial.so", number=1)
    assert "two plugin libraries are called libspecial.so" in refusal(device, special, library, other)


def test_a_manifest_of_another_library_is_taken_out_of_use(
    device: Device, special: ModelPackage, library: PluginLibrary
) -> None:
    opens(device, special, library)
    (path,) = device.engines.glob("?" * 64 + ".json")
    content = json.loads(path.read_bytes())
    content["manifest"]["recipe"]["plugins"]["libspecial.so"] = "0" * 64
    path.write_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    report = opens(device, special, library).report.tensorrt
    assert report.supply.built == 1
    (told,) = report.supply.found_wrong
    assert f"built for plugins libspecial.so {'0' * 64}" in told
