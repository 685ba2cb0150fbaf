"""Files that are no models are called by their name, in one sentence."""

import io
import zipfile
from pathlib import Path

import pytest

from edge_runtime.authoring.sniff import why_not_a_model


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"\n\n<!DOCTYPE html>\n<html><body>404", "saved web page"),
        (b"\xef\xbb\xbf<html lang=en>", "saved web page"),
        (b"<!-- a comment --><html>", "saved web page"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "XML document"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n", "git lfs pull"),
        (b'{"message": "Not Found"}', "JSON document"),
        ("Nicht gefunden: Größe".encode(), "text file"),
        (b"7767517\n75 83\n", "ncnn"),
        (zipped("archive/data.pkl", "archive/data/0"), "PyTorch checkpoint"),
        (zipped("weights/best.onnx"), r"zip archive.*it holds weights/best\.onnx"),
        (zipped("a.txt"), "zip archive"),
        (b"PK\x03\x04" + b"\0" * 40, "damaged zip"),
        (b"\x80\x02}q\x00.", "Python pickle"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x1c\0\0\0TFL3" + b"\0" * 40, "TensorFlow Lite"),
        (b"ptrt\0\0\0\0", "TensorRT engine"),
        (b"\x20\0\0\0\0\0\0\0" + b'{"a":{}}' + b" " * 100, "safetensors"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\0" * 5000, "zero bytes"),
        (b"\x7fELF\x02", "program"),
        (b"\x89PNG\r\n", "picture"),
        (b"%PDF-1.7", "PDF"),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    reason = why_not_a_model(path)
    assert reason is not None
    assert reason.startswith(str(path))
    assert "\n" not in reason
    import re

    assert re.search(what, reason)


def test_the_real_saved_web_page_is_named(onnx_models: Path) -> None:
    reason = why_not_a_model(onnx_models / "not_a_model_saved_web_page.onnx")
    assert reason is not None
    assert "saved web page" in reason


def test_real_models_may_be_models(onnx_models: Path) -> None:
    models = [path for path in onnx_models.glob("*.onnx") if "not_a_model" not in path.name]
    assert len(models) > 8
    assert [path for path in models if why_not_a_model(path) is not None] == []


def test_a_character_cut_in_two_is_still_text(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_bytes(b"a" * 4095 + "ö".encode())
    assert "text file" in (why_not_a_model(path) or "")
