"""The preparing kernel on the GPU against the CPU path, and what each takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.backends.tensorrt import kernel
from edge_runtime.perception.backends.tensorrt._cuda import Cuda
from edge_runtime.perception.letterbox import fit
from edge_runtime.perception.preprocess import Preprocessor
from edge_runtime.sources.frame import Image
from hil.gpu.bench import Bench, Failed, median_ms, noise, pictures

_SIZES = ((1, 1), (1, 333), (333, 1), (77, 51), (480, 640), (576, 768), (1080, 1920), (1079, 1917))
_LAUNCHES = 200
Bytes = npt.NDArray[np.uint8]


class OnDevice:
    """Pictures prepared by the kernel, one at a time, on a stream of its own."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda, self._stream = cuda, cuda.create_stream()
        self._functions = {name: cuda.compile(kernel.SOURCE, name) for name in kernel.FUNCTIONS}

    def close(self) -> None:
        """End the stream."""
        self._cuda.destroy_stream(self._stream)

    def prepare(self, spec: InputSpec, planes: list[Bytes], height: int, width: int) -> Tensor:
        """The model's input, by one launch.

        Args:
            spec: the model's input.
            planes: BGR, (height, width, 3), or luma and chroma of NV12.
            height: of the picture.
            width: of the picture.
        """
        with self._ready(spec, planes, height, width) as (launch, result):
            launch(1)
            return result()

    def microseconds(self, spec: InputSpec, planes: list[Bytes], height: int, width: int) -> float:
        """What one of many launches in a row takes; see `prepare`."""
        with self._ready(spec, planes, height, width) as (launch, _):
            return round(median_ms(lambda: launch(_LAUNCHES), 3) * 1000 / _LAUNCHES, 2)

    @contextmanager
    def _ready(
        self, spec: InputSpec, planes: list[Bytes], height: int, width: int
    ) -> Iterator[tuple[Callable[[int], None], Callable[[], Tensor]]]:
        """Something that launches so often and waits, and something that fetches the result."""
        cuda, stream = self._cuda, self._stream
        shape = (3, spec.height, spec.width) if spec.layout == "nchw" else (spec.height, spec.width, 3)
        nbytes = int(np.prod(shape)) * np.dtype(spec.dtype).itemsize
        hosts = [cuda.allocate_host(plane.nbytes) for plane in planes]
        addresses = [cuda.allocate(plane.nbytes) for plane in planes]
        returned, target = cuda.allocate_host(nbytes), cuda.allocate(nbytes)
        try:
            for plane, host, address in zip(planes, hosts, addresses, strict=True):
                host[:] = plane.reshape(-1)
                cuda.copy_in(address, host, stream)
            cuda.fill(target, 255, nbytes, stream)
            picture = kernel.DevicePicture(
                address=addresses[0],
                pitch=planes[0].shape[1] * (1 if len(planes) > 1 else 3),
                height=height,
                width=width,
                chroma_address=addresses[1] if len(planes) > 1 else 0,
                chroma_pitch=planes[1].shape[1] if len(planes) > 1 else 0,
            )
            arguments = kernel.arguments(spec, fit(spec, height, width), picture, target)
            grid, block = kernel.launch_shape(spec)

            def launch(count: int) -> None:
                for _ in range(count):
                    cuda.launch(self._functions[picture.function], grid, block, arguments, stream)
                cuda.synchronize(stream)

            def result() -> Tensor:
                cuda.copy_out(returned, target, stream)
                cuda.synchronize(stream)
                tensor: Tensor = returned.copy().view(spec.dtype).reshape(shape)
                return tensor

            yield launch, result
        finally:
            cuda.synchronize(stream)
            for address in (*addresses, target):
                cuda.free(address)
            for host in (*hosts, returned):
                cuda.free_host(host)


def cases() -> Iterator[tuple[InputSpec, Image]]:
    """Every layout, dtype, colour order and way of fitting, over sizes at which resizing goes wrong."""
    forms: list[dict[str, Any]] = [
        {"layout": layout, "dtype": dtype, "color": color, "resize": resize}
        for layout in ("nchw", "nhwc")
        for dtype in ("float32", "float16", "uint8")
        for color in ("rgb", "bgr")
        for resize in ("letterbox", "stretch")
    ]
    normal: dict[str, Any] = {"scale": 1 / 255, "mean": (0.4, 0.45, 0.5), "std": (0.2, 0.22, 0.25)}
    for place, form in enumerate(forms):
        scaling = {} if form["dtype"] == "uint8" else normal
        for size in (_SIZES[place % len(_SIZES)], _SIZES[(place + 4) % len(_SIZES)]):
            yield InputSpec(name="x", height=416, width=640, **form, **scaling), noise(*size)
    for picture in pictures():
        yield InputSpec(name="x", height=640, width=640, scale=1 / 255), picture


