"""What a manifest says of a quantised package's parent, and that others are digested as ever."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from edge_runtime.packages import ManifestInvalid, open_package, read_manifest
from edge_runtime.packages.manifest import Derivation, ModelManifest
from tests.packages.conftest import MakePackage

ROOT = Path(__file__).resolve().parents[2]


def derivation(parent: float = 0.34, child: float = 0.33, max_drop: float = 2.0) -> dict[str, Any]:
    return {
        "parent": f"sha256:{'1' * 64}",
        "tool": "onnxruntime 1.32.0 static Q/DQ",
        "calibration": {"method": "entropy", "images": 64, "sha256": "2" * 64},
        "left": ["Conv_44"],
        "measured": {
            "dataset": "coco_val128",
            "images": 64,
            "metric": "map",
            "parent": parent,
            "child": child,
            "max_drop": max_drop,
        },
    }


def test_the_digest_of_a_package_without_a_parent_is_as_before(make_package: MakePackage) -> None:
    """Digests are what configurations, deployments and caches name packages by."""
    centerface = read_manifest(ROOT / "models" / "centerface")
    assert centerface.digest() == "sha256:77923ffd15815c9408c644e9577a674749508d0d582e2af347d0dd4645348f11"
    manifest = open_package(make_package()).manifest
    assert "derivation" not in json.loads(manifest.canonical_bytes())
    assert "derivation" not in manifest.model_dump(mode="json")


def test_a_parent_is_part_of_the_digest(make_package: MakePackage) -> None:
    plain = open_package(make_package("plain"))
    made = open_package(make_package("made", derivation=derivation()))
    other = open_package(make_package("other", derivation=derivation(child=0.335)))
    assert len({plain.digest, made.digest, other.digest}) == 3
    assert made.manifest.derivation is not None
    assert made.manifest.derivation.left == ("Conv_44",)
    assert ModelManifest.model_validate_json(made.manifest.canonical_bytes()) == made.manifest


@pytest.mark.parametrize(
    ("figures", "valid"),
    [
        ({"child": 0.32}, True),
        ({"child": 0.319}, False),
        ({"child": 0.5}, True),
        ({"child": 0.339999, "max_drop": 0.0}, True),
        ({"child": 0.3399, "max_drop": 0.0}, False),
    ],
)
def test_a_package_may_not_lose_more_than_it_allows_itself(figures: dict[str, float], *, valid: bool) -> None:
    if valid:
        assert Derivation.model_validate_json(json.dumps(derivation(**figures))).measured.images == 64
        return
    with pytest.raises(ValidationError, match="more than the"):
        Derivation.model_validate_json(json.dumps(derivation(**figures)))


def test_a_manifest_whose_drop_was_edited_does_not_open(make_package: MakePackage) -> None:
    with pytest.raises(ManifestInvalid, match=r"mAP fell from 0\.34 to 0\.2, more than the 2 points"):
        open_package(make_package(derivation=derivation(child=0.2)))
