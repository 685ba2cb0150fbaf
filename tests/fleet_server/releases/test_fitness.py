"""What a release says of itself, against what this server takes and the release before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.packages.manifest import (
    CalibrationRecord,
    Derivation,
    Evaluation,
    Licence,
    MeasuredDrop,
    ModelManifest,
)
from edge_runtime.protocol.release import ReleaseKind, ReleaseTerms
from fleet_server.releases.fitness import Before, Rules, require_model
from fleet_server.releases.package_check import verdict_of
from fleet_server.releases.problems import ReleaseRefused

YARD = Evaluation(dataset="yard", images=10, metric="map", value=0.5)
NIGHT = Evaluation(dataset="night", images=10, metric="map", value=0.3)
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def manifest(packages: Callable[..., Path]) -> ModelManifest:
    """Of a package that is fit."""
    return ModelManifest.model_validate_json((packages(seed=1) / "manifest.json").read_bytes())


def terms_of(manifest: ModelManifest, counter: int = 2, **fields: Any) -> ReleaseTerms:
    return ReleaseTerms(
        kind=ReleaseKind.MODEL,
        name="yard",
        counter=counter,
        package=manifest.digest(),
        labels=manifest.labels,
        licence=manifest.licence.spdx,
        total_bytes=1,
        salt="0" * 16,
        openings=(),
        **fields,
    )


def before(manifest: ModelManifest, *evaluation: Evaluation) -> Before:
    return Before(terms_of(manifest, 1), evaluation)


def lighter(manifest: ModelManifest, parent: str, max_drop: float) -> ModelManifest:
    """A package that was quantised from another one, four points less accurate."""
    calibration = CalibrationRecord(method="minmax", images=8, sha256="0" * 64)
    measured = MeasuredDrop(dataset="yard", images=10, parent=0.5, child=0.46, max_drop=max_drop)
    derived = Derivation(parent=parent, tool="t 1", calibration=calibration, measured=measured)
    worse = YARD.model_copy(update={"value": 0.46})
    return manifest.model_copy(update={"derivation": derived, "evaluation": (worse,)})


def test_a_licence_that_somebody_accepted(manifest: ModelManifest) -> None:
    copyleft = manifest.model_copy(update={"licence": Licence(spdx="AGPL-3.0-only", evidence="a test")})
    require_model(terms_of(copyleft), copyleft, None, Rules(licences=("AGPL-3.0-only",)))
    with pytest.raises(ReleaseRefused, match=r"releases\.licences in settings\.toml"):
        require_model(terms_of(copyleft), copyleft, None, Rules(licences=("GPL-3.0-only",)))


@pytest.mark.parametrize(
    ("old", "new", "bound", "refused"),
    [
        ((YARD,), (YARD,), 0.5, None),
        ((YARD,), (YARD.model_copy(update={"value": 0.495}),), 0.5, None),
        ((YARD,), (YARD.model_copy(update={"value": 0.494}),), 0.5, "fell by 0.60 points"),
        ((YARD,), (YARD.model_copy(update={"value": 0.47}),), 3.0, None),
        ((YARD,), (YARD, NIGHT), 0.5, None),
        ((YARD, NIGHT), (YARD,), 0.5, None),
        ((YARD, NIGHT), (YARD, NIGHT.model_copy(update={"value": 0.2})), 0.5, "map on night fell by 10.00"),
        ((YARD,), (NIGHT,), 0.5, "measured on nothing"),
        ((), (YARD,), 0.5, "measured on nothing"),
        ((YARD,), (YARD.model_copy(update={"metric": "ap50"}),), 0.5, "measured on nothing"),
        ((YARD,), (YARD.model_copy(update={"classes": ("crate",)}),), 0.5, "measured on nothing"),
    ],
)
def test_accuracy_is_compared_where_the_same_was_measured(
    manifest: ModelManifest,
    old: tuple[Evaluation, ...],
    new: tuple[Evaluation, ...],
    bound: float,
    refused: str | None,
) -> None:
    found = manifest.model_copy(update={"evaluation": new})
    if refused is None:
        require_model(terms_of(found), found, before(manifest, *old), Rules(max_drop=bound))
        return
    with pytest.raises(ReleaseRefused, match=refused):
        require_model(terms_of(found), found, before(manifest, *old), Rules(max_drop=bound))
    require_model(
        terms_of(found, accepts_drop="faster"), found, before(manifest, *old), Rules(max_drop=bound)
    )


def test_other_labels_are_a_persons_word(manifest: ModelManifest) -> None:
    other = manifest.model_copy(update={"labels": tuple(reversed(manifest.labels))})
    with pytest.raises(ReleaseRefused, match="has other labels than release 1"):
        require_model(terms_of(other), other, before(manifest, YARD), Rules())
    require_model(terms_of(other, relabels=True), other, before(manifest, YARD), Rules())


def test_a_quantised_package_has_the_bound_that_it_states_itself(manifest: ModelManifest) -> None:
    found = lighter(manifest, manifest.digest(), 5.0)
    require_model(terms_of(found), found, before(manifest, YARD), Rules())
    stranger = lighter(manifest, DIGEST, 5.0)
    with pytest.raises(ReleaseRefused, match="fell by 4"):
        require_model(terms_of(stranger), stranger, before(manifest, YARD), Rules())


@pytest.mark.parametrize(
    ("code", "out", "err", "fit", "lasting"),
    [
        (0, b'{"fit": true, "digest": "D", "problems": []}', b"", True, True),
        (
            1,
            b'{"fit": false, "digest": "D", "problems": [{"code": "g", "severity": "error", "text": "t"}]}',
            b"",
            False,
            True,
        ),
        (0, b'{"fit": true, "digest": "E", "problems": []}', b"", False, True),
        (1, b'{"fit": true, "digest": "D", "problems": []}', b"", False, True),
        (2, b"", b"error: onnxruntime is not installed", False, False),
        (-9, b"", b"", False, False),
        (0, b"[]", b"", False, False),
        (0, b"\xff", b"", False, False),
    ],
)
def test_a_check_says_fit_or_it_is_not(code: int, out: bytes, err: bytes, fit: bool, lasting: bool) -> None:
    verdict = verdict_of("D", code, out, err)
    assert (verdict.fit, verdict.lasting) == (fit, lasting)
    assert verdict.fit or verdict.text
    if code == 2:
        assert "install 'edge-fleet-runtime[server,device]'" in verdict.text
