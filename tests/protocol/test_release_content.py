"""What a release may hold: nothing that a machine could be made to execute, by name and by bytes."""

import io
import pickle
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.protocol.release_content import why_file_refused, why_mode_refused, why_refused
from tests.rigs.release_parties import small_package


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("run.sh"))
    return buffer.getvalue()


def _zip(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _npy(array: object, *, allow: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow)  # type: ignore[arg-type]
    return buffer.getvalue()


@pytest.mark.parametrize(
    "path",
    [
        "run.py",
        "deep/er/run.SH",
        "libcustom.so",
        "libcustom.so.1.2",
        "tool.exe",
        "a.dll",
        "a.dylib",
        "a.pyc",
        "weights.pt",
        "weights.PTH",
        "weights.pkl",
        "extra.zip",
        "extra.tar.gz",
        "model.engine",
        "model.plan",
    ],
)
def test_a_name_is_enough(path: str) -> None:
    assert why_refused(path, b"harmless")


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01",
        b"MZ\x90\x00",
        b"\xcf\xfa\xed\xfe\x07",
        b"\xca\xfe\xba\xbe\x00",
        b"#!/bin/sh\n",
        b"\x00asm\x01",
        pickle.dumps({"a": 1}, protocol=4),
        b"\xa7\x0d\r\n\x00\x00",
        b"\x1f\x8b\x08\x00",
        _tar(),
        _zip(run=b"x"),
    ],
    ids=lambda data: repr(data[:6]),
)
def test_another_name_hides_nothing(data: bytes) -> None:
    assert why_file_refused("weights.onnx", io.BytesIO(data))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("model.onnx", b"\x08\x08\x12\x04test"),
        ("CARD.md", b"# A model\r\n"),
        ("LICENSE", b"Apache"),
        ("labels.json", b"{}"),
        ("overlay.yaml", b"a: 1\n"),
        ("empty.json", b""),
        ("golden/a.inputs.npz", _zip(**{"x.npy": _npy(np.zeros(3))})),
    ],
)
def test_data_may_be_there(path: str, data: bytes) -> None:
    assert why_file_refused(path, io.BytesIO(data)) is None


def _array(header: bytes, *, version: int = 1) -> bytes:
    """An array whose header somebody else wrote."""
    padded = header + b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return (
        b"\x93NUMPY" + bytes([version, 0]) + len(padded).to_bytes(2 if version == 1 else 4, "little") + padded
    )


_HEADER = "{'descr': %s, 'fortran_order': False, 'shape': (1,), }"


@pytest.mark.parametrize(
    "descr",
    [
        "'|O'",
        '"|O"',
        r"'\x7cO'",
        r"'\u007c\x4f8'",
        "'|' 'O'",
        "b'|O'",
        "'object'",
        "[('a', '<f4'), ('b', '|O')]",
        "[('a', [('b', [('c', '|O')])])]",
        "[('a', ('|O', (2,)))]",
        "'f4,O'",
        "3",
        "[",
        "[" * 300,
        f"'{'O' * 600}'",
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_objects_in_an_array_are_found_however_they_are_written(descr: str, version: int) -> None:
    data = _array((_HEADER % descr).encode(), version=version)
    assert why_file_refused("x.npy", io.BytesIO(data))
    assert why_file_refused("golden/a.npz", io.BytesIO(_zip(**{"x.npy": data})))


def test_headers_that_only_look_like_one_are_refused() -> None:
    assert why_file_refused("x.npy", io.BytesIO(_array((_HEADER % "'<f4'").encode(), version=4)))
    assert why_file_refused("x.npy", io.BytesIO(_array(b"{'descr': '<f4'}")))
    assert why_file_refused("x.npy", io.BytesIO(b"\x93NUMPY\x01"))
    assert why_file_refused("x.npy", io.BytesIO(_array((_HEADER % "'<f4'").encode())[:40]))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3), np.float16),
        np.zeros(2, np.bool_),
        np.array(["a", "bc"]),
        np.array([b"a"]),
        np.zeros(1, "M8[ns]"),
        np.zeros(2, [("at", "<i8"), ("box", "<f4", (4,)), ("inner", [("label", "|S8")])]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_of_numbers_texts_and_dates_are_data(array: object) -> None:
    assert why_file_refused("golden/a.npz", io.BytesIO(_zip(**{"x.npy": _npy(array)}))) is None


@pytest.mark.parametrize(
    "data",
    [
        _zip(**{"x.npy": _npy(np.zeros(3)), "run.py": b"import os"}),
        _zip(**{"x.npy": b"#!/bin/sh"}),
        _zip(**{"x.npy": _npy(np.array([{"a": 1}], dtype=object), allow=True)}),
        _zip(**{"x.npy": _npy(np.zeros(3))})[:60],
        _zip(**{f"{n}.npy": _npy(np.zeros(1)) for n in range(300)}),
    ],
    ids=["program", "script", "objects", "cut", "many"],
)
def test_an_archive_of_arrays_holds_arrays_only(data: bytes) -> None:
    assert why_refused("golden/a.npz", data[:512]) is None, "its first bytes look like any other"
    assert why_file_refused("golden/a.npz", io.BytesIO(data))


@pytest.mark.parametrize(
    ("mode", "refused"),
    [
        (stat.S_IFREG | 0o644, False),
        (stat.S_IFREG | 0o600, False),
        (stat.S_IFREG | 0o755, True),
        (stat.S_IFLNK | 0o777, True),
        (stat.S_IFIFO | 0o644, True),
        (stat.S_IFDIR | 0o755, True),
    ],
)
def test_what_a_folder_may_offer(mode: int, refused: bool) -> None:
    assert (why_mode_refused(mode) is not None) is refused


def test_every_file_of_a_real_package_passes(tmp_path: Path) -> None:
    files = [path for path in small_package(tmp_path / "p").rglob("*") if path.is_file()]
    assert any(path.suffix == ".npz" for path in files)
    for path in files:
        with path.open("rb") as stream:
            assert why_file_refused(path.name, stream) is None, path
