"""The kernel compiles for the GPUs that the runtime is for, by NVIDIA's own compiler, without a warning."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edge_runtime.perception.backends.tensorrt import kernel

ARCHITECTURES = {"87": "Orin", "90": "H200", "110": "Thor"}
STRICT = (
    "-Werror",
    "all-warnings",
    "-Xptxas",
    "--warn-on-spills,--warn-on-local-memory-usage,--warn-on-double-precision-use",
)


@pytest.fixture(scope="module")
def nvcc() -> str:
    """NVIDIA's compiler: without it nothing says that the kernel compiles, so its absence is a failure."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        pytest.fail(
            "nvcc is missing: install CUDA's compiler (cuda-nvcc-13-0 with g++) and put it on the PATH"
        )
    return found


def compiled(nvcc: str, source: str, target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    code = target.with_suffix(".cu")
    code.write_text(source, encoding="utf-8")
    command = [nvcc, *STRICT, *options, "-o", str(target), str(code)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("sm", ARCHITECTURES)
def test_machine_code_without_a_warning(nvcc: str, tmp_path: Path, sm: str) -> None:
    done = compiled(nvcc, kernel.SOURCE, tmp_path / "kernel.cubin", f"-arch=sm_{sm}", "-cubin")
    assert (done.returncode, done.stderr) == (0, "")
    code = (tmp_path / "kernel.cubin").read_bytes()
    assert code.startswith(b"\x7fELF")
    for function in kernel.FUNCTIONS:
        assert b".text." + function.encode() + b"\0" in code


@pytest.mark.parametrize("sm", ARCHITECTURES)
def test_intermediate_code_has_both_entries_and_no_double_precision(
    nvcc: str, tmp_path: Path, sm: str
) -> None:
    """A device of Jetson's kind does 1 operation in double precision where it does 32 to 64 in single."""
    done = compiled(nvcc, kernel.SOURCE, tmp_path / "kernel.ptx", f"-arch=compute_{sm}", "-ptx")
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "kernel.ptx").read_text(encoding="utf-8")
    assert tuple(sorted(re.findall(r"\.visible \.entry (\w+)\(", text))) == kernel.FUNCTIONS
    assert f".target sm_{sm}" in text
    assert ".f64" not in text


def test_the_compiler_is_strict_enough_to_find_a_fault(nvcc: str, tmp_path: Path) -> None:
    unused = kernel.SOURCE.replace(
        "const int last = source - 1;", "const int last = source - 1, idle = 0;", 1
    )
    assert unused != kernel.SOURCE
    assert "idle" in compiled(nvcc, unused, tmp_path / "unused.ptx", "-arch=compute_87", "-ptx").stderr
    misspelt = kernel.SOURCE.replace("blockIdx.x * blockDim.x", "blockIdx.x * blockDims.x", 1)
    assert compiled(nvcc, misspelt, tmp_path / "misspelt.ptx", "-arch=compute_87", "-ptx").returncode


def test_the_source_needs_no_header() -> None:
    """NVRTC has no include path on a device; the host form is compiled with -nostdinc for the same reason."""
    assert "#include" not in kernel.SOURCE
    assert "__half" not in kernel.SOURCE
