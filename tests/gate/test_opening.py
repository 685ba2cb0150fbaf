"""The redactor of a configuration, with a real face model on a real portrait."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_runtime.config import load_config
from edge_runtime.errors import ConfigError
from edge_runtime.gate.opening import UNKNOWN, WHOLE, ConfiguredRedactor, open_redactor
from edge_runtime.gate.redaction import RedactionFailed, WholeBlur, decode
from edge_runtime.gate.regions import PAINT, RegionRedactor
from tests.conftest import REPOSITORY

FACES = "ultraface_rfb_320x240"


@pytest.fixture(scope="module")
def portrait() -> bytes:
    """A face that fills about a third of its crop, as JPEG."""
    with np.load(REPOSITORY / "models/centerface/golden/portrait.inputs.npz") as golden:
        image = cv2.imdecode(golden["@picture"], cv2.IMREAD_COLOR)
    assert image is not None
    done, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])
    assert done
    return bytes(data.tobytes())


def _site(folder: Path, package: Path, **redaction: Any) -> Path:
    settings = ", ".join(f"{name}: {value}" for name, value in redaction.items())
    path = folder / "site.yaml"
    path.write_text(
        f"models: {{faces: {{package: {package}, accept_licences: [NOASSERTION]}}}}\n"
        "cameras: {dock: {source: {kind: synthetic}, model: faces, data_class: internal}}\n"
        f"delivery: {{redaction: {{{settings}}}}}\n"
    )
    return path


def test_a_face_is_painted_over_and_the_rest_stays(
    portrait: bytes, package_of: Callable[[str], Path], tmp_path: Path
) -> None:
    site = load_config(_site(tmp_path, package_of(FACES), kind="regions", model="faces"))
    opened = open_redactor(site)
    try:
        assert isinstance(opened.redactor, RegionRedactor)
        before, after = decode(portrait), decode(opened.redactor.redact(portrait))
        painted = (np.abs(after.astype(int) - PAINT) <= 2).all(axis=2)
        assert 0.02 < painted.mean() < 0.9
        kept = ~cv2.dilate(painted.astype(np.uint8), np.ones((17, 17), np.uint8)).astype(bool)
        assert np.abs(after[kept].astype(int) - before[kept].astype(int)).mean() < 6
        # what is left shows the model no face: it would be a doubt, and is held
        with pytest.raises(RedactionFailed, match="found nothing"):
            opened.redactor.redact(_as_jpeg(after))
        with pytest.raises(RedactionFailed, match="found nothing"):
            opened.redactor.redact(_as_jpeg(np.full((120, 160, 3), 90, np.uint8)))
    finally:
        opened.close()


def _as_jpeg(image: Any) -> bytes:
    done, data = cv2.imencode(".jpg", image)
    assert done
    return bytes(data.tobytes())


def test_a_label_that_the_model_does_not_know_is_refused(
    package_of: Callable[[str], Path], tmp_path: Path
) -> None:
    site = load_config(_site(tmp_path, package_of(FACES), kind="regions", model="faces", labels="[badge]"))
    with pytest.raises(ConfigError, match="does not know badge"):
        open_redactor(site)


def test_a_release_is_redacted_as_the_configuration_asks_with_a_model_that_is_loaded_late(
    portrait: bytes, package_of: Callable[[str], Path], tmp_path: Path
) -> None:
    site = load_config(_site(tmp_path, package_of(FACES), kind="regions", model="faces"))
    with contextlib.closing(ConfiguredRedactor(site)) as redactor:
        assert redactor.how == "what the model faces found was painted over"
        painted = (np.abs(decode(redactor.redact(portrait)).astype(int) - PAINT) <= 2).all(axis=2)
        assert 0.02 < painted.mean() < 0.9, "regions, not the whole crop"


def test_a_release_whose_model_is_gone_is_held_and_one_without_a_configuration_hides_most(
    portrait: bytes, package_of: Callable[[str], Path], tmp_path: Path
) -> None:
    package = tmp_path / "faces"
    shutil.copytree(package_of(FACES), package)
    site = load_config(_site(tmp_path, package, kind="regions", model="faces"))
    shutil.rmtree(package)
    with (
        contextlib.closing(ConfiguredRedactor(site)) as redactor,
        pytest.raises(RedactionFailed, match="the redaction model cannot be used: "),
    ):
        redactor.redact(portrait)
    with contextlib.closing(ConfiguredRedactor(None)) as redactor:
        assert redactor.how == UNKNOWN
        assert redactor.redact(portrait) == WholeBlur().redact(portrait)
    blurs = ConfiguredRedactor(load_config(_site(tmp_path, package, kind="blur")))
    assert (blurs.how, blurs.redact(portrait)) == (WHOLE, WholeBlur().redact(portrait))


def test_without_a_word_about_it_the_whole_crop_is_blurred(tmp_path: Path) -> None:
    site = load_config(_site(tmp_path, tmp_path, kind="blur"))
    opened = open_redactor(site)
    assert isinstance(opened.redactor, WholeBlur)
    opened.close()
