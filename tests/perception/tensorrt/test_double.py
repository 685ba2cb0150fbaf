"""The double plays a release of TensorRT to the letter: names, signatures, builds, and what it refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.rigs.tensorrt_double import GPUS, RELEASES, Double, Faults, Gpu, build_engine, install, installed
from tests.rigs.tensorrt_double.bench import FULL, Bench, Log, doubling
from tests.rigs.tensorrt_double.strict import NotPlayed


@pytest.fixture
def double(shared_data: Path) -> Iterator[Double]:
    with installed("10.3.0") as made:
        yield made


# It is TensorRT, to the letter


@pytest.mark.parametrize("release", RELEASES)
def test_an_engine_is_built_read_and_executed(shared_data: Path, release: str) -> None:
    with installed(release) as double:
        bench = Bench(double).ready()
        np.testing.assert_array_equal(bench.run(), 2 * np.arange(24, dtype=np.float32))
        bench.ready(rows=1)
        bench.host.view(np.float32)[:6] = 5
        np.testing.assert_array_equal(bench.run(rows=1), np.full(6, 10, np.float32))
        assert bench.log.lines == []
        bench.close()
        assert double.ledger().empty, str(double.ledger())


@pytest.mark.parametrize("release", RELEASES)
def test_the_module_is_that_of_the_release(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    double = install(monkeypatch, release)
    import tensorrt as trt  # type: ignore[import-not-found,unused-ignore]

    assert trt is double.tensorrt
    assert trt.__version__ == {"10.3.0": "10.3.0", "10.13.3": "10.13.3.9", "11.4.0": "11.4.0.106"}[release]
    assert hasattr(trt.BuilderFlag, "FP16") is (release != "11.4.0")
    assert hasattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH") is (release != "11.4.0")
    assert hasattr(trt.ICudaEngine, "device_memory_size") is (release != "11.4.0")
    assert not hasattr(trt, "init_libnvinfer_plugin")
    assert not hasattr(trt.ICudaEngine, "num_bindings")


def test_the_flag_for_strong_types_has_another_value_in_11(shared_data: Path) -> None:
    values = {r: int(Double(r).tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) for r in RELEASES}
    assert values == {"10.3.0": 1, "10.13.3": 1, "11.4.0": 0}


REFUSED = {
    "unknown method": (
        lambda trt, log: trt.Builder(log).create_networks(),
        AttributeError,
        "create_networks",
    ),
    "unknown name": (lambda trt, log: trt.Bilder, AttributeError, "Bilder"),
    "unknown enum": (lambda trt, log: trt.DataType.FLOAT32, AttributeError, "FLOAT32"),
    "unknown keyword": (
        lambda trt, log: trt.Builder(log).create_network(flag=1),
        TypeError,
        "no parameter flag",
    ),
    "too many": (
        lambda trt, log: trt.Builder(log).create_network(0, 1),
        TypeError,
        "takes 1 arguments, not 2",
    ),
    "too few": (
        lambda trt, log: trt.OnnxParser(trt.Builder(log).create_network()),
        TypeError,
        "needs logger",
    ),
    "a wrong type": (
        lambda trt, log: trt.Builder(log).create_network("x"),
        TypeError,
        "flags must be int, not str",
    ),
    "a number for an enum": (
        lambda trt, log: trt.Builder(log).create_builder_config().set_flag(1),
        TypeError,
        "flag must be tensorrt.BuilderFlag, not int",
    ),
    "made by TensorRT alone": (lambda trt, log: trt.ICudaEngine(), TypeError, "No constructor defined"),
    "a foreign attribute": (
        lambda trt, log: setattr(trt.Builder(log), "workspace", 1),
        AttributeError,
        "workspace",
    ),
    "a property without a setter": (
        lambda trt, log: setattr(trt.Builder(log).create_network(), "num_inputs", 1),
        AttributeError,
        "num_inputs",
    ),
    "shifting by an enum": (lambda trt, log: 1 << trt.BuilderFlag.TF32, TypeError, "unsupported operand"),
    "comparing severities": (
        lambda trt, log: trt.ILogger.ERROR < trt.ILogger.INFO,
        TypeError,
        "not supported",
    ),
    "comparing two shapes": (
        lambda trt, log: trt.Dims((1, 2)) == trt.Dims((1, 2)),
        TypeError,
        "incompatible",
    ),
    "the length of host memory": (
        lambda trt, log: len(trt.Builder(log).create_builder_config().create_timing_cache(b"").serialize()),
        TypeError,
        "no len",
    ),
    "a method of bytes": (
        lambda trt, log: trt.Builder(log).create_builder_config().create_timing_cache(b"").serialize().hex(),
        AttributeError,
        "hex",
    ),
    "a part that is not played": (
        lambda trt, log: trt.Builder(log).create_network().add_shuffle(None),
        NotPlayed,
        "INetworkDefinition.add_shuffle",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_refuses(double: Double, call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(double.tensorrt, Log(double.tensorrt).logger)


def test_a_logger_whose_base_was_not_initialised_is_refused(double: Double) -> None:
    class Forgetful(double.tensorrt.ILogger):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.lines: list[str] = []

    with pytest.raises(TypeError, match="must be called when overriding __init__"):
        Forgetful()


def test_host_memory_is_a_buffer(double: Double, tmp_path: Path) -> None:
    plan = double.tensorrt.Builder(Log(double.tensorrt).logger).create_builder_config()
    memory = plan.create_timing_cache(b"").serialize()
    assert memory
    assert bytes(memory) == memoryview(memory).tobytes() == np.frombuffer(memory, np.uint8).tobytes()
    assert memory.nbytes == (tmp_path / "cache").write_bytes(memory)


def test_shapes_read_like_tuples(double: Double) -> None:
    dims = double.tensorrt.Dims((1, 3, -1))
    assert (tuple(dims), len(dims), dims[-1], dims[:2], dims == (1, 3, -1)) == (
        (1, 3, -1),
        3,
        -1,
        (1, 3),
        True,
    )
    with pytest.raises(IndexError):
        dims[3]
    assert double.tensorrt.volume((2, 3)) == 6
    assert double.tensorrt.nptype(double.tensorrt.DataType.HALF) is np.float16
    assert double.tensorrt.float32.itemsize == 4


# Building


def parsed(double: Double, model: bytes) -> tuple[Any, Any, Any, Log]:
    """Builder, network, parser, and what the logger was told."""
    trt, log = double.tensorrt, Log(double.tensorrt)
    builder = trt.Builder(log.logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log.logger)
    parser.parse(model)
    return builder, network, parser, log


def test_a_dynamic_network_needs_a_profile(double: Double) -> None:
    builder, network, _, log = parsed(double, doubling())
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "no optimization profile has been defined" in log.lines[0]


def test_a_precision_flag_on_a_strongly_typed_network_is_refused(double: Double) -> None:
    builder, network, _, log = parsed(double, doubling(4))
    config = builder.create_builder_config()
    config.set_flag(double.tensorrt.BuilderFlag.FP16)
    assert builder.build_serialized_network(network, config) is None
    assert "FP16 cannot be set for a strongly typed network" in log.lines[0]


def test_a_profile_that_contradicts_itself_is_refused(double: Double) -> None:
    builder, _, _, _ = parsed(double, doubling())
    profile = builder.create_optimization_profile()
    with pytest.raises(ValueError, match="inconsistent"):
        profile.set_shape("x", (2, 6), (1, 6), (4, 6))


def test_the_parser_says_which_node_it_cannot_read(shared_data: Path) -> None:
    with installed(faults=Faults(refused_operators=("Mul",))) as double:
        _, _, parser, log = parsed(double, doubling(4))
        error = parser.get_error(0)
        assert (parser.num_errors, error.node(), error.node_name(), error.node_operator()) == (
            1,
            0,
            "twice",
            "Mul",
        )
        assert error.code() == double.tensorrt.ErrorCode.UNSUPPORTED_NODE
        assert log.lines


def test_bytes_that_are_no_model_are_refused(double: Double) -> None:
    _, network, parser, _ = parsed(double, b"no model")
    assert parser.num_errors == 1
    assert network.num_inputs == 0


def test_an_unsigned_zero_point_is_refused_as_tensorrt_does(double: Double) -> None:
    model = onnx.load_model_from_string(doubling(4))
    scale, zero = (numpy_helper.from_array(np.array(v, t), n) for v, t, n in ((1, "f4", "s"), (0, "u1", "z")))
    model.graph.initializer.extend([scale, zero])
    model.graph.node.extend(
        [
            helper.make_node("QuantizeLinear", ["y0", "s", "z"], ["q"], name="quantise"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="back"),
        ]
    )
    model.graph.node[0].output[0] = "y0"
    _, _, parser, _ = parsed(double, model.SerializeToString())
    assert parser.get_error(0).node_name() == "quantise"


def test_a_build_is_slow_shows_progress_and_can_be_cancelled(shared_data: Path) -> None:
    with installed(faults=Faults(build_seconds=0.1)) as double:
        builder, network, _, log = parsed(double, doubling(4))
        config = builder.create_builder_config()
        seen: list[tuple[str, Any]] = []

        class Monitor(double.tensorrt.IProgressMonitor):  # type: ignore[name-defined,misc]
            def __init__(self, until: int) -> None:
                double.tensorrt.IProgressMonitor.__init__(self)
                self.until = until

            def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
                seen.append((phase_name, parent_phase))

            def step_complete(self, phase_name: str, step: int) -> bool:
                return step < self.until

            def phase_finish(self, phase_name: str) -> None:
                seen.append((phase_name, "finish"))

        config.progress_monitor = Monitor(1000)
        assert builder.build_serialized_network(network, config) is not None
        assert seen[0] == ("Building Engine", None)
        assert seen[-1] == ("Building Engine", "finish")
        config.progress_monitor = Monitor(1)
        assert builder.build_serialized_network(network, config) is None
        assert "cancelled" in log.lines[-1]


def test_a_build_fails_once(shared_data: Path) -> None:
    with installed(faults=Faults(build_fails=1, build_lines=("no tactic",))) as double:
        builder, network, _, log = parsed(double, doubling(4))
        config = builder.create_builder_config()
        assert builder.build_serialized_network(network, config) is None
        assert log.lines == ["ERROR: no tactic"]
        assert builder.build_serialized_network(network, config) is not None


def test_a_timing_cache_of_another_release_is_refused(shared_data: Path) -> None:
    caches = {}
    for release in RELEASES:
        with installed(release) as double:
            builder, network, _, _ = parsed(double, doubling(4))
            config = builder.create_builder_config()
            config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)
            builder.build_serialized_network(network, config)
            caches[release] = bytes(config.get_timing_cache().serialize())
            assert config.create_timing_cache(caches[release]) is not None
            if release != "10.3.0":
                assert config.create_timing_cache(caches["10.3.0"]) is None


# Engines that are refused


def refused(double: Double, engine: bytes) -> list[str]:
    """What is said when it is not deserialised."""
    log = Log(double.tensorrt)
    assert double.tensorrt.Runtime(log.logger).deserialize_cuda_engine(engine) is None
    return log.lines


def test_an_engine_of_another_release_is_refused(shared_data: Path) -> None:
    with installed("10.13.3") as newer:
        engine = build_engine(newer, doubling(4))
    with installed("10.3.0", gpu=GPUS["10.13.3"]) as double:
        (line,) = refused(double, engine)
        assert "Version tag does not match" in line


def test_an_engine_that_another_build_of_the_release_made_is_refused(shared_data: Path) -> None:
    with installed(faults=Faults(built_by="10.3.0.26")) as double:
        (line,) = refused(double, build_engine(double, doubling(4)))
        assert "Version tag does not match" in line


def test_an_engine_of_another_device_is_refused(shared_data: Path) -> None:
    with installed(gpu=Gpu("Orin Nano", (8, 6))) as other:
        engine = build_engine(other, doubling(4))
    with installed() as double:
        (line,) = refused(double, engine)
        assert "expecting compute 8.7 got compute 8.6" in line


def test_an_engine_of_a_sister_of_the_device_is_taken_with_a_warning(shared_data: Path) -> None:
    with installed(gpu=Gpu("Orin (nvgpu)")) as other:
        engine = build_engine(other, doubling(4))
    with installed() as double:
        log = Log(double.tensorrt)
        assert double.tensorrt.Runtime(log.logger).deserialize_cuda_engine(engine) is not None
        assert log.lines[0].startswith(
            "WARNING: Using an engine plan file across different models of devices"
        )


@pytest.mark.parametrize("place", [0, 20, 60, -1])
def test_an_engine_with_one_bit_wrong_is_refused(double: Double, place: int) -> None:
    engine = bytearray(build_engine(double, doubling(4)))
    engine[place] ^= 1
    (line,) = refused(double, bytes(engine))
    assert "Serialization" in line
    assert refused(double, bytes(engine[:-9]))


def test_an_engine_that_would_bring_code_along_is_refused_unless_allowed(double: Double) -> None:
    builder, network, _, log = parsed(double, doubling(4))
    config = builder.create_builder_config()
    config.set_flag(double.tensorrt.BuilderFlag.VERSION_COMPATIBLE)
    engine = bytes(builder.build_serialized_network(network, config))
    runtime = double.tensorrt.Runtime(log.logger)
    assert runtime.engine_host_code_allowed is False
    assert runtime.deserialize_cuda_engine(engine) is None
    assert "host code is not allowed" in log.lines[-1]
    runtime.engine_host_code_allowed = True
    assert runtime.deserialize_cuda_engine(engine) is not None


def test_deserialisation_fails_with_what_the_logger_is_told(shared_data: Path) -> None:
    with installed(faults=Faults(deserialise_fails=2, deserialise_lines=("one", "two"))) as double:
        engine = build_engine(double, doubling(4))
        assert refused(double, engine) == refused(double, engine) == ["ERROR: one", "ERROR: two"]
        log = Log(double.tensorrt)
        assert double.tensorrt.Runtime(log.logger).deserialize_cuda_engine(engine) is not None


# Shapes


def test_a_shape_outside_the_profile_is_refused_and_said(double: Double) -> None:
    bench = Bench(double)
    for shape in ((5, 6), (0, 6), (1, 7), (1, 6, 1)):
        assert bench.context.set_input_shape("x", shape) is False
    assert len(bench.log.lines) == 4
    assert bench.context.set_input_shape("z", (1, 6)) is False
    assert bench.context.set_tensor_address("z", bench.x) is False
    assert bench.context.infer_shapes() == ["x"]
    assert tuple(bench.context.get_tensor_shape("y")) == (-1, 6)
    bench.context.set_input_shape("x", (3, 6))
    assert bench.context.infer_shapes() == []
    assert tuple(bench.context.get_tensor_shape("y")) == (3, 6)
    assert bench.context.get_max_output_size("y") == 72
    bench.close()


def test_an_engine_tells_of_its_tensors_and_profiles(double: Double) -> None:
    bench, trt = Bench(double), double.tensorrt
    engine = bench.engine
    names = [engine.get_tensor_name(n) for n in range(engine.num_io_tensors)]
    assert names == ["x", "y"]
    assert [engine.get_tensor_mode(n) for n in names] == [trt.TensorIOMode.INPUT, trt.TensorIOMode.OUTPUT]
    assert [engine.get_tensor_dtype(n) for n in names] == [trt.float32, trt.float32]
    assert [tuple(s) for s in engine.get_tensor_profile_shape("x", 0)] == [(1, 6), (2, 6), FULL]
    assert engine.num_optimization_profiles == 1
    assert engine.device_memory_size_v2 > 0
    del engine
    bench.close()