def levels_apart(ours: Tensor, theirs: Tensor, spec: InputSpec) -> npt.NDArray[np.float64]:
    """The difference of each value in levels of a pixel, 0..255; infinite where one is not a number."""
    factor = np.abs(spec.scale / np.array(spec.std)).reshape((3, 1, 1) if spec.layout == "nchw" else (3,))
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    rounding = {"float32": 1e-5, "float16": 2e-3, "uint8": 0.0}[spec.dtype]  # each side rounds for itself
    levels: npt.NDArray[np.float64] = np.nan_to_num(np.maximum(apart - rounding, 0) / factor, nan=np.inf)
    return levels


def on_the_cpu(spec: InputSpec, picture: Image) -> Tensor:
    """The runtime's other way."""
    preprocessor = Preprocessor(spec)
    out = preprocessor.allocate(1)
    preprocessor.fill(picture, out, 0, None)
    tensor: Tensor = out[0]
    return tensor


def nv12_of(picture: Image) -> tuple[list[Bytes], Image]:
    """Luma and chroma of a picture with its sides made even, and what `cv2.cvtColor` makes of them."""
    height, width = (side // 2 * 2 for side in picture.shape[:2])
    planar = np.asarray(cv2.cvtColor(picture[:height, :width], cv2.COLOR_BGR2YUV_I420), np.uint8)
    u, v = planar[height:].reshape(2, height // 2, width // 2)
    chroma = np.ascontiguousarray(np.stack([u, v], -1).reshape(height // 2, width))
    luma = np.ascontiguousarray(planar[:height])
    converted = cv2.cvtColor(np.vstack([luma, chroma]), cv2.COLOR_YUV2BGR_NV12)
    return [luma, chroma], np.asarray(converted, np.uint8)


def check_kernel(bench: Bench) -> str:
    """BGR and NV12, against the CPU path, to one level of 255."""
    with bench.device() as cuda:
        device = OnDevice(cuda)
        try:
            worst = _compare(bench, device)
            _measure(bench, device)
        finally:
            device.close()
        bench.values["device"] = cuda.device_name
        bench.values["library"] = cuda.library
    if worst > 1.001:
        raise Failed(
            f"the GPU's picture is up to {worst:.3f} levels of 255 from the CPU's; at most 1 is allowed"
        )
    return f"the GPU's pictures are within {worst:.3f} levels of 255 of the CPU's"


def _compare(bench: Bench, device: OnDevice) -> float:
    worst, differing, values, count = 0.0, 0, 0, 0
    for spec, picture in cases():
        contiguous = np.ascontiguousarray(picture)
        sources: list[tuple[list[Bytes], Image]] = [([contiguous], contiguous)]
        if min(picture.shape[:2]) > 1:
            sources.append(nv12_of(contiguous))
        for planes, expected in sources:
            ours = device.prepare(spec, planes, *expected.shape[:2])
            bench.on_gpu = True
            levels = levels_apart(ours, on_the_cpu(spec, expected), spec)
            worst, count = max(worst, float(levels.max())), count + 1
            differing, values = differing + int((levels > 0.5).sum()), values + levels.size
    bench.values["pictures"] = count
    bench.values["worst_levels"] = round(worst, 4)
    bench.values["values_a_level_apart"] = f"{differing} of {values}"
    return worst


def _measure(bench: Bench, device: OnDevice) -> None:
    """What one picture of a full-HD camera takes on either side; copies are not in it."""
    cv2.setNumThreads(1)
    spec, picture = InputSpec(name="x", height=640, width=640, scale=1 / 255), noise(1080, 1920)
    planes, _ = nv12_of(picture)
    bench.values["gpu_bgr_us"] = device.microseconds(spec, [picture], 1080, 1920)
    bench.values["gpu_nv12_us"] = device.microseconds(spec, planes, 1080, 1920)
    preprocessor = Preprocessor(spec)
    out = preprocessor.allocate(1)
    box = preprocessor.fill(picture, out, 0, None)
    bench.values["cpu_bgr_ms"] = median_ms(lambda: preprocessor.fill(picture, out, 0, box), 20)
    stacked = np.vstack(planes)
    bench.values["cpu_nv12_to_bgr_ms"] = median_ms(lambda: cv2.cvtColor(stacked, cv2.COLOR_YUV2BGR_NV12), 20)
