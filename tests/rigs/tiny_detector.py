"""A whole detector of a few kilobytes: for tests whose subject is not the network.

One convolution at each of three strides gives YOLOX's rows, so its answers hang on every pixel; it is a sound
package with golden vectors, and a run takes a fraction of a millisecond.
"""

import hashlib
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from edge_runtime.authoring.golden_vectors import record_golden
from edge_runtime.authoring.write_package import write_files
from edge_runtime.packages import ModelPackage
from edge_runtime.packages.manifest import (
    HeadSpec,
    InputSpec,
    Licence,
    ModelManifest,
    RuntimeNeeds,
    Thresholds,
    Weights,
)
from edge_runtime.perception.backends.onnxruntime import OnnxRuntimeBackend
from edge_runtime.protocol import DataClass

HEIGHT, WIDTH = 64, 96
STRIDES = (8, 16, 32)
CHANNELS = 6
"""Four of the box, objectness, one class."""


def tiny_network(seed: int = 1) -> bytes:
    """The ONNX file; the batch may have any size."""
    random = np.random.default_rng(seed)
    nodes: list[NodeProto] = []
    held = [numpy_helper.from_array(np.array([0, CHANNELS, -1]), "rows")]
    for stride in STRIDES:
        kernel = random.normal(0, 6 / stride**1.5, (CHANNELS, 3, stride, stride)).astype(np.float32)
        bias = np.array([0, 0, 0.5, 0.5, 1, 2], np.float32)
        held += [numpy_helper.from_array(kernel, f"w{stride}"), numpy_helper.from_array(bias, f"b{stride}")]
        nodes += [
            helper.make_node(
                "Conv", ["images", f"w{stride}", f"b{stride}"], [f"c{stride}"], strides=[stride, stride]
            ),
            helper.make_node("Reshape", [f"c{stride}", "rows"], [f"r{stride}"]),
        ]
    joined = [f"r{stride}" for stride in STRIDES]
    nodes += [
        helper.make_node("Concat", joined, ["all"], axis=2),
        helper.make_node("Split", ["all", "parts"], ["geometry", "raw"], axis=1),
        helper.make_node("Sigmoid", ["raw"], ["sure"]),
        helper.make_node("Tanh", ["geometry"], ["near"]),
        helper.make_node("Concat", ["near", "sure"], ["both"], axis=1),
        helper.make_node("Transpose", ["both"], ["output"], perm=[0, 2, 1]),
    ]
    held.append(numpy_helper.from_array(np.array([4, CHANNELS - 4]), "parts"))
    rows = sum((HEIGHT // stride) * (WIDTH // stride) for stride in STRIDES)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", rows, CHANNELS])],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return bytes(model.SerializeToString())


def tiny_package(folder: Path, *, seed: int = 1) -> ModelPackage:
    """The package, with two golden vectors.

    Args:
        folder: to make.
        seed: of the weights; another one is another model of the same architecture.
    """
    network = tiny_network(seed)
    digest = hashlib.sha256(network).hexdigest()
    manifest = ModelManifest(
        name="tiny.detector",
        version=f"sha256:{digest}",
        released="2026-01-15",
        task="detect",
        weights=Weights(file="tiny.onnx", sha256=digest, bytes=len(network), source="made by a test"),
        licence=Licence(spdx="NOASSERTION", evidence="made by a test"),
        input=InputSpec(name="images", height=HEIGHT, width=WIDTH, batch=8, scale=1 / 255),
        head=HeadSpec(family="yolox", outputs=("output",), strides=STRIDES),
        labels=("face",),
        thresholds=Thresholds(score=0.5),
        quantisation="none",
        runtime=RuntimeNeeds(opset=17),
        data_classes=tuple(DataClass),
        tokenizer="n/a",
        chat_template="n/a",
        tool_parser="n/a",
        evaluation=(),
        golden=(),
    )
    path = folder.with_name(f"{folder.name}.onnx")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(network)
    backend = OnnxRuntimeBackend(path)
    vectors = record_golden(manifest, backend)
    backend.close()
    files = {"tiny.onnx": network}
    for one in vectors:
        assert 5 < len(one.detections) < 100, len(one.detections)
        files |= {one.vector.inputs: one.inputs, one.vector.outputs: one.outputs}
    complete = manifest.model_copy(update={"golden": tuple(one.vector for one in vectors)})
    return write_files(complete, files, folder)
