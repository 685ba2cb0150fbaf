"""Every name of TensorRT, cuda.bindings and pycuda that the runtime uses exists in each release that it runs on."""

import ast
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.rigs.tensorrt_double import RELEASES
from tests.rigs.tensorrt_double.api import REPOSITORY, load
from tests.rigs.tensorrt_double.catalogue import TensorRtCatalogue, cuda_catalogues
from tests.rigs.tensorrt_double.conformance import Finding, Report, examine, trees_of
from tests.rigs.tensorrt_double.record_names import wrapped

ROOMS = ("edge_runtime/perception/backends/tensorrt", "edge_runtime/engines")
CUDA = tuple(cuda_catalogues())

NEEDED = {
    "Builder.build_serialized_network",
    "Builder.create_network",
    "IBuilderConfig.add_optimization_profile",
    "IBuilderConfig.set_memory_pool_limit",
    "IBuilderConfig.set_timing_cache",
    "ICudaEngine.create_execution_context",
    "ICudaEngine.get_tensor_mode",
    "IPluginRegistry.load_library",
    "IExecutionContext.execute_async_v3",
    "IExecutionContext.set_input_shape",
    "IExecutionContext.set_tensor_address",
    "IOptimizationProfile.set_shape",
    "ITimingCache.serialize",
    "NetworkDefinitionCreationFlag.STRONGLY_TYPED",
    "OnnxParser.parse",
    "ParserError.desc",
    "Runtime.deserialize_cuda_engine",
    "Runtime.engine_host_code_allowed",
    "tensorrt.IProgressMonitor",
}
"""What building and running cannot do without: if the walker does not meet it, it has lost the thread."""

CUDA_NEEDED = {
    "cuda.bindings": {
        "cuda.bindings.driver.cuDevicePrimaryCtxRetain",
        "cuda.bindings.driver.cuLaunchKernel",
        "cuda.bindings.driver.cuMemcpyHtoDAsync",
        "cuda.bindings.nvrtc.nvrtcCompileProgram",
    },
    "pycuda": {
        "driver.Device.retain_primary_context",
        "driver.Function.prepared_async_call",
        "driver.PagelockedHostAllocation.free",
        "driver.Stream.wait_for_event",
        "pycuda.compiler.compile",
        "pycuda.driver.memcpy_htod_async",
    },
}


def users(rooms: Sequence[str] = ROOMS) -> list[Path]:
    """Modules of these rooms, and whoever else imports one of the libraries."""
    inside = [path for room in rooms for path in (REPOSITORY / room).glob("*.py")]
    others = [
        path
        for path in (REPOSITORY / "edge_runtime").rglob("*.py")
        if path not in inside and _uses(path.read_text("utf-8"))
    ]
    return [*inside, *others]


def _uses(source: str) -> bool:
    """Whether a module imports one of the libraries; only what names one is worth parsing."""
    return ("tensorrt" in source or "cuda" in source) and any(map(_imports, ast.walk(ast.parse(source))))


def _imports(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in ("tensorrt", "cuda", "pycuda") for alias in node.names)
    if not isinstance(node, ast.ImportFrom) or node.level:
        return False
    names = {alias.name for alias in node.names}
    return (node.module or "").split(".")[0] in ("tensorrt", "cuda", "pycuda") or "import_tensorrt" in names


def tensorrt_releases(names: Sequence[str] = RELEASES) -> list[TensorRtCatalogue]:
    return [TensorRtCatalogue(load(release)) for release in names]


def told(report: Report) -> str:
    return "\n".join(map(str, report.findings))


def test_the_runtime_uses_no_name_that_a_release_of_tensorrt_lacks(shared_data: Path) -> None:
    report = examine(trees_of(users()), tensorrt_releases())
    assert not report.findings, told(report)
    for label, seen in report.seen.items():
        assert seen >= NEEDED, f"{label}: not met: {sorted(NEEDED - seen)}"


