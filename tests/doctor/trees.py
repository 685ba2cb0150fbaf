"""A machine's tree with what the doctor reads beyond health's files, and a stand-in for its commands."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_runtime.doctor.look import Interpreter, Look
from edge_runtime.health import Reading
from edge_runtime.health.reading import unknown
from edge_runtime.health.sysfiles import SysFiles
from tests.rigs.boards import Board, FixedClock

STATUS = """\
Package: libnvinfer10
Status: install ok installed
Architecture: arm64
Version: 10.3.0.30-1+cuda12.5
Description: TensorRT
 a second line: of it

Package: python3-libnvinfer
Status: install ok installed
Version: 10.3.0.30-1+cuda12.5

Package: nvidia-jetpack
Status: deinstall ok config-files
Version: 6.1+b100

Package: nvidia-l4t-gstreamer
Version: 36.4.3-20250107174145
Status: install ok installed

Package: bash
Status: install ok installed
Version: 5.1
"""


class Commands:
    """Answers commands by their first words, and remembers what was run."""

    def __init__(self, answers: Mapping[tuple[str, ...], str]) -> None:
        self.answers = answers
        self.ran: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str], timeout_s: float) -> Reading[str]:
        assert timeout_s > 0
        self.ran.append(tuple(command))
        for words, answer in self.answers.items():
            if tuple(command[: len(words)]) == words:
                return Reading(answer)
        return unknown(f"{command[0]} is not installed")


NANO_COMMANDS = {
    (
        "gst-inspect-1.0",
        "--version",
    ): "gst-inspect-1.0 version 1.20.3\nGStreamer 1.20.3\nhttps://launchpad.net\n",
    ("gst-inspect-1.0", "--exists", "nvv4l2decoder"): "",
    ("gst-inspect-1.0", "--exists", "rtspsrc"): "",
    ("nvidia-smi",): "Orin (nvgpu), [N/A], 540.4.0, [N/A]\n",
    ("uname", "-m"): "aarch64\n",
}


def module(folder: Path, name: str, distribution: str, version: str | None) -> None:
    """A package with metadata, as pip and apt leave it."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    if version is not None:
        info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")


def nano_software(board: Board) -> tuple[Path, Path]:
    """JetPack 6.2's packages and modules below a board's root; the environment's folder and the system's."""
    root = board.root
    board.put("/etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.5 LTS"')
    board.put("/proc/sys/kernel/osrelease", "5.15.148-tegra")
    board.put("/var/lib/dpkg/status", STATUS)
    board.put("/usr/local/cuda/version.json", '{"cuda" : {"name" : "CUDA SDK", "version" : "12.6.11"}}')
    board.put("/usr/local/cuda/bin/nvcc", "x")
    board.put("/usr/local/cuda/lib64/libnvrtc.so.12", "x")
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3").symlink_to("python3.10")
    system = root / "usr/lib/python3.10/dist-packages"
    module(system, "tensorrt", "tensorrt", "10.3.0")
    module(root / "usr/lib/python3/dist-packages", "gi", "PyGObject", "3.42.1")
    module(root / "usr/lib/python3/dist-packages", "cv2", "", None)
    environment = root / "venv/site-packages"
    for name, version in (
        ("numpy", "1.26.4"),
        ("pycuda", "2026.1"),
        ("onnxruntime", "1.23.2"),
        ("av", "17.1.0"),
    ):
        module(environment, name, name, version)
    return environment, system


def look_at(root: Path, commands: Commands, search_path: Sequence[Path]) -> Look:
    """A look that sees nothing of this machine."""
    python = Interpreter(
        "3.10.12", tuple(map(str, search_path)), virtual=True, system_site_packages=len(search_path) > 1
    )
    return Look(root, SysFiles(root, FixedClock()), commands, python)
