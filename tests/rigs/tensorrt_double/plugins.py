"""Plugin registries of the double: a library is really loaded, and must export what TensorRT looks for in one.

`getCreators` of a real library gives objects of C++, of which the double can ask nothing. So a library for it says
the names of its layers in one more function, `double_layers`: names in ASCII, each ended by a space.
"""

import ctypes
from typing import Any

import onnx

from tests.rigs.tensorrt_double.stage import Stage


def is_foreign(node: onnx.NodeProto) -> bool:
    """Whether an operator is none of ONNX's own: TensorRT looks for a plugin of its name."""
    return node.domain not in ("", "ai.onnx")


def foreign_operators(model: onnx.ModelProto) -> tuple[str, ...]:
    """Operators of a graph that only a plugin has, sorted."""
    return tuple(sorted({node.op_type for node in model.graph.node if is_foreign(node)}))


class RegistryAct:
    """`IPluginRegistry` of one builder or runtime."""

    def __init__(self, stage: Stage, logger: Any) -> None:
        self._stage, self._logger = stage, logger
        self.creators: set[str] = set()

    def load_library(self, plugin_path: str) -> object | None:
        try:
            library = ctypes.CDLL(plugin_path)
        except OSError as error:
            self._say(f"Unable to open library: {plugin_path} due to {error}")
            return None
        if not any(hasattr(library, name) for name in ("getCreators", "getPluginCreators")):
            self._say(f"Unable to find getPluginCreators or getCreators in {plugin_path}")
            return None
        layers = library.double_layers
        layers.restype = ctypes.c_char_p
        self.creators |= set(layers().decode("ascii").split())
        return object()

    def _say(self, text: str) -> None:
        self._stage.log(self._logger, "ERROR", f"IPluginRegistry::loadLibrary: Error Code 3 ({text})")
