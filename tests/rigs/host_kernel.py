"""The preparing kernel as machine code of this machine: the source that a GPU compiles, compiled as C++.

It is compiled once for a source and kept in the checkout's cache, so that the tests' child processes find it.
"""

import ctypes
import functools
import hashlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.backends.tensorrt import kernel
from edge_runtime.perception.letterbox import fit
from edge_runtime.perception.preprocess import Preprocessor
from edge_runtime.sources.frame import Image

_CACHE = Path(__file__).resolve().parents[2] / ".cache" / "host-kernel"

# No header and no standard library, as NVRTC compiles it on a device.
OPTIONS = (
    "-std=c++17",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-nostdinc",
    "-nostdinc++",
    "-ffreestanding",
    "-ffp-contract=off",
)

Shape3 = tuple[int, int, int]


def compiler() -> str:
    """The system's C++ compiler.

    Raises:
        RuntimeError: there is none, with what to do.
    """
    found = shutil.which("g++") or shutil.which("c++")
    if found is None:
        raise RuntimeError("the kernel's host form needs a C++ compiler: apt-get install g++")
    return found


@functools.cache
def host_library(source: str) -> ctypes.CDLL:
    """The library that a kernel source makes with -DHOST; its functions carry the kernels' names.

    Raises:
        RuntimeError: no compiler, or the source does not compile; the text holds what the compiler said.
    """
    stamp = "\0".join((source, platform.machine(), *OPTIONS))
    target = _CACHE / f"{hashlib.sha256(stamp.encode()).hexdigest()[:32]}.so"
    if not target.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            code, library = Path(folder, "kernel.cu"), Path(folder, "kernel.so")
            code.write_text(source, encoding="utf-8")
            command = [compiler(), *OPTIONS, "-DHOST", "-shared", "-fPIC", "-x", "c++", str(code)]
            done = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"the kernel does not compile for the host:\n{done.stderr}")
            library.replace(target)
    return ctypes.CDLL(str(target))


def launch(
    library: ctypes.CDLL, function: str, grid: Shape3, block: Shape3, arguments: Sequence[Any]
) -> None:
    """Run every thread of one launch, one after another, in the calling thread.

    Args:
        library: from `host_library`.
        function: one of `kernel.FUNCTIONS`.
        grid, block: as on a GPU; a thread that the shape lacks does not run.
        arguments: ctypes values, addresses being addresses of this process.
    """
    library.set_launch(*(ctypes.c_uint(size) for size in (*grid, *block)))
    call = getattr(library, function)
    call.restype = None
    call(*arguments)


def prepare(picture: kernel.DevicePicture, spec: InputSpec, out: Tensor, index: int = 0) -> None:
    """Write a picture in this process's memory into one image of `out`, as the backend's launch would.

    Args:
        picture: with addresses of this process.
        spec: the model's input.
        out: (batch, 3, H, W) or (batch, H, W, 3) in the input's dtype, C-contiguous.
        index: which image of the batch.
    """
    grid, block = kernel.launch_shape(spec)
    box = fit(spec, picture.height, picture.width)
    arguments = kernel.arguments(spec, box, picture, out[index].ctypes.data)
    launch(host_library(kernel.SOURCE), picture.function, grid, block, arguments)


def bgr(image: npt.NDArray[np.uint8]) -> kernel.DevicePicture:
    """(H, W, 3) with whole pixels in its rows, as the kernel is given it; the array must outlive it."""
    assert image.strides[1:] == (3, 1), image.strides
    return kernel.DevicePicture(
        address=image.ctypes.data, pitch=image.strides[0], height=image.shape[0], width=image.shape[1]
    )


def nv12(
    luma: npt.NDArray[np.uint8], chroma: npt.NDArray[np.uint8], matrix: kernel.Matrix = "bt601"
) -> kernel.DevicePicture:
    """Luma (H, W) and chroma (ceil(H / 2), 2 ceil(W / 2)), rows of any pitch; the arrays must outlive it."""
    return kernel.DevicePicture(
        address=luma.ctypes.data,
        pitch=luma.strides[0],
        height=luma.shape[0],
        width=luma.shape[1],
        chroma_address=chroma.ctypes.data,
        chroma_pitch=chroma.strides[0],
        matrix=matrix,
    )


def on_the_cpu(image: Image, wanted: InputSpec) -> Tensor:
    preprocessor = Preprocessor(wanted)
    out = preprocessor.allocate(1)
    preprocessor.fill(np.ascontiguousarray(image), out, 0, None)
    prepared: Tensor = out[0]
    return prepared


def by_the_kernel(source: kernel.DevicePicture, wanted: InputSpec) -> Tensor:
    """The kernel's picture in a slot whose memory held ones before."""
    shape = (3, wanted.height, wanted.width) if wanted.layout == "nchw" else (wanted.height, wanted.width, 3)
    size = int(np.prod(shape)) * np.dtype(wanted.dtype).itemsize
    out: Tensor = np.full(size, 255, np.uint8).view(wanted.dtype).reshape(1, *shape)
    prepare(source, wanted, out)
    prepared: Tensor = out[0]
    return prepared


def levels_apart(ours: Tensor, theirs: Tensor, wanted: InputSpec) -> Tensor:
    """The difference in levels of a pixel, 0..255: undone scaling, without what the dtype itself rounds."""
    assert ours.dtype == theirs.dtype == wanted.dtype
    assert ours.shape == theirs.shape
    by_channel = (3, 1, 1) if wanted.layout == "nchw" else (3,)
    factor = np.abs(wanted.scale / np.array(wanted.std)).reshape(by_channel)
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    assert np.isfinite(apart).all()
    step = {"float32": 2e-6, "float16": 1e-3, "uint8": 0.0}[wanted.dtype]
    rounding = step * np.abs(theirs.astype(np.float64)) + step
    if wanted.dtype == "uint8":
        rounding = rounding + (0.0 if wanted.scale == 1 else 1.0)  # a tie may fall to the other side
    apart_in_levels: Tensor = np.maximum(apart - rounding, 0) / factor
    return apart_in_levels


def assert_agrees(source: kernel.DevicePicture, image: Image, wanted: InputSpec) -> None:
    apart = levels_apart(by_the_kernel(source, wanted), on_the_cpu(image, wanted), wanted)
    assert apart.max() <= 1.001
    assert apart.mean() <= 0.05, "levels differ here and there, they are not shifted"
