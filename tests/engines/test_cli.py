"""`edge-runtime engine` as its user, on the double of TensorRT; builds are processes of their own, as always."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_runtime.cli import main
from edge_runtime.cli.engine_build import shown
from edge_runtime.engines.holds import Role
from edge_runtime.engines.progress import BuildProgress
from edge_runtime.engines.recipe import TensorDeclaration
from edge_runtime.engines.store import EngineStore
from edge_runtime.packages import ModelPackage, open_package
from tests.conftest import REPOSITORY
from tests.rigs.devices import POLICY
from tests.rigs.engine_files import add, recipe_for
from tests.rigs.plugin_libraries import plugin_library, with_plugin_layer
from tests.rigs.tensorrt_double import Faults
from tests.rigs.tensorrt_double.child import DoubleFolder, double_folder, in_this_process


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Machine:
    """A machine with the double of TensorRT, and a state directory."""

    double: DoubleFolder
    state: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> Outcome:
        """One command line in this process, with TensorRT."""
        with in_this_process(self.double):
            return self.without(*arguments)

    def begun(self, *arguments: object) -> "subprocess.Popen[str]":
        """One command line in a process of its own, with TensorRT."""
        return subprocess.Popen(
            [sys.executable, "-m", "edge_runtime.cli.main", *map(str, arguments)],
            env=self.double.environment(),
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: "subprocess.Popen[str]") -> Outcome:
        """What came of it."""
        try:
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
        return Outcome(process.returncode, out, err)

    def without(self, *arguments: object) -> Outcome:
        """One command line in this process, without TensorRT."""
        self.capsys.readouterr()
        code = main.run([str(argument) for argument in arguments])
        captured = self.capsys.readouterr()
        return Outcome(code, captured.out, captured.err)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    monkeypatch.setenv("EDGE_RUNTIME_STATE", str(tmp_path / "state"))
    double = double_folder(tmp_path / "double")
    monkeypatch.setenv("PYTHONPATH", double.environment()["PYTHONPATH"])  # of the builds
    return Machine(double, tmp_path / "state", capsys)


def configuration(folder: Path, package: ModelPackage, **model: Any) -> Path:
    settings = {"package": str(package.directory), "accept_licences": ["NOASSERTION"], **model}
    source = {"kind": "synthetic", "fps": 5, "width": 320, "height": 240}
    camera = {"model": "faces", "data_class": "internal", "source": source, "rules": []}
    path = folder / "site.yaml"
    document = {"version": 1, "models": {"faces": settings}, "cameras": {"yard": camera}}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def everything(folder: Path) -> dict[str, int]:
    """Each file and folder below one, with the time at which it was changed last."""
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in folder.rglob("*")}


def test_an_engines_life(machine: Machine, small: ModelPackage, tmp_path: Path) -> None:
    site = configuration(tmp_path, small, providers=["tensorrt", "cpu"])
    built = machine.ended(machine.begun("engine", "build", site))
    assert built.code == 0, built.err
    assert built.out.startswith("faces: engine ")
    assert built.out.endswith("loaded and proved\n")
    assert "faces: Building Engine: 0 of" in built.err, "not a terminal: a line now and then"
    assert "\x1b" not in built.err

    again = machine("engine", "build", site, "--json")
    (record,) = again.json()["built"]
    assert (record["model"], record["built"], record["problem"]) == ("faces", 0, None)
    assert record["memory"]["weights"] > small.weights.stat().st_size
    key = record["key"]

    listed = machine.without("engine", "list")
    assert listed.code == 0
    assert key[:12] in listed.out
    assert "is assigned to faces" in listed.out
    inspected = machine.without("engine", "inspect", key[:6])
    assert f"key           {key}" in inspected.out
    assert "built for     Orin, SM 8.7, TensorRT 10.3.0" in inspected.out
    assert "precision     as-exported, STRONGLY_TYPED, TF32" in inspected.out
    whole = machine.without("engine", "inspect", key, "--json").json()
    assert whole["manifest"]["recipe"]["machine"]["gpu"] == "Orin"

    before = everything(machine.state)
    verified = machine("engine", "verify", "--package", small.directory)
    assert (verified.code, verified.out) == (0, f"{key[:12]}  read, compared, loaded and proved\n")

    assert machine("engine", "verify").out == f"{key[:12]}  read, compared and loaded\n"
    assert everything(machine.state) == before, "whoever looks writes nothing"

    kept = machine.without("engine", "prune")
    assert "kept: it is assigned to faces" in kept.out
    assert "0.0 MiB freed" in kept.out
    machine.double.check()


def test_damage_is_found_without_tensorrt_and_listed_with_its_reason(
    machine: Machine, small: ModelPackage, tmp_path: Path
) -> None:
    assert machine("engine", "build", small.directory).code == 0
    (engine,) = (machine.state / "engines").glob("*.engine")
    data = bytearray(engine.read_bytes())
    data[len(data) // 2] ^= 1
    engine.write_bytes(data)
    found = machine.without("engine", "verify", "--json")
    assert found.code == 1
    assert "its bytes were changed" in found.json()["engines"][0]["problem"]
    assert "TensorRT is not installed here" in found.json()["note"]

    rebuilt = machine("engine", "build", small.directory)
    assert rebuilt.code == 0, rebuilt.err
    assert "taken out of use" in rebuilt.err
    listed = machine.without("engine", "list")
    assert "in quarantine: " in listed.out
    assert "its bytes were changed" in listed.out
    record = machine.without("engine", "list", "--json").json()
    assert "its bytes were changed" in record["quarantined"][0]["reason"]
    cleared = machine.without("engine", "prune", "--quarantine", "--dry-run")
    assert "1 in quarantine would be removed" in cleared.out
    cleared = machine.without("engine", "prune", "--quarantine", "--json").json()
    assert cleared["quarantine_cleared"] == 1
    assert len(cleared["removed"]) == 1, "nobody holds the engine of a package"
    store = EngineStore(machine.state / "engines")
    assert store.entries() == []
    assert store.quarantined() == ()


def test_a_build_that_fails_is_one_sentence_and_may_be_asked_for_again(
    machine: Machine, small: ModelPackage
) -> None:
    machine.double.set_faults(Faults(build_fails=-1, build_lines=("Error Code 10: no tactic",)))
    failed = machine("engine", "build", small.directory)
    assert failed.code == 1
    assert failed.out == ""
    (error,) = [line for line in failed.err.splitlines() if line.startswith("error: ")]
    assert "Error Code 10: no tactic" in error
    before = everything(machine.state)
    assert "not built: " in machine.without("engine", "list").out
    assert everything(machine.state) == before, "whoever looks writes nothing"
    machine.double.set_faults(Faults())
    assert machine("engine", "build", small.directory).code == 0, "a person asked: it is tried at once"
    assert "not built: " not in machine.without("engine", "list").out


def test_a_build_that_takes_too_long_ends(machine: Machine, small: ModelPackage) -> None:
    machine.double.set_faults(Faults(build_seconds=600))
    late = machine("engine", "build", small.directory, "--budget", "4", "--json")
    assert late.code == 1
    assert "was not built within 4 s" in late.json()["built"][0]["problem"]


@pytest.mark.timeout(300)
def test_a_builder_that_is_killed_and_two_that_come_at_once(machine: Machine, small: ModelPackage) -> None:
    machine.double.set_faults(Faults(build_seconds=600))
    killed = machine.begun("engine", "build", small.directory)
    assert killed.stderr is not None
    for line in killed.stderr:
        if "Building Engine" in line:
            break
    listed = machine.without("engine", "list")
    assert listed.out == "no engine is stored\n", "a build that is under way is no failure"
    killed.kill()
    machine.ended(killed)
    machine.double.set_faults(Faults())
    both = [machine.begun("engine", "build", small.directory) for _ in range(2)]
    ends = [machine.ended(process) for process in both]
    assert [end.code for end in ends] == [0, 0], ends
    told = sorted("was there already" in end.out for end in ends)
    assert told == [False, True], "one builds, the other waits for it"
    assert len(EngineStore(machine.state / "engines").entries()) == 1
    assert not (machine.state / "engines" / "building").exists(), "what the killed one left"
    assert "not built" not in machine.without("engine", "list").out
    machine.double.check()


def test_without_tensorrt_a_build_says_what_to_install(machine: Machine, small: ModelPackage) -> None:
    found = machine.without("engine", "build", small.directory)
    assert found.code == 2
    assert found.err == (
        "error: TensorRT is not installed here: `pip install tensorrt cuda-bindings` brings it to a machine with "
        "an NVIDIA GPU\n"
    )
    assert not machine.state.exists()


def test_targets_that_cannot_be_used(machine: Machine, small: ModelPackage, tmp_path: Path) -> None:
    site = configuration(tmp_path, small)
    nothing = machine.without("engine", "build", site)
    assert (nothing.code, "no model has tensorrt among its providers" in nothing.err) == (2, True)
    unknown = machine.without("engine", "build", site, "--model", "cars")
    assert (unknown.code, "there is no model named cars; models are faces" in unknown.err) == (2, True)
    package = machine.without("engine", "build", small.directory, "--model", "cars")
    assert (package.code, "--model means a model of a configuration" in package.err) == (2, True)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "weights.onnx").write_bytes(b"\x08\x08")
    for name, why in (
        ("absent", "there is no such file or folder"),
        ("fifo", "neither a file nor a folder"),
        ("folder", "neither a configuration nor a model package"),
        ("n" * 300, "cannot be read: File name too long"),
        ("weights.onnx", "nor a model package; `edge-runtime model import` makes one of an ONNX file"),
    ):
        refused = machine.without("engine", "build", tmp_path / name)
        assert (refused.code, refused.err.count("\n"), why in refused.err) == (2, 1, True), refused.err


def test_keys_and_directories_that_are_not_there(machine: Machine) -> None:
    assert machine.without("engine", "list").code == 2, "no state directory"
    machine.state.mkdir()
    empty = machine.without("engine", "list")
    assert (empty.code, empty.out) == (0, "no engine is stored\n")
    for command in ("inspect", "verify"):
        found = machine.without("engine", command, "abc")
        assert found.code == 1
        assert found.err.startswith("error: there is no engine abc; ")
        assert "no key was given" in machine.without("engine", command, "").err
    assert machine.without("engine", "verify").out.startswith("no engine is stored\n")


def test_the_engines_of_a_configuration_stay_when_others_go(
    machine: Machine, small: ModelPackage, tmp_path: Path
) -> None:
    assert machine("engine", "build", small.directory).code == 0
    site = configuration(tmp_path, small, providers=["tensorrt"])
    store = EngineStore(machine.state / "engines")
    (entry,) = store.entries()
    store.hold("gone", entry.key, Role.ASSIGNED)
    kept = machine("engine", "prune", "--config", site)
    assert kept.code == 0, kept.err
    assert "kept: it is assigned\n" in kept.out
    assert store.holds() == (), "of a model that the configuration does not have"
    unknown = machine.without("engine", "prune", "--config", site)
    assert unknown.code == 1
    assert "which engines" in unknown.err
    assert "cannot be said: TensorRT is not installed here" in unknown.err
    assert store.entries() == [entry]

    elsewhere = configuration(tmp_path, small, providers=["cpu"])
    store.hold("gone", entry.key, Role.LAST_GOOD)
    looked = machine.without("engine", "prune", "--config", elsewhere, "--dry-run")
    assert looked.out.startswith(f"{entry.key[:12]}  would be removed")
    assert [len(each.holds) for each in store.entries()] == [1], "a look changes nothing"
    assert machine.without("engine", "prune", "--config", elsewhere).code == 0, "and it needs no TensorRT"
    assert (store.holds(), store.entries()) == ((), [])


def test_a_configuration_names_where_its_engines_lie(
    machine: Machine, small: ModelPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGE_RUNTIME_STATE")
    monkeypatch.setattr("edge_runtime.state.default_state_path", lambda: tmp_path / "default")
    site = configuration(tmp_path, small, providers=["cpu"])
    document = yaml.safe_load(site.read_text(encoding="utf-8"))
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    document["delivery"] = {"state": "mine", "policy": "policy.yaml"}
    site.write_text(yaml.safe_dump(document), encoding="utf-8")
    absent = machine.without("engine", "prune", "--config", site)
    assert (absent.code, f"there is no state directory {tmp_path / 'mine'}" in absent.err) == (2, True)
    add(EngineStore(tmp_path / "mine" / "engines"))
    assert ", 0.0 MiB\n" in machine.without("engine", "prune", "--config", site).out
    assert EngineStore(tmp_path / "mine" / "engines").entries() == []


@pytest.mark.timeout(300)
def test_accuracy_is_measured_on_an_engine(
    machine: Machine, yolox_package: Path, truth: Path, tmp_path: Path
) -> None:
    whole = json.loads((truth / "coco_val128" / "instances.json").read_text(encoding="utf-8"))
    few = {image["id"] for image in whole["images"][:2]}
    whole["images"] = [image for image in whole["images"] if image["id"] in few]
    whole["annotations"] = [one for one in whole["annotations"] if one["image_id"] in few]
    annotations = tmp_path / "annotations.json"
    annotations.write_text(json.dumps(whole), encoding="utf-8")
    package = with_plugin_layer(yolox_package, tmp_path / "package")
    library = plugin_library(tmp_path / "libspecial.so")
    pictures = ["--images", truth / "coco_val128" / "images", "--annotations", annotations]
    asked = ["eval", package, *pictures, "--json"]
    reference = machine.without(*asked).json()
    found = machine(*asked, "--provider", "tensorrt", "--plugin", library.path)
    assert found.code == 0, found.err
    assert found.json()["map"] == reference["map"] > 0
    assert (reference["provider"], found.json()["provider"]) == ("cpu", "tensorrt")
    bare = machine(*asked, "--provider", "tensorrt")
    assert (bare.code, bare.out, bare.err.count("\n")) == (1, "", 1), "the CPU's figures are not the engine's"
    assert bare.err.startswith("error: nothing was measured: tensorrt was asked for but cpu runs the model")
    assert "Unchanged" in bare.err
    wrong = machine.without(*asked, "--plugin", library.path)
    assert (wrong.code, "add --provider tensorrt" in wrong.err) == (2, True)
    (entry,) = EngineStore(machine.state / "engines").entries()
    assert entry.holds == (), "a measurement keeps no engine"


def test_a_bench_compares_with_the_engine_alone(
    machine: Machine, small: ModelPackage, media: Path, tmp_path: Path
) -> None:
    package = open_package(with_plugin_layer(small.directory, tmp_path / "package"))
    library = plugin_library(tmp_path / "libspecial.so")
    plugins = {"plugins": [{"path": str(library.path), "sha256": library.sha256}]}
    site = configuration(tmp_path, package, providers=["tensorrt", "cpu"], tensorrt=plugins)
    document = yaml.safe_load(site.read_text(encoding="utf-8"))
    document["cameras"]["yard"]["source"] = {
        "kind": "file",
        "path": str(media / "vtest.avi"),
        "pacing": "every_frame",
    }
    site.write_text(yaml.safe_dump(document), encoding="utf-8")
    found = machine("bench", site, "--pairs", "1", "--seconds", "0.2", "--json")
    assert found.code == 0, found.err
    report = found.json()
    assert list(report["bare_fps"]) == ["tensorrt, one run at a time"]
    assert report["ratio_to_bare"] > 0
    assert report["throughput"]["execution"].startswith("2 runs at a time")


def test_on_a_terminal_progress_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with shown("faces") as progress:
        progress(BuildProgress("parse", 0, 0))
        progress(BuildProgress("Tactics", 3, 40))
    assert capsys.readouterr().err == "\r\x1b[Kfaces: parse\r\x1b[Kfaces: Tactics: 3 of 40\r\x1b[K"


def test_names_out_of_a_manifest_drive_no_terminal(machine: Machine) -> None:
    evil = "im\x1b]0;evil\x07\u202e"
    store = EngineStore(machine.state / "engines")
    named = recipe_for(
        inputs=(TensorDeclaration(name=evil, dtype="float32", shape=(1, 3, 8, 8)),), profiles=()
    )
    add(store, named)
    add(store)
    path = store.folder.manifest(recipe_for().key)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), evil: 1}), encoding="utf-8")
    for command in (["list"], ["inspect", named.key], ["inspect", recipe_for().key], ["verify"]):
        told = machine.without("engine", *command)
        assert all(line.isprintable() for line in (told.out + told.err).splitlines()), told
        assert "im\\u001b]0;evil\\u0007\\u202e" in told.out


def test_an_engine_with_a_plugin_library(machine: Machine, small: ModelPackage, tmp_path: Path) -> None:
    package = with_plugin_layer(small.directory, tmp_path / "package")
    library = plugin_library(tmp_path / "libspecial.so")
    built = machine("engine", "build", package, "--plugin", library.path)
    assert built.code == 0, built.err
    (key,) = (path.stem for path in (machine.state / "engines").glob("*.engine"))
    told = machine.without("engine", "inspect", key).out
    assert f"plugin        libspecial.so, sha256 {library.sha256}" in told
    bare = machine("engine", "verify")
    assert bare.code == 0
    assert "not loaded: it needs the plugin library libspecial.so" in bare.out
    loaded = machine("engine", "verify", "--plugin", library.path, "--package", package)
    assert loaded.out == f"{key[:12]}  read, compared, loaded and proved\n"
    absent = machine("engine", "build", package, "--plugin", tmp_path / "absent.so")
    assert (absent.code, absent.err.count("\n")) == (2, 1)
    site = configuration(tmp_path, small, providers=["tensorrt"])
    twice = machine("engine", "build", site, "--plugin", library.path)
    assert (twice.code, "names its plugin libraries itself" in twice.err) == (2, True)
