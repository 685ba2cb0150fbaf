"""CUDA graphs: the launches of a network kept and repeated as one.

A graph holds the addresses of its execution context, so that each has a context of its own: a context that several
graphs share gives wrong results. That costs device memory, and whether it is worth it only a GPU can tell.
"""

from typing import Final

from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.tensorrt._cuda import Cuda, CudaGraphs
from edge_runtime.perception.backends.tensorrt.buffers import Slot
from edge_runtime.perception.backends.tensorrt.context import EngineContext
from edge_runtime.perception.backends.tensorrt.runtime import Engine
from edge_runtime.perception.backends.tensorrt.shapes import Shapes

_MOST: Final = 4
"""Graphs of a model. Further shapes run without one."""

_Key = tuple[int, tuple[tuple[str, tuple[int, ...]], ...]]


class GraphRunner:
    """Runs an engine by graphs, one for each place and set of input shapes.

    Args:
        device: open.
        engine: deserialised.
        stream: in which it runs.

    Raises:
        BackendError: the library knows no graphs.
    """

    def __init__(self, device: Cuda, engine: Engine, stream: int) -> None:
        if not isinstance(device, CudaGraphs):
            raise BackendError(
                f"{device.library} has no CUDA graphs: install cuda-bindings, or leave cuda_graphs off"
            )
        self._device, self._engine, self._stream = device, engine, stream
        self._contexts: dict[_Key, EngineContext] = {}
        self._graphs: dict[_Key, int] = {}

    def run(self, slot: Slot, shapes: Shapes) -> Shapes | None:
        """Put one run into the stream: plain the first time, then captured, then as a graph.

        Returns:
            The shapes of the outputs; None where there are graphs enough already.
        """
        key = id(slot), tuple(sorted(shapes.items()))
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) >= _MOST:
                return None
            context = self._made(key, slot, shapes)
            # TensorRT may allocate in the first run of a shape, which a capture does not allow
            context.execute(self._stream)
        else:
            if key not in self._graphs:
                self._graphs[key] = self._captured(context)
            self._device.launch_graph(self._graphs[key], self._stream)
        return {name: context.shape(name) for name in slot.outputs}

    def _made(self, key: _Key, slot: Slot, shapes: Shapes) -> EngineContext:
        context = self._engine.create_context()
        try:
            context.set_shapes(shapes)
            slot.bind(context)
        except BackendError:
            self._engine.drop_context(context)
            raise
        self._contexts[key] = context
        return context

    def _captured(self, context: EngineContext) -> int:
        self._device.begin_capture(self._stream)
        try:
            context.execute(self._stream)
        except BaseException:
            self._device.destroy_graph(self._device.end_capture(self._stream))
            raise
        return self._device.end_capture(self._stream)

    def close(self) -> None:
        """Free the graphs, then their contexts."""
        while self._graphs:
            graph = self._graphs.popitem()[1]
            try:
                self._device.destroy_graph(graph)
            except BackendError:
                continue  # a lost device refuses; the rest is tried all the same
        while self._contexts:
            self._engine.drop_context(self._contexts.popitem()[1])
