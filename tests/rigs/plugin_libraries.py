"""Plugin libraries for TensorRT's double, and a model that needs one."""

import shutil
import subprocess
from pathlib import Path

import onnx
from onnx import helper

from edge_runtime.durable import sha256_file
from edge_runtime.packages import open_package
from edge_runtime.packages.manifest import MANIFEST_NAME
from edge_runtime.perception.backends.tensorrt import PluginLibrary

DOMAIN, LAYER = "edge.test", "Unchanged"

_SOURCE = """
static int creator;
void *getCreators(int *count) {{ *count = 1; return &creator; }}
void setLoggerFinder(void *finder) {{ (void)finder; }}
const char *double_layers(void) {{ return "{layers}"; }}
const int number = {number};
"""

_NONE = "int nothing_that_tensorrt_looks_for(void) { return 0; }\n"


def _compiled(path: Path, source: str) -> PluginLibrary:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "needs a C compiler: apt-get install gcc"
    text, made = path.with_suffix(".c"), path.with_name(f"{path.name}.new")
    text.write_text(source, encoding="ascii")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, text], check=True, capture_output=True)
    made.chmod(0o755)
    made.replace(path)  # a library that is loaded somewhere is never written into
    return PluginLibrary(path, sha256_file(path))


def plugin_library(path: Path, *layers: str, number: int = 0) -> PluginLibrary:
    """A library with these layers; `number` makes another of it."""
    names = "".join(f"{layer} " for layer in layers or (LAYER,))
    return _compiled(path, _SOURCE.format(layers=names, number=number))


def no_plugin_library(path: Path) -> PluginLibrary:
    """A library that is no plugin's."""
    return _compiled(path, _NONE)


def with_plugin_layer(package: Path, target: Path) -> Path:
    """A package that answers as another does, through a layer that TensorRT does not have.

    ONNX Runtime runs it, because the model says in a function of its own what the layer does.

    Args:
        package: a package folder.
        target: the new one.
    """
    shutil.copytree(package, target)
    manifest = open_package(package).manifest
    path = target / manifest.weights.file
    model = onnx.load(str(path))
    name = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = [f"{one}.before" if one == name else one for one in node.output]
        node.input[:] = [f"{one}.before" if one == name else one for one in node.input]
    model.graph.node.append(helper.make_node(LAYER, [f"{name}.before"], [name], domain=DOMAIN))
    opset = next(one for one in model.opset_import if one.domain in ("", "ai.onnx"))
    body = [helper.make_node("Identity", ["x"], ["y"])]
    function = helper.make_function(
        DOMAIN, LAYER, ["x"], ["y"], body, [helper.make_opsetid("", opset.version)]
    )
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    model.ir_version = max(model.ir_version, 8)
    path.unlink()
    path.write_bytes(model.SerializeToString())
    digest = sha256_file(path)
    weights = manifest.weights.model_copy(update={"sha256": digest, "bytes": path.stat().st_size})
    changed = manifest.model_copy(update={"weights": weights, "version": f"sha256:{digest}"})
    (target / MANIFEST_NAME).write_bytes(changed.canonical_bytes())
    return target
