"""The module `tensorrt` of one release, and how it takes its place in a process."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.rigs.tensorrt_double.api import Api, load
from tests.rigs.tensorrt_double.building import BuilderAct
from tests.rigs.tensorrt_double.cuda import DoubleCuda
from tests.rigs.tensorrt_double.device import Device, Ledger
from tests.rigs.tensorrt_double.faults import GPUS, Faults, Gpu, Misuse
from tests.rigs.tensorrt_double.parsing import ParserAct
from tests.rigs.tensorrt_double.plan import NUMPY
from tests.rigs.tensorrt_double.running import RuntimeAct
from tests.rigs.tensorrt_double.stage import LoggerAct, Stage
from tests.rigs.tensorrt_double.strict import Classes, Strict, bind, make_classes

if TYPE_CHECKING:
    import pytest  # a child process needs none


class Dims(Strict):
    """A shape. As in the bindings it equals lists and tuples, and comparing it with another Dims is an error."""

    _label = "Dims"
    MAX_DIMS = 8

    def __init__(self, shape: Iterable[int] = ()) -> None:
        values = list(shape)
        if not all(hasattr(v, "__index__") for v in values):
            raise TypeError("incompatible constructor arguments: a shape holds ints")
        if len(values) > self.MAX_DIMS:
            raise ValueError("the maximum number of dimensions is 8")
        self._act = [int(v) for v in values]

    def __len__(self) -> int:
        return len(self._act)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self._act[place])
        if not -len(self._act) <= place < len(self._act):
            raise IndexError("Out of bounds")
        return self._act[place]

    def __setitem__(self, place: int, value: int) -> None:
        self._act[place] = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | tuple):
            raise TypeError(f"__eq__(): incompatible function arguments: {self!r}, {other!r}")
        return bool(list(other) == self._act)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return str(tuple(self._act))


def _host_memory(stage: Stage) -> type[Any]:
    """`IHostMemory`: bytes that only show the buffer, and `dtype` and `nbytes`."""

    class IHostMemory(bytes):
        __module__ = "tensorrt"

        def __getattribute__(self, name: str) -> Any:
            if name.startswith("__"):
                return super().__getattribute__(name)
            if name == "nbytes":
                return bytes.__len__(self)
            if name == "dtype":
                return stage.member("DataType", "INT8")
            raise AttributeError(f"'tensorrt.IHostMemory' object has no attribute {name!r}")

        def __bool__(self) -> bool:
            return True

        def __len__(self) -> int:
            raise TypeError("object of type 'tensorrt.IHostMemory' has no len()")

        def __getitem__(self, place: Any) -> Any:
            raise TypeError("'tensorrt.IHostMemory' object is not subscriptable")

        def __iter__(self) -> Iterator[int]:
            raise TypeError("'tensorrt.IHostMemory' object is not iterable")

    return IHostMemory


class TensorRtModule(ModuleType):
    """Has the release's names and no other."""

    def __init__(self, api: Api, classes: Classes) -> None:
        super().__init__("tensorrt")
        self.__version__ = api.version
        self.__file__ = __file__
        for name, made in classes.items():
            if "." not in name:
                setattr(self, name, made)
        members = classes["DataType"].__members__
        for name, value in api.constants.items():
            setattr(self, name, members[value])
        for name, member in api.functions.items():
            setattr(self, name, _function(name, member.signatures, classes, api, members))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"module 'tensorrt' has no attribute {name!r}")


def _function(name: str, signatures: Any, classes: Classes, api: Api, types: Any) -> Any:
    def volume(iterable: Iterable[int]) -> int:
        return int(np.prod([int(v) for v in iterable], dtype=np.int64))

    def nptype(trt_type: Any) -> Any:
        if trt_type.name not in NUMPY:
            raise TypeError("Could not resolve TensorRT datatype to an equivalent numpy datatype.")
        return np.dtype(NUMPY[trt_type.name]).type

    def get_nv_onnx_parser_version() -> int:
        major, minor, patch = (int(part) for part in api.version.split(".")[:3])
        return major * 10000 + minor * 100 + patch

    def init_libnvinfer_plugins(logger: Any, namespace: str) -> bool:
        return True

    played = {f.__name__: f for f in (volume, nptype, get_nv_onnx_parser_version, init_libnvinfer_plugins)}

    def call(*args: Any, **kwargs: Any) -> Any:
        given = bind(name, signatures, classes, args, kwargs)
        if name not in played:
            raise NotImplementedError(f"the double does not play tensorrt.{name}")
        return played[name](**given)

    call.__name__ = name
    return call


