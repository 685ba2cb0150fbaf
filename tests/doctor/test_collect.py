"""Facts of a tree that looks like a board's, and of this machine."""

import json
import shutil
from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.config import load_config
from edge_runtime.doctor import Facts, Look, collect, judge, read_facts, screen_lines
from edge_runtime.doctor.collect import configuration_facts
from edge_runtime.doctor.facts import ModelFacts
from edge_runtime.doctor.look import clean, run_command, sees_the_system
from edge_runtime.errors import ConfigError
from edge_runtime.health.reading import unknown
from tests.doctor.trees import NANO_COMMANDS, Commands, look_at, nano_software
from tests.rigs.boards import FixedClock, orin_nano

SITE = """\
version: 1
models:
  people: {package: people, providers: [tensorrt, cpu]}
  faces: {package: faces}
cameras:
  gate:
    model: people
    source:
      kind: gstreamer
      pipeline: rtspsrc location=rtsp://admin:tiger@cam/1 ! rtph264depay ! nvv4l2decoder ! nvvidconv
  yard: {model: faces, source: {kind: synthetic}}
"""


def nano(tmp_path: Path, *, sees_the_system: bool = True) -> Facts:
    environment, system = nano_software(orin_nano(tmp_path))
    shared = system.parent.parent / "python3/dist-packages"
    path = (environment, system, shared) if sees_the_system else (environment,)
    return collect(look_at(tmp_path, Commands(NANO_COMMANDS), path), FixedClock(), tmp_path / "state/deep")


def test_an_orin_nano(tmp_path: Path) -> None:
    facts = nano(tmp_path)
    assert facts.machine.model == "NVIDIA Jetson Orin Nano Developer Kit"
    assert (facts.machine.system, facts.machine.kernel) == ("Ubuntu 22.04.5 LTS", "5.15.148-tegra")
    assert (facts.machine.architecture, facts.machine.system_python) == ("aarch64", "3.10")
    assert facts.jetson is not None
    assert (facts.jetson.l4t, facts.jetson.soc, facts.jetson.power_mode) == (
        "36.4.3",
        "tegra234",
        "MAXN_SUPER",
    )
    assert facts.jetson.power_modes == {"OTHER": 9, "MAXN_SUPER": 2}
    assert facts.unknown["jetson.jetpack"] == "the package nvidia-jetpack is not installed"
    assert facts.gpu is not None
    assert (facts.gpu.name, facts.gpu.compute_capability) == ("Orin (nvgpu)", "8.7")
    assert facts.gpu.driver == "540.4.0"
    assert facts.unknown["gpu.memory_bytes"] == "it shares the processors' memory"
    assert facts.clocks["cpu"].model_dump() == {
        "now_mhz": 729.6,
        "allowed_mhz": 1728.0,
        "highest_mhz": 1728.0,
    }
    assert facts.clocks["17000000_gpu"].now_mhz == 305.0
    assert facts.unknown["clocks.17000000_gpu.highest_mhz"] == "the kernel lists no steps of it"
    assert facts.cuda.model_dump() == {
        "version": "12.6.11",
        "nvcc": "/usr/local/cuda/bin/nvcc",
        "nvrtc": "libnvrtc.so.12",
    }
    assert facts.packages == {
        "libnvinfer10": "10.3.0.30-1+cuda12.5",
        "python3-libnvinfer": "10.3.0.30-1+cuda12.5",
        "nvidia-l4t-gstreamer": "36.4.3-20250107174145",
    }
    assert facts.modules["tensorrt"].model_dump() == {"version": "10.3.0", "visible": True, "system": True}
    assert facts.modules["pycuda"].model_dump() == {"version": "2026.1", "visible": True, "system": False}
    assert facts.unknown["modules.opencv.version"] == "no metadata names its version"
    assert "cuda-bindings" not in facts.modules
    assert facts.video.gstreamer == "1.20.3"
    assert facts.video.elements["nvv4l2decoder"]
    assert not facts.video.elements["nvarguscamerasrc"]
    assert facts.disk.path == str(tmp_path / "state/deep")
    assert facts.disk.free_bytes
    assert facts.configuration is None
    texts = [item.text for item in judge(facts) if item.severity == "ok"]
    assert "TensorRT 10.3.0.30 is installed for this Python" in texts
    assert max(map(len, screen_lines(facts, judge(facts)))) <= 80


