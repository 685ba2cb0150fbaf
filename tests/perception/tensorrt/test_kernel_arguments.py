"""The arguments of a launch against the parameters that the source declares."""

import ctypes
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.errors import BackendError, ConfigError
from edge_runtime.packages.manifest import InputSpec
from edge_runtime.perception.backends.tensorrt import kernel
from edge_runtime.perception.letterbox import Letterbox, fit
from tests.conftest import REPOSITORY

SPEC = InputSpec(
    name="images",
    height=96,
    width=128,
    layout="nhwc",
    dtype="float16",
    color="rgb",
    scale=8.0,
    mean=(2.0, 4.0, 6.0),
    std=(2.0, 4.0, 8.0),
    pad_value=77,
)
BGR = kernel.DevicePicture(address=0x10_0000_1000, pitch=400, height=60, width=100)
NV12 = kernel.DevicePicture(
    address=0x10_0000_1000,
    pitch=112,
    height=61,
    width=99,
    chroma_address=0x10_0000_2000,
    chroma_pitch=104,
    matrix="bt709",
)
TARGET = 0x10_0000_3000

# The values above, under the names that the source's parameters have.
VALUES: dict[str, Any] = {
    "target": TARGET,
    "height": 96,
    "width": 128,
    "nchw": 0,
    "dtype": 1,
    "rgb": 1,
    "pad_value": 77,
    **{f"factor_{channel}": value for channel, value in enumerate((4.0, 2.0, 1.0))},
    **{f"shift_{channel}": value for channel, value in enumerate((-1.0, -1.0, -0.75))},
}
BGR_VALUES = {
    **VALUES,
    "picture": 0x10_0000_1000,
    "pitch": 400,
    "source_height": 60,
    "source_width": 100,
    "top": 9,
    "left": 0,
    "inner_height": 77,
    "inner_width": 128,
}
NV12_VALUES = {
    **VALUES,
    "luma": 0x10_0000_1000,
    "pitch": 112,
    "chroma": 0x10_0000_2000,
    "chroma_pitch": 104,
    "matrix": 709,
    "source_height": 61,
    "source_width": 99,
    "top": 8,
    "left": 0,
    "inner_height": 79,
    "inner_width": 128,
}


def declared() -> dict[str, list[tuple[str, type[Any]]]]:
    """Name and ctypes type of each parameter of each kernel, from the source's text."""
    kernels = {}
    for name, text in re.findall(r'extern "C" KERNEL void (\w+)\(([^)]*)\)', kernel.SOURCE):
        parameters = []
        for parameter in text.split(","):
            type_, parameter_name = re.fullmatch(r"\s*(.*?)(\w+)\s*", parameter, re.DOTALL).groups()  # type: ignore[union-attr]
            as_c = (
                ctypes.c_void_p
                if "*" in type_
                else {"int": ctypes.c_int, "float": ctypes.c_float}[type_.strip()]
            )
            parameters.append((parameter_name, as_c))
        kernels[name] = parameters
    return kernels


def test_the_source_has_the_functions_that_are_named() -> None:
    assert tuple(declared()) == kernel.FUNCTIONS


@pytest.mark.parametrize(("picture", "values"), [(BGR, BGR_VALUES), (NV12, NV12_VALUES)])
def test_each_argument_stands_where_its_parameter_does(
    picture: kernel.DevicePicture, values: dict[str, Any]
) -> None:
    given = kernel.arguments(SPEC, fit(SPEC, picture.height, picture.width), picture, TARGET)
    parameters = declared()[picture.function]
    assert [type(argument) for argument in given] == [type_ for _, type_ in parameters]
    assert {name: argument.value for (name, _), argument in zip(parameters, given, strict=True)} == values


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"dtype": "float32"}, "dtype", 0),
        ({"dtype": "uint8"}, "dtype", 2),
        ({"layout": "nchw"}, "nchw", 1),
        ({"color": "bgr"}, "rgb", 0),
    ],
)
def test_the_form_of_the_input(changes: dict[str, Any], place: str, value: int) -> None:
    spec = SPEC.model_copy(update=changes)
    given = kernel.arguments(spec, fit(spec, 60, 100), BGR, TARGET)
    names = [name for name, _ in declared()["prepare_bgr"]]
    assert given[names.index(place)].value == value


def test_the_dtypes_numbers_are_the_sources() -> None:
    listed = re.search(r"enum \{ (.*) \};", kernel.SOURCE)
    assert listed is not None
    assert dict(pair.split(" = ") for pair in listed[1].split(", ")) == {
        name.upper(): str(number) for name, number in kernel._DTYPES.items()
    }
    assert set(kernel._DTYPES) == set(InputSpec.model_fields["dtype"].annotation.__args__)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (replace(BGR, height=0), "sides must be 1 to 65535"),
        (replace(BGR, width=70_000, pitch=210_000), "60x70000 pixels"),
        (replace(BGR, pitch=299), "pitch is 299 bytes, but a row of 100 pixels takes 300"),
        (replace(NV12, pitch=98), "pitch is 98 bytes, but a row of 99 pixels takes 99"),
        (replace(NV12, chroma_pitch=99), "chroma_pitch is 99 bytes, but a row of 99 pixels takes 100"),
    ],
)
def test_a_picture_that_cannot_be_read_is_refused(picture: kernel.DevicePicture, words: str) -> None:
    box = fit(SPEC, max(picture.height, 1), picture.width)
    with pytest.raises(BackendError, match=re.escape(words)):
        kernel.arguments(SPEC, box, picture, TARGET)


@pytest.mark.parametrize(
    ("box", "words"),
    [
        (fit(SPEC, 61, 100), "the geometry is for a picture of 61x100 pixels, but the picture has 60x100"),
        (
            fit(SPEC.model_copy(update={"width": 64}), 60, 100),
            "the geometry is for an input of 96x64, but the model's is 96x128",
        ),
    ],
)
def test_a_geometry_of_another_picture_or_input_is_refused(box: Letterbox, words: str) -> None:
    with pytest.raises(BackendError, match=words):
        kernel.arguments(SPEC, box, BGR, TARGET)


def test_a_zero_in_std_is_refused() -> None:
    spec = SPEC.model_copy(update={"std": (1.0, 0.0, 1.0)})
    with pytest.raises(ConfigError, match="std holds a zero"):
        kernel.arguments(spec, fit(spec, 60, 100), BGR, TARGET)


def test_the_source_is_a_file_of_the_package_that_no_wheel_leaves_out() -> None:
    """hatchling takes every file of a package that git does not ignore; nothing here narrows that."""
    resource = files("edge_runtime.perception.backends.tensorrt").joinpath("kernel.cu")
    assert resource.read_text(encoding="utf-8") == kernel.SOURCE
    project = Path(REPOSITORY, "pyproject.toml").read_text(encoding="utf-8")
    wheel = project.split("[tool.hatch.build.targets.wheel]\n")[1].split("\n[")[0].split()
    assert wheel == ["packages", "=", '["edge_runtime",', '"fleet_server"]']
    ignored = Path(REPOSITORY, ".gitignore").read_text(encoding="utf-8").split()
    assert not [
        pattern for pattern in ignored if pattern.startswith("*") and "kernel.cu".endswith(pattern[1:])
    ]