Shapes3 = tuple[Sequence[int], Sequence[int], Sequence[int]]

_ITEM_BYTES = {"BF16": 2, "FP8": 1, "INT4": 0.5, "FP4": 0.5}


def _item_bytes(value: Any) -> Any:
    return _ITEM_BYTES.get(value.name) or (
        np.dtype(NUMPY[value.name]).itemsize if value.name in NUMPY else None
    )


class Double:
    """One release on one device, as one process sees it.

    Args:
        release: one of `api.RELEASES`.
        faults: what goes wrong.
        gpu: the device; by default where the release runs.

    Attributes:
        tensorrt: the module.
        device: with `misuses`, `ledger()`, `release()`.
    """

    def __init__(self, release: str, faults: Faults | None = None, gpu: Gpu | None = None) -> None:
        self.release = release
        self.device = Device(gpu or GPUS[release], faults or Faults())
        api = load(release)
        classes: Classes = {}
        stage = Stage(classes, api.version, self.device)
        acts = {
            "Logger": LoggerAct,
            "OnnxParser": ParserAct,
            "Builder": BuilderAct,
            "Runtime": RuntimeAct,
        }
        staged = {name: type(act.__name__, (act,), {"stage": stage}) for name, act in acts.items()}
        dims = type("Dims", (Dims,), {"_label": "Dims", "__module__": "tensorrt"})
        classes.update(make_classes(api, staged, {"Dims": dims, "IHostMemory": _host_memory(stage)}))
        classes["DataType"].itemsize = property(_item_bytes)
        self.tensorrt = TensorRtModule(api, classes)

    @property
    def version(self) -> str:
        """As `tensorrt.__version__`."""
        return str(self.tensorrt.__version__)

    def open_cuda(self) -> DoubleCuda:
        """The device for the calling thread, as `_cuda.open_cuda` opens a real one."""
        return DoubleCuda(self.device)

    def ledger(self) -> Ledger:
        """What is alive."""
        return self.device.ledger()

    def check(self) -> None:
        """Tells every misuse, also one that was swallowed.

        Raises:
            Misuse: there was one.
        """
        self.device.written_after_free()
        if self.device.misuses:
            raise Misuse(f"the device was misused: {'; '.join(self.device.misuses)}")

    def set_faults(self, faults: Faults) -> None:
        """From now on; counts begin anew."""
        self.device.faults = faults
        self.device.count.calls.clear()
        self.device.lost = False


def install(
    monkeypatch: "pytest.MonkeyPatch",
    release: str = "10.3.0",
    *,
    faults: Faults | None = None,
    gpu: Gpu | None = None,
) -> Double:
    """`import tensorrt` gives the double until the test is over; call `check` at its end, or use `installed`."""
    double = Double(release, faults, gpu)
    monkeypatch.setitem(sys.modules, "tensorrt", double.tensorrt)
    return double


@contextmanager
def installed(
    release: str = "10.3.0",
    *,
    faults: Faults | None = None,
    gpu: Gpu | None = None,
    misuse_allowed: bool = False,
) -> Iterator[Double]:
    """`import tensorrt` gives the double; at the end every misuse is told, also one that was swallowed.

    Raises:
        Misuse: something misused the device.
    """
    double = Double(release, faults, gpu)
    before = sys.modules.get("tensorrt")
    sys.modules["tensorrt"] = double.tensorrt
    try:
        yield double
    finally:
        double.device.release()
        if before is None:
            sys.modules.pop("tensorrt", None)
        else:
            sys.modules["tensorrt"] = before
    if not misuse_allowed:
        double.check()


def build_engine(double: Double, model: bytes, shapes: Mapping[str, Shapes3] | None = None) -> bytes:
    """An engine of an ONNX model, through TensorRT's own calls.

    Args:
        double: that builds it.
        model: ONNX, without weights beside it.
        shapes: minimum, optimum and maximum of inputs whose size is not fixed.
    """
    trt = double.tensorrt
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(model), [parser.get_error(n).desc() for n in range(parser.num_errors)]
    config = builder.create_builder_config()
    if shapes:
        profile = builder.create_optimization_profile()
        for name, (least, best, most) in shapes.items():
            profile.set_shape(name, least, best, most)
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None
    return bytes(plan)