def test_the_runtime_uses_no_name_that_cuda_bindings_or_pycuda_lacks() -> None:
    report = examine(trees_of(users(ROOMS[:1])), CUDA)
    assert not report.findings, told(report)
    for label, seen in report.seen.items():
        needed = CUDA_NEEDED[label.split()[0]]
        assert seen >= needed, f"{label}: not met: {sorted(needed - seen)}"


def test_the_recorded_releases_are_those_that_the_seam_was_written_for() -> None:
    assert [c.label for c in CUDA] == [
        "cuda.bindings 12.9.1",
        "cuda.bindings 13.0.3",
        "cuda.bindings 13.4.4",
        "pycuda 2024.1",
        "pycuda 2025.1.1",
        "pycuda 2026.1",
    ]


def parsed(source: str, before: str = "") -> ast.Module:
    """The tree of an indented text."""
    return ast.parse(before + textwrap.dedent(source).strip())


def test_the_names_of_a_compiled_module_are_read_from_its_source() -> None:
    functions, classes = wrapped(
        """
        DECLARE_EXC(MemoryError, CudaError.get());
        py::enum_<CUevent_flags>("event_flags")
          .value("DEFAULT", CU_EVENT_DEFAULT)
          ;
        py::class_<cl, shared_ptr<cl> >
          ("Stream", py::init<unsigned int>(py::arg("flags")=0))
          .DEF_SIMPLE_METHOD(synchronize)
          .def("attach", &cl::attach, (py::args("self", "flags")))
          .add_property("handle", &cl::handle_int)
          ;
        py::def("memset_d8",  py_memset_d8, py::args("dest", "data", "size"));
        DEF_SIMPLE_FUNCTION(mem_get_info);
        """
    )
    assert functions == {"memset_d8": ["dest", "data", "size"], "mem_get_info": None}
    assert classes["Stream"] == {
        "__init__": ["flags"],
        "synchronize": None,
        "attach": ["flags"],
        "handle": None,
    }
    assert classes["event_flags"] == {"DEFAULT": None}
    assert "MemoryError" in classes


def findings(source: str, before: str = "", **others: str) -> list[Finding]:
    """What is found in a module `it` (and others beside it)."""
    trees = {"it": parsed(source, before)} | {name: parsed(text) for name, text in others.items()}
    return list(examine(trees, tensorrt_releases()).findings)


def only(found: list[Finding], line: int, text: str, releases: Sequence[str] = RELEASES) -> None:
    """Exactly one finding for each of these releases."""
    wanted = {(f"TensorRT {release}", line, text) for release in releases}
    assert {(f.release, f.line, f.text) for f in found} == wanted, found
    assert {f.file for f in found} == {"it.py"}


