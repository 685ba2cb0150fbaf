"""Pictures prepared on the GPU: a frame is copied into page-locked memory, the device's thread does the rest.

`DevicePreprocessor` stands where `perception.preprocess.Preprocessor` does. What it fills is not the model's input
but an array of records that name the pictures: the backend's thread copies them in and launches the kernel.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from edge_runtime.errors import BackendError, ImageError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.base import Tensor
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, CudaError
from edge_runtime.perception.backends.tensorrt.buffers import Ledger, Slot
from edge_runtime.perception.backends.tensorrt.kernel import (
    FUNCTIONS,
    SOURCE,
    DevicePicture,
    arguments,
    launch_shape,
)
from edge_runtime.perception.backends.tensorrt.pictures import PictureMemory
from edge_runtime.perception.backends.tensorrt.runtime import Engine, EngineTensor
from edge_runtime.perception.backends.tensorrt.shapes import Shape
from edge_runtime.perception.letterbox import Letterbox, fit
from edge_runtime.perception.preprocess import check_image
from edge_runtime.sources.frame import Image

PICTURE: Final = np.dtype([("number", "u8"), ("height", "i4"), ("width", "i4"), ("nv12", "?")])
"""A picture in page-locked memory; a height of 0 is none."""


class DevicePreprocessor:
    """Hands frames to the GPU as one model wants them. Belongs to one thread.

    Args:
        spec: the model's input.
        pictures: where frames are copied to.
        grow: makes room for so many bytes under a number; called when a frame is larger than any before it.
    """

    def __init__(self, spec: InputSpec, pictures: PictureMemory, grow: Callable[[int, int], None]) -> None:
        self.spec = spec
        self._pictures, self._grow = pictures, grow

    def allocate(self, batch: int) -> Tensor:
        """Places for `batch` pictures.

        Returns:
            (batch,) of `PICTURE`, for the backend that made this preprocessor and no other.
        """
        out = np.zeros(batch, PICTURE)
        out["number"] = [self._pictures.number() for _ in range(batch)]
        return out

    def fill(
        self,
        image: Image,
        out: Tensor,
        index: int,
        previous: Letterbox | None = None,  # noqa: ARG002 (a CPU's preprocessor needs it)
    ) -> Letterbox:
        """Copy one frame.

        Args:
            image: (H, W, 3) uint8, BGR; any strides.
            out: from `allocate`.
            index: which picture of the batch.
            previous: not needed; the kernel writes the padding each time.

        Returns:
            The geometry that the kernel will use.

        Raises:
            ImageError: the image is gray, empty or not 8-bit.
        """
        check_image(image)
        self._keep(image, out, index, image.shape[0], nv12=False)
        return fit(self.spec, image.shape[0], image.shape[1])

    def fill_nv12(self, image: Image, out: Tensor, index: int) -> Letterbox:
        """Copy one frame as decoders give it.

        Args:
            image: (H * 3 / 2, W) uint8: H rows of luma, then H / 2 rows of (U, V) pairs; H and W are even.
            out: from `allocate`.
            index: which picture of the batch.

        Returns:
            The geometry that the kernel will use.

        Raises:
            ImageError: the image is not such a picture.
        """
        if (
            image.ndim != 2
            or image.dtype != np.uint8
            or not image.size
            or image.shape[0] % 3
            or image.shape[1] % 2
        ):
            raise ImageError(
                "an NV12 picture has 1.5 times its height in rows of an even number of bytes (uint8)"
            )
        height = image.shape[0] // 3 * 2
        self._keep(image, out, index, height, nv12=True)
        return fit(self.spec, height, image.shape[1])

    def _keep(self, image: Image, out: Tensor, index: int, height: int, *, nv12: bool) -> None:
        number = int(out[index]["number"])
        out[index] = (number, 0, 0, nv12)
        try:
            if self._pictures.size(number) < image.size:
                self._grow(number, image.size)
            with self._pictures.use(number) as memory:
                np.copyto(memory[: image.size].reshape(image.shape), image)
        except BackendError:
            # The thread that prepares must outlive the device; the run that gets this picture says what is wrong.
            return
        out[index] = (number, height, image.shape[1], nv12)


class Preparation:
    """The device's half: copies pictures in and launches the kernel. Belongs to the device's thread.

    Args:
        device: open.
        ledger: for the memory of pictures on the device.
        pictures: where frames were copied to.
        spec: the model's input.
        engine: whose input is written.
        mapped: whether the kernel reads the page-locked memory itself.

    Raises:
        CudaError: the kernel does not compile here, or the input is not the one that `spec` describes.
    """

    def __init__(
        self,
        device: Cuda,
        ledger: Ledger,
        pictures: PictureMemory,
        spec: InputSpec,
        engine: Engine,
        *,
        mapped: bool,
    ) -> None:
        self._device, self._ledger, self._pictures = device, ledger, pictures
        self._spec, self._mapped = spec, mapped
        self._image = (3, spec.height, spec.width) if spec.layout == "nchw" else (spec.height, spec.width, 3)
        if not any(self._writes(tensor) for tensor in engine.inputs):
            raise CudaError(
                f"the manifest describes an input {spec.name}, but the engine has no input like it"
            )
        self._functions = {name: device.compile(SOURCE, name) for name in FUNCTIONS}
        self._memory: dict[tuple[int, int], tuple[int, int]] = {}

    def _writes(self, tensor: EngineTensor) -> bool:
        """Whether the kernel can write this input: everything that `spec` says of it, and nothing beyond it."""
        if tensor.spec.name != self._spec.name or tensor.spec.dtype != np.dtype(self._spec.dtype):
            return False
        sides = tensor.largest[1:]
        return len(sides) == 3 and not tensor.on_host and all(map(operator.le, self._image, sides))

    def begin(self, slot: Slot, pictures: Tensor, stream: int) -> Shape:
        """Put the preparation of a batch into the stream.

        Args:
            slot: whose input is written.
            pictures: (N,) of `PICTURE`.
            stream: of copies in.

        Returns:
            The shape of the input.

        Raises:
            BackendError: a picture is missing, or the device does not take it.
        """
        spec, memory = self._spec, slot.inputs[self._spec.name]
        if len(pictures) > memory.tensor.largest[0]:
            raise BackendError(
                f"the engine takes at most {memory.tensor.largest[0]} pictures, not {len(pictures)}"
            )
        step = memory.tensor.spec.dtype.itemsize * 3 * spec.height * spec.width
        grid, block = launch_shape(spec)
        for index, record in enumerate(pictures):
            picture = self._picture(slot, index, record, stream)
            box = fit(spec, picture.height, picture.width)
            values = arguments(spec, box, picture, memory.address + index * step)
            self._device.launch(self._functions[picture.function], grid, block, values, stream)
        return (len(pictures), *self._image)

    def _picture(self, slot: Slot, index: int, record: Any, stream: int) -> DevicePicture:
        height, width = int(record["height"]), int(record["width"])
        if not height:
            raise BackendError(
                "the picture was not taken over: the model was closed, or the device has no room"
            )
        nbytes = height * width * 3 // (2 if record["nv12"] else 1)
        with self._pictures.use(int(record["number"])) as host:
            if self._mapped:
                address = host.ctypes.data
            else:
                address = self._place(id(slot), index, nbytes)
                self._device.copy_in(address, host[:nbytes], stream)
        if record["nv12"]:
            chroma = address + height * width
            return DevicePicture(
                address=address,
                pitch=width,
                height=height,
                width=width,
                chroma_address=chroma,
                chroma_pitch=width,
            )
        return DevicePicture(address=address, pitch=width * 3, height=height, width=width)

    def _place(self, slot: int, index: int, nbytes: int) -> int:
        """Device memory of a picture; a place that is filled has no run under way, so that it may grow."""
        address, room = self._memory.get((slot, index), (0, 0))
        if room < nbytes:
            if room:
                del self._memory[slot, index]
                self._ledger.free(address)
            address = self._ledger.allocate(nbytes)
            self._memory[slot, index] = address, nbytes
        return address
