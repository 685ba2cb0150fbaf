"""A floor that a person states, and what an import says where quantised weights have none."""

from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.authoring.accuracy_floor import with_floor
from edge_runtime.authoring.findings import Confidence
from edge_runtime.authoring.propose import Proposal, propose
from edge_runtime.cli.main import run
from edge_runtime.packages import read_manifest


@pytest.fixture(scope="module")
def faces(onnx_models: Path) -> Proposal:
    """Labels that are not COCO's: the import proposes no floor."""
    return propose(onnx_models / "ultraface_rfb_320x240.onnx")


def test_quantised_weights_without_a_floor_are_a_guess(faces: Proposal) -> None:
    assert with_floor(faces, None) is faces
    quantised = replace(faces, manifest=faces.manifest.model_copy(update={"quantisation": "int8-qdq"}))
    found = with_floor(quantised, None).findings[-1]
    assert (found.field, found.value, found.confidence) == ("accuracy_floor", "none", Confidence.GUESS)
    assert "state the least mAP with --floor" in found.why
    stated = with_floor(quantised, 0.3)
    assert stated.manifest.accuracy_floor is not None
    assert [entry.confidence for entry in stated.findings if entry.field == "accuracy_floor"] == [
        Confidence.SURE
    ]


def test_a_stated_floor_replaces_the_proposed_one(onnx_models: Path, tmp_path: Path) -> None:
    file = onnx_models / "fastestdet_coco_352.onnx"
    assert run(["model", "import", str(file), "--out", str(tmp_path / "p"), "--yes", "--floor", "0.2"]) == 0
    floor = read_manifest(tmp_path / "p").accuracy_floor
    assert floor is not None
    assert (floor.metric, floor.minimum) == ("map", 0.2)
    assert (tmp_path / "p" / "CARD.md").read_text().count("accuracy_floor") == 0