WRONG = {
    "a method that is misspelt": (
        """
        import tensorrt as trt
        def f(log):
            return trt.Builder(log).create_networks(0)
        """,
        3,
        "Builder has no create_networks",
        RELEASES,
    ),
    "an enum that is misspelt": (
        """
        import tensorrt
        mode = tensorrt.TensorIOMode.INPUTS
        """,
        2,
        "TensorIOMode has no INPUTS",
        RELEASES,
    ),
    "a flag that 11 has no more": (
        """
        import tensorrt as trt
        def f(builder: trt.Builder):
            config = builder.create_builder_config()
            config.set_flag(trt.BuilderFlag.FP16)
        """,
        4,
        "BuilderFlag has no FP16",
        ("11.4.0",),
    ),
    "a creation flag that 11 has no more": (
        """
        import tensorrt as trt
        bit = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
        """,
        2,
        "NetworkDefinitionCreationFlag has no EXPLICIT_BATCH",
        ("11.4.0",),
    ),
    "a size that 11 has no more": (
        """
        import tensorrt as trt
        def f(runtime: 'trt.Runtime', data: bytes):
            return runtime.deserialize_cuda_engine(data).device_memory_size
        """,
        3,
        "ICudaEngine has no device_memory_size",
        ("11.4.0",),
    ),
    "a keyword that is wrong": (
        """
        import tensorrt as trt
        log = trt.Logger(severity=trt.Logger.ERROR)
        """,
        2,
        "Logger has no parameter severity",
        RELEASES,
    ),
    "an argument too many": (
        """
        import tensorrt as trt
        def f(engine: trt.ICudaEngine):
            engine.get_tensor_name(0, 1)
        """,
        3,
        "ICudaEngine.get_tensor_name takes 1 arguments, not 2",
        RELEASES,
    ),
    "an argument that is missing": (
        """
        import tensorrt as trt
        def f(context: trt.IExecutionContext):
            context.set_tensor_address('images')
        """,
        3,
        "IExecutionContext.set_tensor_address needs memory",
        RELEASES,
    ),
    "a property that is called": (
        """
        import tensorrt as trt
        def f(engine: trt.ICudaEngine):
            engine.num_io_tensors()
        """,
        3,
        "ICudaEngine.num_io_tensors is no method",
        RELEASES,
    ),
    "the binding interface of TensorRT 8": (
        """
        import tensorrt as trt
        def f(engine: trt.ICudaEngine):
            return engine.num_bindings
        """,
        3,
        "ICudaEngine has no num_bindings",
        RELEASES,
    ),
    "a monitor without one of its methods": (
        """
        import tensorrt as trt
        class M(trt.IProgressMonitor):
            def phase_start(self, a, b, c): ...
            def step_complete(self, a, b): return True
            def phase_finished(self, a): ...
        """,
        2,
        "class M has no method phase_finish, which IProgressMonitor calls",
        RELEASES,
    ),
    "a method that takes other arguments than it is given": (
        """
        import tensorrt as trt
        class L(trt.ILogger):
            def log(self, text): ...
        """,
        3,
        "L.log is called with 2 arguments, and takes 1",
        RELEASES,
    ),
    "a class of another module": (
        """
        from tensorrt import OnnxRefitterX
        """,
        1,
        "the module tensorrt has no OnnxRefitterX",
        RELEASES,
    ),
}


@pytest.mark.parametrize(("source", "line", "text", "releases"), WRONG.values(), ids=WRONG)
def test_finds(shared_data: Path, source: str, line: int, text: str, releases: tuple[str, ...]) -> None:
    only(findings(source), line, text, releases)


FOLLOWED = {
    "import as": """
        import tensorrt as rt
        rt.Bilder
        """,
    "import from as": """
        from tensorrt import Builder as B
        B({}).create_net()
        """,
    "a function that imports": """
        def _import():
            import tensorrt
            return tensorrt
        trt = _import()
        trt.Bilder
        """,
    "an annotated result": """
        import tensorrt
        def make() -> 'tensorrt.Builder': ...
        builder = make()
        builder.create_net()
        """,
    "an annotated variable": """
        import tensorrt
        builder: tensorrt.Builder | None = None
        builder.create_net()
        """,
    "a parameter": """
        import tensorrt
        def use(anything):
            anything.create_net()
        use(tensorrt.Builder(1))
        """,
    "a keyword parameter": """
        import tensorrt
        def use(*, it):
            it.create_net()
        use(it=tensorrt.Builder(1))
        """,
    "self": """
        import tensorrt
        class A:
            def __init__(self):
                self._b = tensorrt.Builder(1)
            def go(self):
                self._b.create_net()
        """,
    "an argument of __init__": """
        import tensorrt
        class A:
            def __init__(self, b):
                self._b = b
            def go(self):
                return self._b.create_net()
        A(tensorrt.Builder(1))
        """,
    "a field of a dataclass": """
        import tensorrt
        class A:
            b: object
            n: int
        a = A(tensorrt.Builder(1), 2)
        a.b.create_net()
        """,
    "a property": """
        import tensorrt
        class A:
            @property
            def b(self):
                return tensorrt.Builder(1)
        A().b.create_net()
        """,
    "a tuple": """
        import tensorrt
        def two():
            return 1, tensorrt.Builder(1)
        _, b = two()
        b.create_net()
        """,
    "a list": """
        import tensorrt
        all_of_them = []
        all_of_them.append(tensorrt.Builder(1))
        for b in all_of_them:
            b.create_net()
        """,
    "a dict": """
        import tensorrt
        d = {}
        d['x'] = tensorrt.Builder(1)
        for _, b in d.items():
            b.create_net()
        """,
    "a comprehension": """
        import tensorrt
        for b in [tensorrt.Builder(n) for n in range(2)]:
            b.create_net()
        """,
    "a result's result": """
        import tensorrt
        tensorrt.Builder(1).create_builder_config().create_timing_cache(b'').serialise()
        """,
    "a list that TensorRT returns": """
        import tensorrt
        def f(e: tensorrt.ICudaEngine):
            return [d.volume for d in e.get_tensor_profile_shape('x', 0)]
        """,
    "getattr": """
        import tensorrt
        enum = getattr(tensorrt.DataType, 'FLOAT32')
        """,
    "a nested function": """
        import tensorrt
        def f():
            b = tensorrt.Builder(1)
            def g():
                b.create_net()
        """,
    "a with statement": """
        import tensorrt
        with tensorrt.Builder(1).create_net() as x:
            pass
        """,
    "what nobody knows the class of": """
        import tensorrt
        def f(e: tensorrt.ICudaEngine):
            return e.error_recorder.numb_errors()
        """,
    "an unfitting call of a forwarded method": """
        import tensorrt
        def call(function, *arguments):
            return function(*arguments)
        def f(e: tensorrt.IExecutionContext):
            return call(e.set_tensor_address, 'x')
        """,
}


