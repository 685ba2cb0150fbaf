"""Says in one sentence what a file is when it is not an ONNX model.

Downloads go wrong in a few well-known ways: the web page around the file, the Git LFS pointer instead of it, a
checkpoint before its export. An ONNX loader reports all of them as a broken protobuf.
"""

from pathlib import Path
from typing import Final

_HEAD_BYTES = 4096

_PREFIXES: Final[tuple[tuple[bytes, str], ...]] = (
    (
        b"version https://git-lfs.github.com/spec/",
        "is a Git LFS pointer, not the weights: fetch them with `git lfs pull`",
    ),
    (b"\x89HDF", "is an HDF5 file (Keras, perhaps): export the model to ONNX first"),
    (b"\x80\x02", "is a Python pickle (an old PyTorch checkpoint, perhaps): export the model to ONNX first"),
    (b"\x80\x04", "is a Python pickle: export the model to ONNX first"),
    (b"\x80\x05", "is a Python pickle: export the model to ONNX first"),
    (b"ptrt", "is a TensorRT engine, which only runs on the machine it was built on: import the ONNX file"),
    (b"ftrt", "is a TensorRT engine, which only runs on the machine it was built on: import the ONNX file"),
    (b"7767517", "is an ncnn parameter file: import the ONNX file that it was made from"),
    (b"\x1f\x8b", "is a gzip archive: unpack it first"),
    (b"7z\xbc\xaf", "is a 7-Zip archive: unpack it first"),
    (b"Rar!", "is a RAR archive: unpack it first"),
    (b"BZh", "is a bzip2 archive: unpack it first"),
    (b"\xfd7zXZ", "is an xz archive: unpack it first"),
    (b"\x7fELF", "is a program or library, not a model"),
    (b"\x89PNG", "is a picture, not a model"),
    (b"\xff\xd8\xff", "is a picture, not a model"),
    (b"%PDF", "is a PDF document, not a model"),
)


def why_not_a_model(path: Path) -> str | None:
    """One sentence about a file that cannot be an ONNX model, or None where it may be one.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    size = path.stat().st_size
    if not head:
        return f"{path} is empty (0 bytes): the download or the copy did not happen"
    what = _what_binary(path, head, size) or _what_text(head)
    return None if what is None else f"{path} {what}"


def _what_binary(path: Path, head: bytes, size: int) -> str | None:
    for prefix, what in _PREFIXES:
        if head.startswith(prefix):
            return what
    if head.startswith(b"PK\x03\x04"):
        return _what_zip(path)
    if head[4:8] == b"TFL3":
        return "is a TensorFlow Lite model: convert it to ONNX first"
    if not head.strip(b"\0"):
        return f"starts with {len(head)} zero bytes: the download broke off"
    if size > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < size:
        return (
            "is a safetensors file, which holds weights without their graph: export the model to ONNX first"
        )
    return None


def _what_zip(path: Path) -> str:
    import zipfile  # noqa: PLC0415 (only for the rare file that is one)

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "is a damaged zip archive, not a model"
    if any(name.endswith("data.pkl") for name in names):
        return "is a PyTorch checkpoint: export it to ONNX first"
    models = [name for name in names if name.endswith(".onnx")]
    inside = f" (it holds {models[0]})" if models else ""
    return f"is a zip archive, not a model: unpack it first{inside}"


def _what_text(head: bytes) -> str | None:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    start = text[:512].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<!--")) or b"<html" in start or b"<head>" in start:
        return (
            "is a saved web page, not a model: download the file itself "
            "(on a code host, the raw or the download link)"
        )
    if start.startswith((b"<?xml", b"<")) and b">" in start:
        return "is an XML document (an error message of a server, perhaps), not a model"
    if start.startswith((b"{", b"[")) and _is_text(head):
        return "is a JSON document, not a model"
    if _is_text(head):
        return "is a text file, not a model"
    return None


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # the last character may be cut in two
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n" for character in text)
