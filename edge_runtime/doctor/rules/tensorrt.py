"""TensorRT, and the library through which this runtime reaches CUDA."""

from collections.abc import Iterator

from edge_runtime.doctor.facts import Facts
from edge_runtime.doctor.findings import Finding, Severity
from edge_runtime.doctor.jetpack import jetpack_of, numbers
from edge_runtime.doctor.needs import Needs

_OLDEST = (10, 3)
_NEWEST_ON_JETSON = 10
_BINDINGS = "python3-libnvinfer"


def tensorrt(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """The Python module, its version against apt's and JetPack's, and CUDA's library."""
    severity = needs.missing("tensorrt", facts)
    module = facts.modules.get("tensorrt")
    if not facts.sees("tensorrt"):
        yield _module_missing(facts, severity)
    else:
        yield from _version(facts, severity)
    if severity == "note" and facts.gpu is None and module is None:
        yield Finding("note", "tensorrt", _library_missing(facts))
        return
    yield from _cuda_library(facts, severity)
    yield from _kernel_compiler(facts, severity)


def can_run(facts: Facts) -> bool:
    """Whether a model could run on TensorRT: a GPU, a version that this runtime uses, and a way to CUDA."""
    parts = numbers(full_version(facts) or "")
    fits = parts >= _OLDEST and (facts.jetson is None or parts[0] <= _NEWEST_ON_JETSON)
    reach = facts.sees("pycuda") or facts.sees("cuda-bindings")
    return facts.gpu is not None and facts.sees("tensorrt") and fits and reach


def full_version(facts: Facts) -> str | None:
    """The version of TensorRT with its build where apt knows it; None where nothing names one."""
    module = facts.modules.get("tensorrt")
    said = module.version if module is not None else None
    package = facts.packages.get(_BINDINGS)
    if package is not None and (module is None or module.system):
        return ".".join(str(part) for part in numbers(package)) or said
    return said


def _module_missing(facts: Facts, severity: Severity) -> Finding:
    if "tensorrt" in facts.modules:
        return Finding(
            severity,
            "tensorrt",
            "TensorRT's Python module is on this system but not in this virtual environment: make it anew with "
            "python3 -m venv --system-site-packages",
        )
    if _BINDINGS in facts.packages:
        return Finding(
            severity,
            "tensorrt",
            f"{_BINDINGS} is installed but this Python does not find its module: use the system's Python, in an "
            "environment made with --system-site-packages",
        )
    if facts.jetson is not None:
        return Finding(
            severity,
            "tensorrt",
            f"TensorRT's Python module is not installed: sudo apt install {_BINDINGS} (never by pip on a Jetson)",
        )
    return Finding(
        severity,
        "tensorrt",
        "TensorRT is not installed: a machine with an NVIDIA GPU gets it by pip install tensorrt",
    )


def _version(facts: Facts, severity: Severity) -> Iterator[Finding]:
    version = full_version(facts)
    parts = numbers(version or "")
    if not parts:
        unnamed: Severity = "note" if severity == "note" else "warning"
        yield Finding(unnamed, "tensorrt", "TensorRT is installed, but nothing names its version")
        return
    if parts < _OLDEST:
        yield Finding(
            severity,
            "tensorrt",
            f"TensorRT {version} is older than this runtime uses: it needs 10.3 or later, which JetPack 6.1 has",
        )
        return
    if facts.jetson is not None and parts[0] > _NEWEST_ON_JETSON:
        yield Finding(
            severity,
            "tensorrt",
            f"TensorRT {version} does not support Jetson: remove it and install JetPack's {_BINDINGS}",
        )
        return
    release = jetpack_of((facts.jetson.l4t if facts.jetson else None) or "")
    if release is not None and parts[:2] != numbers(release.tensorrt):
        yield Finding(
            "warning",
            "tensorrt",
            f"TensorRT {version} is not the one of JetPack {release.name}, which is {release.tensorrt}: engines "
            "are built anew for it, and nobody has tried the two together",
        )
        return
    yield Finding("ok", "tensorrt", f"TensorRT {version} is installed for this Python")


def _cuda_library(facts: Facts, severity: Severity) -> Iterator[Finding]:
    visible = {name: facts.modules[name] for name in ("cuda-bindings", "pycuda") if facts.sees(name)}
    if not visible:
        yield Finding(severity, "tensorrt", _library_missing(facts))
        return
    for name, module in visible.items():
        yield Finding(
            "ok", "tensorrt", f"CUDA is reached through {name} {module.version or '(version unknown)'}"
        )
    bindings = visible.get("cuda-bindings")
    wanted, have = _cuda_major(facts), numbers((bindings.version if bindings else None) or "")
    if wanted is not None and have and have[0] != wanted:
        yield Finding(
            severity,
            "tensorrt",
            f"cuda-bindings {bindings.version if bindings else ''} is for CUDA {have[0]}, and this machine has "
            f"CUDA {wanted}: pip install 'cuda-bindings>={wanted},<{wanted + 1}'",
        )


def _cuda_major(facts: Facts) -> int | None:
    release = jetpack_of((facts.jetson.l4t if facts.jetson else None) or "")
    version = facts.cuda.version or (release.cuda if release is not None else "")
    parts = numbers(version)
    return parts[0] if parts else None


def _library_missing(facts: Facts) -> str:
    hidden = [name for name in ("pycuda", "cuda-bindings") if name in facts.modules]
    if hidden:
        return (
            f"{hidden[0]} is on this system but not in this environment: install it here, or use "
            "--system-site-packages"
        )
    if facts.jetson is not None:
        return (
            "neither pycuda nor cuda.bindings is installed, and TensorRT needs one of them: deploy/jetson/setup.sh "
            "builds pycuda"
        )
    return (
        "neither pycuda nor cuda.bindings is installed, and TensorRT needs one of them: pip install "
        "cuda-bindings"
    )


def _kernel_compiler(facts: Facts, severity: Severity) -> Iterator[Finding]:
    """The kernel that prepares frames is compiled on the device, by what the library at hand can call."""
    with_bindings = facts.sees("cuda-bindings")
    if not with_bindings and not facts.sees("pycuda"):
        return
    name, found, package = (
        ("libnvrtc", facts.cuda.nvrtc, "cuda-nvrtc")
        if with_bindings
        else ("nvcc", facts.cuda.nvcc, "cuda-nvcc")
    )
    if found is None:
        version = (facts.cuda.version or "").split(".")[:2]
        package = f"{package}-{'-'.join(version)}" if len(version) == 2 else package
        yield Finding(
            severity,
            "tensorrt",
            f"{name} is not there, with which {'cuda.bindings' if with_bindings else 'pycuda'} compiles the kernel "
            f"that prepares frames: sudo apt install {package}, or set tensorrt.prepare to cpu",
        )
