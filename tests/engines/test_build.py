"""A build in a process of its own: what it says, and how it is ended."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.engines.build import NoEngine, build_engine
from edge_runtime.engines.errors import BuildTimeout
from edge_runtime.engines.facts import MachineFacts
from edge_runtime.engines.progress import BuildProgress
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.engines.wanted import EngineOptions, wanted_recipe
from edge_runtime.packages import ModelPackage, open_package
from tests.rigs.plugin_libraries import plugin_library, with_plugin_layer
from tests.rigs.small_disk import fill_up, small_disk
from tests.rigs.tensorrt_double import Faults
from tests.rigs.tensorrt_double.child import DoubleFolder, double_folder

ORIN = MachineFacts(gpu="Orin", sm="8.7", tensorrt="10.3.0", l4t="36.4.3")

pause = threading.Event()
"""Never set: a way to wait for another process without `time.sleep`."""


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DoubleFolder:
    """TensorRT 10.3 of an Orin, for processes that begin from now on."""
    folder = double_folder(tmp_path / "double")
    monkeypatch.setenv("PYTHONPATH", folder.environment()["PYTHONPATH"])
    return folder


@pytest.fixture
def recipe(small: ModelPackage) -> EngineRecipe:
    """What an Orin wants of the small model."""
    return wanted_recipe(small, ORIN, EngineOptions())


def children() -> set[int]:
    """Processes that have this one as their parent."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(status.parent.name))
    return found


