"""An execution context of an engine: shapes, addresses, runs."""

from typing import TYPE_CHECKING, Any

from edge_runtime.perception.backends.tensorrt.shapes import Shape, Shapes, dimensions, fitting, sizes

if TYPE_CHECKING:
    from edge_runtime.perception.backends.tensorrt.runtime import Engine


class EngineContext:
    """One execution context; runs in it follow one another.

    Args:
        engine: that made it.
        context: the `tensorrt.IExecutionContext`.
        stream: in which it changes its profile.
    """

    def __init__(self, engine: "Engine", context: Any, stream: int) -> None:
        self._engine, self._context, self._stream = engine, context, stream
        self._profile = 0
        self._shapes: Shapes = {}

    @property
    def shapes(self) -> Shapes:
        """Of the inputs, as set last."""
        return self._shapes

    def set_shapes(self, shapes: Shapes) -> None:
        """Set the shape of every input, in a profile that allows it.

        Raises:
            BackendError: no profile does.
            EngineRefused: TensorRT takes the shape for another reason not.
        """
        if shapes == self._shapes:
            return
        mark = self._engine.mark()
        self._enter(fitting(self._engine.profiles, shapes, self._profile), mark)
        self._shapes = {}
        for name, shape in shapes.items():
            if not self._context.set_input_shape(name, shape):
                raise self._engine.refusal(mark, f"TensorRT does not take {dimensions(shape)} for {name}")
        missing = self._context.infer_shapes()
        if missing:
            raise self._engine.refusal(mark, f"TensorRT misses the shape of {', '.join(missing)}")
        self._shapes = dict(shapes)

    def _enter(self, profile: int, mark: int) -> None:
        if profile == self._profile:
            return
        if not self._context.set_optimization_profile_async(profile, self._stream):
            raise self._engine.refusal(mark, f"TensorRT does not take its optimisation profile {profile}")
        self._profile = profile

    def shape(self, name: str) -> Shape:
        """Of a tensor, as the inputs' shapes make it."""
        return sizes(self._context.get_tensor_shape(name))

    def bind(self, name: str, address: int) -> None:
        """Tell where a tensor lies.

        Raises:
            EngineRefused: TensorRT does not take the address.
        """
        mark = self._engine.mark()
        if not self._context.set_tensor_address(name, address):
            raise self._engine.refusal(mark, f"TensorRT does not take an address for {name}")

    def execute(self, stream: int) -> None:
        """Put one run into the stream.

        Raises:
            EngineRefused: TensorRT does not begin it.
        """
        mark = self._engine.mark()
        if not self._context.execute_async_v3(stream):
            raise self._engine.refusal(mark, "TensorRT does not begin the run")

    def close(self) -> None:
        """Free it."""
        self._context = None