@pytest.mark.parametrize("source", FOLLOWED.values(), ids=FOLLOWED)
def test_follows(shared_data: Path, source: str) -> None:
    found = findings(source)
    assert {f.release for f in found} == {f"TensorRT {r}" for r in RELEASES}, found
    assert len({(f.line, f.text) for f in found}) == 1


def test_follows_from_module_to_module(shared_data: Path) -> None:
    library = """
        def bring():
            import tensorrt
            return tensorrt
        def make(trt):
            return trt.Biulder
    """
    user = """
        from room.library import bring as fetch
        from room import library as lib
        fetch().Bilder
        lib.make(fetch())
    """
    found = findings(user, **{"room.library": library})
    assert {(f.file, f.line) for f in found} == {("it.py", 3), ("room/library.py", 5)}


GUARDED = {
    "if": """
        if hasattr(trt.BuilderFlag, 'FP16'):
            flag = trt.BuilderFlag.FP16
        """,
    "and": "ok = hasattr(trt.BuilderFlag, 'FP16') and trt.BuilderFlag.FP16",
    "or": "ok = not hasattr(trt.BuilderFlag, 'FP16') or trt.BuilderFlag.FP16",
    "conditional": "flag = trt.BuilderFlag.FP16 if hasattr(trt.BuilderFlag, 'FP16') else None",
    "leaving": """
        def f():
            if not hasattr(trt.BuilderFlag, 'FP16'):
                return None
            return trt.BuilderFlag.FP16
        """,
    "getattr with a default": "flag = getattr(trt.BuilderFlag, 'FP16', None)",
}


@pytest.mark.parametrize("source", GUARDED.values(), ids=GUARDED)
def test_a_name_may_be_missing_behind_hasattr(shared_data: Path, source: str) -> None:
    assert findings(source, before="import tensorrt as trt\n") == []


UNGUARDED = {
    "the other branch": """
        if hasattr(trt.BuilderFlag, 'FP16'):
            pass
        else:
            trt.BuilderFlag.FP16
        """,
    "another name": """
        if hasattr(trt.BuilderFlag, 'INT8'):
            trt.BuilderFlag.FP16
        """,
    "afterwards": """
        if hasattr(trt.BuilderFlag, 'FP16'):
            pass
        trt.BuilderFlag.FP16
        """,
    "another object": """
        if hasattr(trt.TacticSource, 'FP16'):
            trt.BuilderFlag.FP16
        """,
}


