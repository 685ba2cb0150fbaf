"""An engine of a small network on the double, with everything that one run needs."""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

from tests.rigs.tensorrt_double.cuda import DoubleCuda
from tests.rigs.tensorrt_double.module import Double, build_engine

KERNEL = """
#ifdef HOST
extern "C" void set_launch(unsigned, unsigned, unsigned, unsigned, unsigned, unsigned) {}
#define __global__
#endif
extern "C" __global__ void write(unsigned char *target, int count, float value)
{
    for (int place = 0; place < count; ++place) target[place] = (unsigned char)value;
}
"""
"""Writes `value` to `count` bytes."""

FULL = (4, 6)


def doubling(rows: int | str = "n", *, opset: int = 17) -> bytes:
    """y = 2 x for x of (rows, 6)."""
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["y"], name="twice")],
        "doubling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 6])],
        [two],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return bytes(model.SerializeToString())


SHAPES = {"x": ((1, 6), (2, 6), FULL)}


class Log:
    """What a logger was told."""

    def __init__(self, trt: Any) -> None:
        self.lines: list[str] = []
        told = self.lines

        class Logger(trt.ILogger):  # type: ignore[misc]
            def __init__(self) -> None:
                trt.ILogger.__init__(self)

            def log(self, severity: Any, msg: str) -> None:
                told.append(f"{severity.name}: {msg}")

        self.logger = Logger()


class Bench:
    """An engine with everything that a run needs, on this thread."""

    def __init__(self, double: Double, engine: bytes | None = None) -> None:
        self.double = double
        self.trt = double.tensorrt
        self.log = Log(self.trt)
        self.cuda: DoubleCuda = double.open_cuda()
        self.runtime = self.trt.Runtime(self.log.logger)
        self.engine = self.runtime.deserialize_cuda_engine(engine or build_engine(double, doubling(), SHAPES))
        self.context = self.engine.create_execution_context()
        self.stream = self.cuda.create_stream()
        self.x, self.y = self.cuda.allocate(96), self.cuda.allocate(96)
        self.host = self.cuda.allocate_host(96)
        self.host.view(np.float32)[:] = np.arange(24)

    def ready(self, rows: int = 4) -> "Bench":
        """Shapes and addresses set, input on its way."""
        assert self.context.set_input_shape("x", (rows, 6))
        assert self.context.set_tensor_address("x", self.x)
        assert self.context.set_tensor_address("y", self.y)
        self.cuda.copy_in(self.x, self.host[: rows * 24], self.stream)
        return self

    def run(self, rows: int = 4) -> npt.NDArray[np.float32]:
        """What comes out."""
        assert self.context.execute_async_v3(self.stream)
        self.cuda.copy_out(self.host[: rows * 24], self.y, self.stream)
        self.cuda.synchronize(self.stream)
        result: npt.NDArray[np.float32] = self.host[: rows * 24].view(np.float32).copy()
        return result

    def close(self) -> None:
        """Gives all back."""
        self.cuda.free(self.x)
        self.cuda.free(self.y)
        self.cuda.free_host(self.host)
        self.cuda.destroy_stream(self.stream)
        del self.context, self.engine
        self.cuda.close()