def test_a_build_gives_an_engine_and_tells_how_far_it_is(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    said: list[BuildProgress] = []
    built = build_engine(small.weights, recipe, scratch=tmp_path, budget_s=300, progress=said.append)
    assert len(built.engine) > small.weights.stat().st_size
    assert built.device_memory_bytes > 0
    assert built.timing_cache
    phases = list(
        dict.fromkeys(progress.phase for progress in said)
    )  # each second the last one is told again
    assert phases[:2] == ["start", "parse"]
    assert phases[-1] == "save"
    assert any(progress.steps > 1 for progress in said)
    assert [path.name for path in tmp_path.iterdir()] == ["double"], "nothing is left in the scratch folder"
    (process,) = double.ended()
    assert process["misuses"] == []
    assert process["left"] == "nothing"
    again = build_engine(
        small.weights, recipe, scratch=tmp_path, budget_s=300, timing_cache=built.timing_cache
    )
    assert again.timing_cache


def test_a_build_stands_behind_everybody_else(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    double.set_faults(Faults(build_seconds=2.0))
    seen: list[tuple[int, str]] = []

    def look(progress: BuildProgress) -> None:
        if progress.phase in ("start", "parse", "save"):
            return
        for pid in children():
            command = Path(f"/proc/{pid}/cmdline")
            if b"edge_runtime.engines.build_process" in command.read_bytes():
                done = subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, check=False)
                seen.append((os.getpriority(os.PRIO_PROCESS, pid), done.stdout.strip()))

    build_engine(small.weights, recipe, scratch=tmp_path, budget_s=300, progress=look)
    assert {nice for nice, _ in seen} == {19}
    assert {io for _, io in seen} == {"idle"}


def test_a_build_that_takes_too_long_is_ended_as_a_whole(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    double.set_faults(Faults(build_seconds=600))
    before = children()
    with pytest.raises(BuildTimeout, match=r"not built within 3 s, and the build was ended: .*build_budget"):
        build_engine(small.weights, recipe, scratch=tmp_path, budget_s=3)
    assert children() == before
    assert [path.name for path in tmp_path.iterdir()] == ["double"]


def test_a_wait_that_is_interrupted_ends_the_build(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    double.set_faults(Faults(build_seconds=600))
    before = children()

    def interrupt(progress: BuildProgress) -> None:
        if progress.phase != "start":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_engine(small.weights, recipe, scratch=tmp_path, budget_s=300, progress=interrupt)
    assert children() == before
    assert [path.name for path in tmp_path.iterdir()] == ["double"]


def test_a_build_that_is_killed_is_said_to_have_been(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    double.set_faults(Faults(build_seconds=600))
    before = children()

    def kill(progress: BuildProgress) -> None:
        if progress.phase not in ("start", "parse"):
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(NoEngine, match="ended by SIGKILL: the system needed its memory") as caught:
        build_engine(small.weights, recipe, scratch=tmp_path, budget_s=300, progress=kill)
    assert caught.value.kind == "killed"


def test_what_a_library_prints_without_end_fills_neither_the_disk_nor_the_memory(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    shouting = (
        "import os, sys\nfor _ in range(64):\n    os.write(2, b'x' * 131072)\nos.write(2, b'\\nthe end\\n')\n"
    )
    (double.path / "sitecustomize.py").write_text(f"{shouting}os._exit(9)\n", encoding="utf-8")
    with pytest.raises(NoEngine, match="left with 9 and no reason") as caught:
        build_engine(small.weights, recipe, scratch=tmp_path, budget_s=300)
    assert caught.value.log[-1] == "the end"
    assert sum(map(len, caught.value.log)) < 5000


def test_a_plugin_library_goes_into_the_process_of_the_build(
    double: DoubleFolder, small: ModelPackage, tmp_path: Path
) -> None:
    package = open_package(with_plugin_layer(small.directory, tmp_path / "package"))
    library = plugin_library(tmp_path / "libspecial.so")
    wanted = wanted_recipe(package, ORIN, EngineOptions(plugins=(library,)))
    built = build_engine(package.weights, wanted, scratch=tmp_path, budget_s=300, plugins=(library,))
    assert len(built.engine) > package.manifest.weights.bytes
    library.path.chmod(0o777)
    with pytest.raises(NoEngine, match="may be written by others") as caught:
        build_engine(package.weights, wanted, scratch=tmp_path, budget_s=300, plugins=(library,))
    assert caught.value.kind == "plugin"
    double.check()


def test_a_parent_that_dies_takes_its_build_with_it(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    double.set_faults(Faults(build_seconds=600))
    script = (
        "import sys; from pathlib import Path\n"
        "from edge_runtime.engines.build import build_engine\n"
        "from edge_runtime.engines.recipe import EngineRecipe\n"
        "recipe = EngineRecipe.model_validate_json(sys.stdin.read(), strict=False)\n"
        "build_engine(Path(sys.argv[1]), recipe, scratch=Path(sys.argv[2]), budget_s=300,"
        " progress=lambda p: print(p.phase, flush=True))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(small.weights), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        parent.stdin.write(recipe.model_dump_json())
        parent.stdin.close()
        for line in parent.stdout:
            if line.strip() not in ("start", "parse"):
                break
        (build,) = (
            int(stat.parent.name)
            for stat in Path("/proc").glob("[0-9]*/stat")
            if stat.read_text().rpartition(")")[2].split()[1] == str(parent.pid)
        )
        parent.kill()
        parent.wait()
        while Path(f"/proc/{build}").exists() and "Z" not in Path(f"/proc/{build}/stat").read_text():
            pause.wait(0.05)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


@pytest.mark.parametrize(
    ("faults", "kind", "says"),
    [
        (Faults(refused_operators=("Conv",)), "refused", "cannot read the model: .*Conv"),
        (
            Faults(build_fails=-1, build_lines=("Error Code 2: OutOfMemory (Requested size was 9 bytes.)",)),
            "memory",
            "not enough memory",
        ),
        (Faults(deserialise_fails=-1), "refused", "refuses the engine that it has just built"),
    ],
)
def test_what_tensorrt_says_reaches_whoever_waits(
    double: DoubleFolder,
    small: ModelPackage,
    recipe: EngineRecipe,
    tmp_path: Path,
    faults: Faults,
    kind: str,
    says: str,
) -> None:
    double.set_faults(faults)
    with pytest.raises(NoEngine, match=says) as caught:
        build_engine(small.weights, recipe, scratch=tmp_path, budget_s=300)
    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)


def test_a_disk_that_fills_up_is_told_from_a_network_that_cannot_be_built(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        filler = fill_up(disk)
        os.truncate(filler, filler.stat().st_size - (64 << 10))
        with pytest.raises(NoEngine, match="No space left on device") as caught:
            build_engine(small.weights, recipe, scratch=disk, budget_s=300)
    assert caught.value.kind == "room"
    double.check()


def test_a_file_that_was_exchanged_meanwhile_is_not_built(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(small.weights.read_bytes() + b"\x00")
    with pytest.raises(NoEngine, match=r"model\.onnx is not the file that the engine was asked for"):
        build_engine(other, recipe, scratch=tmp_path, budget_s=300)
    with pytest.raises(NoEngine, match="No such file"):
        build_engine(tmp_path / "absent.onnx", recipe, scratch=tmp_path, budget_s=300)


def test_another_tensorrt_than_was_asked_for_builds_nothing(
    double: DoubleFolder, small: ModelPackage, recipe: EngineRecipe, tmp_path: Path
) -> None:
    newer = recipe.model_copy(update={"machine": replace(ORIN, tensorrt="10.4.0.26")})
    with pytest.raises(
        NoEngine, match=r"asked to build for TensorRT 10\.4\.0\.26, and 10\.3\.0 is installed here"
    ):
        build_engine(small.weights, newer, scratch=tmp_path, budget_s=300)


def test_without_tensorrt_the_child_says_what_to_install(
    small: ModelPackage, recipe: EngineRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorrt.py").write_text("raise ModuleNotFoundError(name='tensorrt')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(NoEngine, match="pip install tensorrt cuda-bindings"):
        build_engine(small.weights, recipe, scratch=tmp_path, budget_s=300)


def test_a_request_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-m", "edge_runtime.engines.build_process", str(tmp_path / "request.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.startswith('{"failed": {"kind": "usage", "text": ')
    assert done.stdout.count("\n") == 1
