"""Execution contexts of the double: onnxruntime executes on the memory whose addresses were set."""

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from tests.rigs.tensorrt_double.plan import Tensor, first_problem
from tests.rigs.tensorrt_double.stage import Owned, Stage

if TYPE_CHECKING:
    from tests.rigs.tensorrt_double.running import EngineAct

_ALIGNMENT: Final = 256
"""Of the addresses of tensors, as IExecutionContext::setTensorAddress documents it."""


class ContextAct(Owned):
    """`IExecutionContext`; its activations are device memory as long as it lives."""

    settable = (
        "name",
        "debug_sync",
        "profiler",
        "enqueue_emits_profile",
        "nvtx_verbosity",
        "persistent_cache_limit",
    )

    def __init__(self, stage: Stage, engine: "EngineAct", *, user_managed: bool) -> None:
        super().__init__(stage, "IExecutionContext")
        self._engine = engine
        self._user_managed = user_managed
        self._user_memory = 0
        if not user_managed:
            stage.device.hold(self, max(1, engine.device_memory_size_v2), "activations of a context")
        self._profile = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._consumed = 0
        self._busy: dict[int, int] = {}
        self._counting = threading.RLock()  # another thread may run what this one put into a stream
        self.name = ""
        self.debug_sync = False
        self.profiler = None
        self.enqueue_emits_profile = True
        self.persistent_cache_limit = 0
        self._set_static_shapes()

    def _set_static_shapes(self) -> None:
        self._shapes = {
            t.name: t.shape for t in self._engine.plan.tensors if t.is_input and -1 not in t.shape
        }

    @property
    def engine(self) -> Any:
        return self.stage.make("ICudaEngine", self._engine)

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    @property
    def all_binding_shapes_specified(self) -> bool:
        return not self.infer_shapes()

    @property
    def all_shape_inputs_specified(self) -> bool:
        return True

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        self.stage.device.stream(int(stream_handle), "set_optimization_profile_async")
        if not 0 <= profile_index < len(self._engine.plan.profiles):
            return self._no(f"setOptimizationProfileAsync: there is no profile {profile_index}")
        if profile_index != self._profile:
            self._profile = int(profile_index)
            self._set_static_shapes()
        return True

    def set_input_shape(self, name: str, shape: Any) -> bool:
        found, wanted = self._engine.by_name.get(name), tuple(int(d) for d in shape)
        if found is None or not found.is_input:
            return self._no(f"setInputShape: {name} is no input")
        low, _, high = self._engine.plan.profiles[self._profile][name]
        if problem := first_problem(wanted, low, high):
            return self._no(
                "setInputShape: Error Code 3: API Usage Error (Parameter check failed, condition: engineDims.d[i] "
                f"== dims.d[i]. Static or profile dimension mismatch for tensor {name}: it {problem})"
            )
        self._shapes[name] = wanted
        return True

    def infer_shapes(self) -> list[str]:
        return [t.name for t in self._engine.plan.tensors if t.is_input and t.name not in self._shapes]

    def get_tensor_shape(self, name: str) -> Any:
        found = self._engine.by_name.get(name)
        if found is None:
            self._no(f"getTensorShape: {name} is no tensor")
            return self.stage.classes["Dims"](())
        if found.is_input:
            return self.stage.classes["Dims"](self._shapes.get(name, found.shape))
        if self.infer_shapes():
            return self.stage.classes["Dims"](found.shape)
        return self.stage.classes["Dims"](self._engine.outputs.of(self._shapes)[name])

    def get_max_output_size(self, name: str) -> int:
        shape = tuple(self.get_tensor_shape(name))
        return -1 if -1 in shape else math.prod(shape) * self._engine.by_name[name].numpy.itemsize

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if name not in self._engine.by_name:
            return self._no(f"setTensorAddress: {name} is no tensor")
        self._addresses[name] = int(memory)
        return True

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        self._allocators[name] = output_allocator
        return True

    def get_output_allocator(self, name: str) -> Any:
        return self._allocators.get(name)

    def set_input_consumed_event(self, event: int) -> bool:
        self.stage.device.event(int(event), "set_input_consumed_event")
        self._consumed = int(event)
        return True

    def get_input_consumed_event(self) -> int:
        return self._consumed

    def set_device_memory(self, memory: int, size: int) -> None:
        if size < self._engine.device_memory_size_v2:
            raise self.stage.device.misuse(f"set_device_memory: {size} bytes are fewer than the engine needs")
        self.stage.device.piece(int(memory), int(size), "set_device_memory")
        self._user_memory = int(memory)

    def update_device_memory_size_for_shapes(self) -> int:
        return self._engine.device_memory_size_v2

    def execute_async_v3(self, stream_handle: int) -> bool:
        device, stream = self.stage.device, int(stream_handle)
        device.need_context("execute_async_v3")
        if device.lost:
            return self._no("enqueueV3: Error Code 1: Cuda Runtime (the device is lost)")
        if device.count.among_first("execute", device.faults.execute_fails):
            return self._no("enqueueV3: Error Code 1: Cuda Runtime (unspecified launch failure)")
        device.stream(stream, "execute_async_v3")
        if missing := self.infer_shapes():
            raise device.misuse(f"execute_async_v3 before the shape of {missing[0]} is set")
        if self._user_managed and not self._user_memory:
            raise device.misuse("execute_async_v3 before set_device_memory")
        if others := [s for s, n in list(self._busy.items()) if n and s != stream]:
            raise device.misuse(
                f"one execution context is used on two streams at once ({others[0]:#x}, {stream:#x})"
            )
        shapes = {**self._shapes, **self._engine.outputs.of(self._shapes)}
        addresses = dict(self._addresses)
        for tensor in self._engine.plan.tensors:
            self._checked(tensor, shapes[tensor.name], addresses, "execute_async_v3")
        self._count(stream, 1)

        def work() -> None:
            try:
                self._run(shapes, addresses)
            finally:
                self._count(stream, -1)

        device.enqueue(stream, "execute_async_v3", work)
        if self._consumed:
            device.record(self._consumed, stream)
        return True

    def _count(self, stream: int, more: int) -> None:
        with self._counting:
            self._busy[stream] = self._busy.get(stream, 0) + more

    def _checked(
        self, tensor: Tensor, shape: tuple[int, ...], addresses: Mapping[str, int], when: str
    ) -> npt.NDArray[np.uint8] | None:
        device, address = self.stage.device, addresses.get(tensor.name, 0)
        if tensor.name in self._allocators:
            return None
        if not address:
            raise device.misuse(f"{when}: the address of {tensor.name} is not set")
        if address % _ALIGNMENT:
            raise device.misuse(f"{when}: the address of {tensor.name} is not a multiple of {_ALIGNMENT}")
        if -1 in shape:
            raise device.misuse(
                f"{when}: the size of {tensor.name} depends on the data: set an output allocator"
            )
        nbytes = math.prod(shape) * tensor.numpy.itemsize
        if not nbytes:
            return None
        return device.piece(address, nbytes, f"{when}, tensor {tensor.name}")

    def _run(self, shapes: Mapping[str, tuple[int, ...]], addresses: Mapping[str, int]) -> None:
        device = self.stage.device
        number = device.execution()
        feeds = {}
        for tensor in self._engine.plan.tensors:
            if tensor.is_input:
                made = device.find(addresses[tensor.name])
                if made is not None and not made.written:
                    raise device.misuse(f"execution reads {tensor.name}, which nobody has written")
                piece = self._checked(tensor, shapes[tensor.name], addresses, "execution")
                raw = np.zeros(0, np.uint8) if piece is None else piece
                feeds[tensor.name] = raw.view(tensor.numpy).reshape(shapes[tensor.name]).copy()
        outputs = [t for t in self._engine.plan.tensors if not t.is_input]
        try:
            found = self._engine.session.run([t.name for t in outputs], feeds)
        except Exception as error:
            raise device.misuse(f"onnxruntime cannot execute this: {str(error).splitlines()[0]}") from error
        for tensor, array in zip(outputs, found, strict=True):
            self._give(tensor, self._spoiled(np.ascontiguousarray(array), number), shapes, addresses)

    def _spoiled(self, array: npt.NDArray[Any], number: int) -> npt.NDArray[Any]:
        faults = self.stage.device.faults
        if array.dtype.kind != "f":
            return array
        if faults.nan_from < 0 or 0 < faults.nan_from <= number:
            return np.full_like(array, np.nan)
        if faults.wrong_from < 0 or 0 < faults.wrong_from <= number:
            return np.asarray(array * array.dtype.type(faults.wrong_scale), array.dtype)
        return array

    def _give(
        self,
        tensor: Tensor,
        array: npt.NDArray[Any],
        shapes: Mapping[str, tuple[int, ...]],
        addresses: Mapping[str, int],
    ) -> None:
        device, allocator = self.stage.device, self._allocators.get(tensor.name)
        if allocator is not None:
            address = allocator.reallocate_output_async(
                tensor.name, addresses.get(tensor.name, 0), array.nbytes, 256, 0
            )
            allocator.notify_shape(tensor.name, self.stage.classes["Dims"](array.shape))
            target: npt.NDArray[np.uint8] | None = device.piece(
                address, array.nbytes, f"output {tensor.name}"
            )
        else:
            target = self._checked(tensor, shapes[tensor.name], addresses, "execution")
            address = addresses[tensor.name]
        if target is None:
            return
        if target.nbytes != array.nbytes:
            raise device.misuse(f"output {tensor.name} has shape {array.shape}, which inference did not say")
        target[:] = array.reshape(-1).view(np.uint8)
        made = device.find(address)
        if made is not None:
            made.written = True

    def _no(self, text: str) -> bool:
        self.stage.log(self._engine.logger_, "ERROR", f"IExecutionContext::{text}")
        return False
