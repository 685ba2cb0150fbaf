"""Records what pycuda and cuda.bindings have, for tests/data/cuda_names.json; run by hand when a release is added.

    pip download --no-deps --only-binary :all: -d W cuda-bindings==13.0.3 cuda-pathfinder  # unzip both into W
    pip download --no-deps --no-binary :all: pycuda==2026.1                                # unpack it as P
    python tests/rigs/tensorrt_double/record_names.py --bindings W [--bindings W2] --pycuda P OUT

cuda.bindings is imported (no driver is needed for that) and asked for its functions' signatures; of pycuda's
compiled part the C++ source is read, whose `py::def`, `.def` and `DEF_SIMPLE_…` lines name what Python sees, and of
the rest the syntax tree. Where the source gives no parameter names the entry is null: a call is then checked by
name only.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ASK = """
import inspect, json
import cuda.bindings
from cuda.bindings import driver, nvrtc
def functions(module, prefix):
    found = {}
    for name in dir(module):
        thing = getattr(module, name)
        if name.startswith(prefix) and callable(thing) and not isinstance(thing, type):
            found[name] = list(inspect.signature(thing).parameters)
    return found
def enums(module, names):
    return {n: sorted(getattr(module, n).__members__) for n in names if hasattr(module, n)}
print(json.dumps({"version": cuda.bindings.__version__,
    "driver": {"functions": functions(driver, "cu"), "enums": enums(driver, [
        "CUdevice_attribute", "CUresult", "CUstreamCaptureMode", "CUevent_flags", "CUstream_flags"])},
    "nvrtc": {"functions": functions(nvrtc, "nvrtc"), "enums": enums(nvrtc, ["nvrtcResult"])}}))
"""

_STRING = re.compile(r'"(\w+)"')


def bindings(folder: Path) -> dict[str, Any]:
    """The functions and enums of one unzipped wheel."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _arguments(rest: str) -> list[str] | None:
    if "py::arg" not in rest:
        return None
    names = [n for group in re.findall(r"py::args?\(([^)]*)\)", rest) for n in _STRING.findall(group)]
    return [n for n in names if n != "self"]


def wrapped(source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Functions and classes of pycuda._driver, from its C++ source."""
    functions: dict[str, Any] = {}
    classes: dict[str, Any] = {}
    name: str | None = None
    for statement in source.split(";"):
        if found := re.search(r'py::(?:class_|enum_)<.*?\(\s*"(\w+)"', statement, re.DOTALL):
            name = found.group(1)
            classes.setdefault(name, {})
            if made := re.search(r"py::init<[^;]*?\((py::arg[^;]*?)\)\)", statement):
                classes[name]["__init__"] = _arguments(made.group(1) + ")")
        for called in re.finditer(r'py::def\(\s*"(\w+)"(.*)', statement, re.DOTALL):
            functions[called.group(1)] = _arguments(called.group(2))
        for called in re.finditer(r"^\s*DEF_SIMPLE_FUNCTION(?:_WITH_ARGS)?\((\w+)", statement, re.MULTILINE):
            functions[called.group(1)] = None
        for called in re.finditer(r"DECLARE_EXC\((\w+)", statement):
            classes.setdefault(called.group(1), {})
        if name is not None:
            for member, arguments in _members(statement):
                classes[name].setdefault(member, arguments)
    functions.pop("NAME", None)
    classes.pop("NAME", None)
    return functions, classes


def _members(statement: str) -> Iterator[tuple[str, list[str] | None]]:
    for called in re.finditer(r"\.DEF_SIMPLE_METHOD(?:_WITH_ARGS)?\((\w+)(?:, \(([^)]*)\))?", statement):
        yield called.group(1), _STRING.findall(called.group(2)) if called.group(2) else None
    for called in re.finditer(
        r'\.(?:def|add_property|def_readonly)\("(\w+)"((?:(?!\n\s*\.).)*)', statement, re.DOTALL
    ):
        yield called.group(1), _arguments(called.group(2))
    for called in re.finditer(r'\.value\("(\w+)"', statement):
        yield called.group(1), None


def written(source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Functions and classes of a Python module, and the methods that it adds to `Function`."""
    tree = ast.parse(source)
    functions = {n.name: _parameters(n) for n in tree.body if isinstance(n, ast.FunctionDef)}
    classes: dict[str, Any] = {n.name: {} for n in tree.body if isinstance(n, ast.ClassDef)}
    inner = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    added: dict[str, Any] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute):
            continue
        target, value = node.targets[0], node.value
        to_function = isinstance(target.value, ast.Name) and target.value.id == "Function"
        # the newest interface comes first in the file
        if to_function and isinstance(value, ast.Name) and value.id in inner and target.attr not in added:
            added[target.attr] = _parameters(inner[value.id])[1:]
    return functions, {**classes, **({"Function": added} if added else {})}


def _parameters(node: ast.FunctionDef) -> list[str]:
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    return names + ([f"*{args.vararg.arg}"] if args.vararg else [])


def pycuda(folder: Path) -> dict[str, Any]:
    """The modules that the runtime may touch."""
    functions, classes = wrapped((folder / "src/wrapper/wrap_cudadrv.cpp").read_text(encoding="utf-8"))
    more, added = written((folder / "pycuda/driver.py").read_text(encoding="utf-8"))
    for name, members in added.items():
        classes.setdefault(name, {}).update(members)
    compiler, compiled = written((folder / "pycuda/compiler.py").read_text(encoding="utf-8"))
    version = re.search(
        r"VERSION = \(([\d, ]+)\)", (folder / "pycuda/__init__.py").read_text(encoding="utf-8")
    )
    assert version is not None
    return {
        "version": ".".join(version.group(1).replace(" ", "").strip(",").split(",")),
        "constants": ["VERSION", "VERSION_STATUS", "VERSION_TEXT"],
        "driver": {"functions": functions | more, "classes": classes},
        "compiler": {"functions": compiler, "classes": compiled},
    }


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bindings", type=Path, action="append", required=True)
    parser.add_argument("--pycuda", type=Path, action="append", required=True)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    record = {
        "made": "tests/rigs/tensorrt_double/record_names.py; see there. Names and parameters only.",
        "cuda.bindings": {
            "licence": "NVIDIA proprietary (LicenseRef-NVIDIA-SOFTWARE-LICENSE); Apache-2.0 as of 13.4",
            "releases": [],
        },
        "pycuda": {"licence": "MIT", "releases": []},
    }
    record["cuda.bindings"]["releases"] = [bindings(folder) for folder in options.bindings]  # type: ignore[index]
    record["pycuda"]["releases"] = [pycuda(folder) for folder in options.pycuda]  # type: ignore[index]
    options.out.write_text(
        json.dumps(record, sort_keys=True, indent=0, separators=(",", ":")) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