def test_an_environment_that_does_not_see_the_system(tmp_path: Path) -> None:
    facts = nano(tmp_path, sees_the_system=False)
    assert facts.modules["tensorrt"].model_dump() == {"version": "10.3.0", "visible": False, "system": True}
    texts = [item.text for item in judge(facts)]
    assert any("--system-site-packages" in text and "TensorRT's Python module" in text for text in texts)


def test_facts_survive_their_own_json(tmp_path: Path) -> None:
    facts = nano(tmp_path)
    assert read_facts(json.dumps({"facts": facts.model_dump(mode="json"), "findings": [1]})) == facts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "the file"),
        ("[]", "the file"),
        ("{}", "facts"),
        ('{"facts": {"machine": {}}}', "facts.machine"),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(
        ConfigError, match="these are not facts that `edge-runtime doctor --json` printed"
    ) as said:
        read_facts(text)
    assert words in str(said.value)
    assert "\n" not in str(said.value)


def test_a_null_needs_a_reason_and_a_reason_a_null(tmp_path: Path) -> None:
    record = nano(tmp_path).model_dump(mode="json")
    without = {**record, "unknown": {}}
    with pytest.raises(ConfigError, match="null without a reason"):
        read_facts(json.dumps({"facts": without}))
    idle = {**record, "unknown": {**record["unknown"], "cuda.version": "odd"}}
    with pytest.raises(ConfigError, match="which is not null"):
        read_facts(json.dumps({"facts": idle}))


