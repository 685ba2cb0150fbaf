"""What is installed: apt's packages by dpkg's own file, Python modules by their folders, the CUDA toolkit.

Nothing is imported: a module that is broken, or that needs a driver, must not take the doctor with it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from edge_runtime.doctor.facts import CudaFacts, ModuleFacts
from edge_runtime.doctor.look import Look, clean
from edge_runtime.health import Reading
from edge_runtime.health.dpkg import installed_packages
from edge_runtime.health.reading import unknown

MODULES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "av": ("av", ("av",)),
    "cuda-bindings": ("cuda/bindings", ("cuda-bindings",)),
    "gi": ("gi", ("PyGObject",)),
    "numpy": ("numpy", ("numpy",)),
    "onnxruntime": ("onnxruntime", ("onnxruntime",)),
    "onnxruntime-gpu": ("", ("onnxruntime-gpu",)),
    "opencv": ("cv2", ("opencv-python-headless", "opencv-python", "opencv-contrib-python", "opencv")),
    "pycuda": ("pycuda", ("pycuda",)),
    "tensorrt": ("tensorrt", ("tensorrt", "tensorrt-cu13", "tensorrt-cu12")),
}
"""Modules that matter: where each lies below a folder of modules, and names of distributions that bring it."""

_PACKAGES = re.compile(
    r"nvidia-jetpack|nvidia-l4t-(core|gstreamer|cuda)|libnvinfer\d{1,2}|python3-libnvinfer|tensorrt"
    r"|(cuda-(nvcc|nvrtc|cudart)|libcurand-dev)-\d{1,2}-\d{1,2}|python3-(gi|opencv|venv|dev)"
    r"|libopencv-python|gstreamer1\.0-(libav|plugins-(base|good|bad))"
)
_METADATA = re.compile(
    r"(?P<name>[\w.-]{1,80}?)-(?P<version>\d[\w.+!]{0,60})(-py3(\.\d+)?)?\.(dist|egg)-info"
)
_SYSTEM_FOLDERS = ("usr/lib/python3", "usr/local/lib/python3")


def packages(look: Look) -> dict[str, str]:
    """Versions of the installed apt packages that matter, by name."""
    return installed_packages(look.files, _PACKAGES)


def modules(look: Look) -> dict[str, ModuleFacts]:
    """Python modules that matter, those that this interpreter sees first, then those of the system's folders."""
    system = _system_folders(look.root)
    found: dict[str, ModuleFacts] = {}
    for name, (place, distributions) in MODULES.items():
        visible = [Path(folder) for folder in look.interpreter.search_path if folder]
        for folders, seen in ((visible, True), (system, False)):
            at = next((folder for folder in folders if _holds(folder, place)), None)
            version = _version(folders if at is None else [at, *folders], distributions)
            if at is None and (place or version is None):
                continue
            nameless: Reading[str] = unknown("no metadata names its version")
            found[name] = ModuleFacts(
                version=look.keep(f"modules.{name}.version", version or nameless),
                visible=seen,
                system=at in system or (at is not None and "dist-packages" in at.parts),
            )
            break
    return found


def _holds(folder: Path, place: str) -> bool:
    """Whether a module lies in a folder, as a package, a file or a compiled file."""
    if not place:
        return False
    try:
        return (
            (folder / place).is_dir()
            or (folder / f"{place}.py").is_file()
            or any(folder.glob(f"{place}.*.so"))
            or (folder / f"{place}.so").is_file()
        )
    except (OSError, ValueError):
        return False


def _version(folders: list[Path], distributions: tuple[str, ...]) -> Reading[str] | None:
    """The version by the name of its metadata's folder; None where none of the distributions is installed.

    The metadata itself is not read: the name has the version (PEP 376), and a file may be anything.
    """
    for wanted in distributions:
        for folder in folders:
            for entry in _entries(folder):
                named = _METADATA.fullmatch(entry)
                if named and _canonical(named["name"]) == _canonical(wanted):
                    return Reading(named["version"])
    return None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are enough
    except (OSError, ValueError):
        return []


def _system_folders(root: Path) -> list[Path]:
    """Folders of apt's modules, those shared by all versions and those of one."""
    found: list[Path] = []
    for folder in _SYSTEM_FOLDERS:
        place = root / folder
        try:
            found += sorted(entry for entry in place.parent.glob(f"{place.name}*/dist-packages"))
        except (OSError, ValueError):
            continue
    return found


def cuda(look: Look, installed: Mapping[str, str]) -> CudaFacts:
    """The toolkit below /usr/local/cuda, or in apt's packages.

    Args:
        look: at the machine.
        installed: apt's packages, by name.
    """
    home = look.root / "usr/local/cuda"
    return CudaFacts(
        version=look.keep("cuda.version", _toolkit(look, installed)),
        nvcc=look.keep(
            "cuda.nvcc", _first([home / "bin/nvcc", look.root / "usr/bin/nvcc"], "nvcc", look.root)
        ),
        nvrtc=look.keep("cuda.nvrtc", _nvrtc(look)),
    )


def _toolkit(look: Look, installed: Mapping[str, str]) -> Reading[str]:
    told = look.files.text("/usr/local/cuda/version.json", 1 << 20)
    named = re.search(
        r'"cuda"\s*:\s*\{[^{}]*?"version"\s*:\s*"(\d{1,3}(?:\.\d{1,5}){1,3})"', told.value or ""
    )
    if named:
        return Reading(named[1])
    for folder in sorted(look.files.names("/usr/local", r"cuda-\d{1,2}\.\d{1,2}"), reverse=True):
        return Reading(folder.removeprefix("cuda-"))
    for name in sorted(installed, reverse=True):
        runtime = re.fullmatch(r"cuda-cudart-(\d+)-(\d+)", name)
        if runtime:
            return Reading(f"{runtime[1]}.{runtime[2]}")
    return unknown("no CUDA toolkit below /usr/local")


def _nvrtc(look: Look) -> Reading[str]:
    folders = [
        look.root / "usr/local/cuda/lib64",
        *(look.root / "usr/local/cuda/targets" / arch / "lib" for arch in ("aarch64-linux", "sbsa-linux")),
        look.root / "usr/lib/aarch64-linux-gnu",
        look.root / "usr/lib/x86_64-linux-gnu",
    ]
    wheels = [
        Path(folder) / "nvidia" / name / "lib"
        for folder in look.interpreter.search_path
        if folder
        for name in ("cuda_nvrtc", "cu12", "cu13")
    ]
    for folder in (*folders, *wheels):
        try:
            found = sorted(entry.name for entry in folder.glob("libnvrtc.so.*"))
        except (OSError, ValueError):
            continue
        if found:
            return Reading(clean(found[0]))
    return unknown("libnvrtc is not there")


def _first(places: list[Path], name: str, root: Path) -> Reading[str]:
    found = next((place for place in places if _is_file(place)), None)
    return unknown(f"{name} is not there") if found is None else Reading(f"/{found.relative_to(root)}")


def _is_file(place: Path) -> bool:
    try:
        return place.is_file()
    except (OSError, ValueError):
        return False