@pytest.mark.parametrize("source", UNGUARDED.values(), ids=UNGUARDED)
def test_a_guard_covers_only_what_it_guards(shared_data: Path, source: str) -> None:
    assert {f.release for f in findings(source, before="import tensorrt as trt\n")} == {"TensorRT 11.4.0"}


def test_a_name_that_is_put_together_at_run_time_is_refused(shared_data: Path) -> None:
    found = findings("import tensorrt as trt\ndef f(name):\n    return getattr(trt.BuilderFlag, name)")
    assert {f.text for f in found} == {"BuilderFlag: the name of an attribute must be written out"}


RIGHT = {
    "attributes of a subclass": """
        import tensorrt as trt
        class L(trt.ILogger):
            def __init__(self):
                trt.ILogger.__init__(self)
                self.lines = []
            def log(self, severity, msg):
                self.lines.append(msg)
        L().lines.clear()
        """,
    "text that TensorRT returns": """
        import tensorrt as trt
        def f(e: trt.ICudaEngine):
            return e.get_tensor_name(0).upper()
        """,
    "a type of its own": """
        from tensorrt_extras import Builder
        Builder(1).anything()
        """,
    "keywords": """
        import tensorrt as trt
        def f(c: trt.IBuilderConfig, t: trt.ITimingCache):
            c.set_timing_cache(cache=t, ignore_mismatch=False)
        """,
    "a shape that is read": """
        import tensorrt as trt
        def f(t: trt.ITensor):
            return tuple(t.shape)[0].bit_length()
        """,
}


@pytest.mark.parametrize("source", RIGHT.values(), ids=RIGHT)
def test_finds_nothing_where_nothing_is_wrong(shared_data: Path, source: str) -> None:
    assert findings(source) == []


CUDA_WRONG = {
    "cuda.bindings: a name": (
        """
        from cuda.bindings import driver
        driver.cuMemAllocate(1)
        """,
        "cuMemAllocate",
    ),
    "cuda.bindings: a count": (
        """
        from cuda.bindings import driver
        driver.cuMemAlloc(1, 2)
        """,
        "takes 1 arguments, not 2",
    ),
    "cuda.bindings: a missing one": (
        """
        from cuda.bindings import driver
        driver.cuStreamCreate()
        """,
        "needs Flags",
    ),
    "cuda.bindings: an enum": (
        """
        import cuda.bindings.driver as d
        d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_MAJOR
        """,
        "has no CU_DEVICE_ATTRIBUTE_COMPUTE_MAJOR",
    ),
    "pycuda: a function": (
        """
        import pycuda.driver as cuda
        cuda.memcpy_htod_asynchronous(1, 2)
        """,
        "memcpy_htod_asynchronous",
    ),
    "pycuda: a method": (
        """
        import pycuda.driver as cuda
        cuda.Device(0).retain_context()
        """,
        "has no retain_context",
    ),
    "pycuda: a keyword": (
        """
        import pycuda.driver as cuda
        cuda.memcpy_htod_async(1, 2, queue=3)
        """,
        "has no parameter queue",
    ),
}


@pytest.mark.parametrize(("source", "text"), CUDA_WRONG.values(), ids=CUDA_WRONG)
def test_finds_in_cuda_libraries(source: str, text: str) -> None:
    found = examine({"it": parsed(source)}, CUDA).findings
    assert {f.line for f in found} == {2}
    assert all(text in f.text for f in found)
    library = found[0].release.split()[0]
    assert {f.release for f in found} == {c.label for c in CUDA if c.label.split()[0] == library}


def test_the_runtime_itself_with_a_letter_wrong_is_found(shared_data: Path) -> None:
    trees = trees_of(users())
    changed = 0
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "execute_async_v3":
                node.attr, changed = "execute_async_v2", changed + 1
    found = examine(trees, tensorrt_releases()).findings
    assert changed
    assert {f.release for f in found} == {f"TensorRT {r}" for r in RELEASES}
    assert {f.text for f in found} == {"IExecutionContext has no execute_async_v2"}