def test_of_a_pipeline_only_the_elements_are_kept(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    asked = configuration_facts(load_config(tmp_path / "site.yaml"))
    assert asked.providers == {"people": ("tensorrt", "cpu"), "faces": ("cpu",)}
    assert asked.sources == ("gstreamer", "synthetic")
    assert asked.elements == ("nvv4l2decoder", "nvvidconv", "rtph264depay", "rtspsrc")
    assert "tiger" not in asked.model_dump_json()
    assert not asked.is_device


def test_every_configured_model_is_opened(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    asked: list[tuple[str, tuple[str, ...], float]] = []

    def open_model(name: str, providers: tuple[str, ...], timeout_s: float) -> ModelFacts:
        asked.append((name, providers, timeout_s))
        return ModelFacts(requested=providers, effective=providers[0], seconds=0.5)

    commands = Commands(NANO_COMMANDS)
    facts = collect(
        look_at(tmp_path, commands, ()),
        FixedClock(),
        tmp_path,
        loaded=load_config(tmp_path / "site.yaml"),
        timeout_s=7,
        open_model=open_model,
    )
    assert asked == [("people", ("tensorrt", "cpu"), 7), ("faces", ("cpu",), 7)]
    assert set(facts.models) == {"people", "faces"}
    assert ("gst-inspect-1.0", "--exists", "nvv4l2decoder") in commands.ran
    assert facts.jetson is None
    assert facts.unknown["jetson"] == "this machine is not a Jetson"


def test_a_pc_by_its_driver(tmp_path: Path) -> None:
    said: dict[tuple[str, ...], str] = {
        ("nvidia-smi",): "NVIDIA H200, 9.0, 570.86.15, 143771\nNVIDIA H200, 9.0, 570.86.15, 143771\n"
    }
    facts = collect(look_at(tmp_path, Commands(said), ()), FixedClock(), tmp_path)
    assert facts.gpu is not None
    assert facts.gpu.model_dump() == {
        "name": "NVIDIA H200",
        "compute_capability": "9.0",
        "driver": "570.86.15",
        "memory_bytes": 143771 << 20,
    }


def test_a_pc_whose_driver_is_loaded_but_has_no_tool(tmp_path: Path) -> None:
    proc = tmp_path / "proc/driver/nvidia"
    (proc / "gpus/0000:01:00.0").mkdir(parents=True)
    (proc / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)\n"
    )
    (proc / "gpus/0000:01:00.0/information").write_text("Model: \t\t NVIDIA GeForce RTX 3060\nIRQ: 1\n")
    facts = collect(look_at(tmp_path, Commands({}), ()), FixedClock(), tmp_path)
    assert facts.gpu is not None
    assert (facts.gpu.name, facts.gpu.driver) == ("NVIDIA GeForce RTX 3060", "580.95.05")
    assert facts.unknown["gpu.compute_capability"] == "nvidia-smi is not installed"


def test_a_driver_that_does_not_answer_is_quoted(tmp_path: Path) -> None:
    look = look_at(tmp_path, Commands({}), ())
    look.run = lambda command, _timeout_s: unknown(f"{command[0]} failed with 9: it couldn't communicate")
    texts = [item.text for item in judge(collect(look, FixedClock(), tmp_path))]
    assert (
        "there is no NVIDIA GPU, or its driver is not loaded (nvidia-smi failed with 9: it couldn't communicate): "
        "models run on the CPU"
    ) in texts


def test_a_gpu_that_may_not_run_as_fast_as_it_can(tmp_path: Path) -> None:
    board = orin_nano(tmp_path)
    board.put("/sys/class/devfreq/17000000.gpu/available_frequencies", "306000000 612000000 1377000000")
    facts = collect(look_at(tmp_path, Commands({}), ()), FixedClock(), tmp_path)
    texts = [item.text for item in judge(facts)]
    assert (
        "17000000_gpu may run at 1020 of 1377 MHz: the power mode or heat holds it back, see edge-runtime health"
    ) in texts


@pytest.mark.parametrize(
    ("text", "sees"),
    [
        ("home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.10.12\n", True),
        ("include-system-site-packages = TRUE", True),
        ("include-system-site-packages = false\n", False),
        ("\xff\xfe", False),
        (None, False),
    ],
)
def test_whether_an_environment_sees_the_system(tmp_path: Path, text: str | None, sees: bool) -> None:
    if text is not None:
        (tmp_path / "pyvenv.cfg").write_text(text, encoding="latin-1")
    assert sees_the_system(tmp_path) is sees


def test_gi_stands_in_where_there_is_no_gst_inspect(tmp_path: Path) -> None:
    import sys

    said: dict[tuple[str, ...], str] = {(sys.executable, "-c"): "GStreamer 1.22.0\nrtspsrc\n"}
    facts = collect(look_at(tmp_path, Commands(said), ()), FixedClock(), tmp_path)
    assert facts.video.gstreamer == "1.22.0"
    assert facts.video.elements == {"rtspsrc": True, "h264parse": False, "avdec_h264": False}


def test_this_machine_by_its_own_commands(tmp_path: Path) -> None:
    facts = collect(Look.at(SystemClock()), SystemClock(), tmp_path)
    assert facts.machine.architecture in ("x86_64", "aarch64")
    assert facts.modules["numpy"].visible
    assert facts.modules["onnxruntime"].version
    assert facts.memory.total_bytes
    assert (facts.video.gstreamer is not None) == (shutil.which("gst-inspect-1.0") is not None)


def test_commands_never_raise() -> None:
    assert run_command(["/nowhere/at/all"], 1.0).reason == "/nowhere/at/all is not installed"
    assert run_command(["sh", "-c", "echo bad; exit 3"], 5.0).reason == "sh failed with 3: bad"
    assert run_command(["sleep", "60"], 0.05).reason == "sleep did not answer within 0.05 s"
    assert "does not start" in run_command(["/"], 1.0).reason
    assert run_command(["true"], 5.0).value == ""


def test_what_is_shown_has_no_control_characters() -> None:
    assert clean("a\x1b[31mb\n\tc\x00  d" + "x" * 500) == ("a [31mb c d" + "x" * 500)[:120]
