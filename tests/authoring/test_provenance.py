"""Licence, date, quantisation and name: what the file says, and what stays unknown."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.authoring.findings import Confidence
from edge_runtime.authoring.graph import GraphFacts, read_graph
from edge_runtime.authoring.provenance import find_licence, find_quantisation, find_release_date, slug
from edge_runtime.errors import PackageError


@pytest.fixture(scope="module")
def silent(onnx_models: Path) -> GraphFacts:
    return read_graph(onnx_models / "ultraface_rfb_320x240.onnx")


@pytest.mark.parametrize(
    ("metadata", "spdx", "confidence"),
    [
        ({}, "NOASSERTION", Confidence.GUESS),
        ({"license": "AGPL-3.0 License (https://ultralytics.com/license)"}, "AGPL-3.0", Confidence.SURE),
        ({"license": "MIT"}, "MIT", Confidence.SURE),
        ({"licence": "Apache-2.0"}, "Apache-2.0", Confidence.SURE),
        ({"license": "ask my boss"}, "NOASSERTION", Confidence.GUESS),
        ({"license": "UNLIMITED"}, "NOASSERTION", Confidence.GUESS),
        ({"author": "Ultralytics"}, "AGPL-3.0", Confidence.SURE),
        ({"stride": "32", "names": "{0: 'a'}"}, "AGPL-3.0", Confidence.GUESS),
    ],
)
def test_licences(silent: GraphFacts, metadata: dict[str, str], spdx: str, confidence: Confidence) -> None:
    licence, found = find_licence(replace(silent, metadata=metadata), None)
    assert (licence.spdx, found.confidence) == (spdx, confidence)


def test_a_person_may_state_the_licence(silent: GraphFacts) -> None:
    licence, found = find_licence(silent, "MIT", "LICENSE in the repository")
    assert (licence.spdx, licence.evidence) == ("MIT", "LICENSE in the repository")
    assert found.confidence is Confidence.SURE
    with pytest.raises(PackageError, match="not an SPDX"):
        find_licence(silent, "free for all!")


@pytest.mark.parametrize(
    ("operators", "half", "expected"),
    [
        ({"Conv": 3}, False, "none"),
        ({"Conv": 3}, True, "fp16"),
        ({"ConvInteger": 3, "DynamicQuantizeLinear": 1}, False, "int8-dynamic"),
        ({"QuantizeLinear": 3, "DequantizeLinear": 3}, False, "int8-qdq"),
        ({"QLinearConv": 3}, False, "int8-qdq"),
    ],
)
def test_quantisation(silent: GraphFacts, operators: dict[str, int], half: bool, expected: str) -> None:
    graph = replace(silent, operators=operators, half_precision=half)
    assert find_quantisation(graph)[0] == expected


def test_release_dates(silent: GraphFacts, tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert find_release_date(silent, path)[0] == "2023-11-14"
    dated = replace(silent, metadata={"date": "2026-06-10T19:26:00.414804"})
    day, found = find_release_date(dated, path)
    assert (day, found.confidence) == ("2026-06-10", Confidence.SURE)
    assert find_release_date(dated, path, "2025-01-31")[0] == "2025-01-31"
    with pytest.raises(PackageError, match="not a day"):
        find_release_date(dated, path, "31.1.2025")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("YOLOv8n Best (2)", "yolov8n-best-2"),
        ("..hidden--", "hidden"),
        ("größe", "gr-e"),
        ("___", "model"),
        ("x" * 99, "x" * 64),
    ],
)
def test_package_names(text: str, name: str) -> None:
    assert slug(text) == name
