"""Fixtures that several rooms' tests share."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_directory() -> Path | None:
    """The folder of real models, clips and ground truth that lies beside the checkout, or None."""
    candidates = [os.environ.get("EDGE_SHARED"), REPOSITORY.parent / "shared"]
    for candidate in candidates:
        if candidate and (Path(candidate) / "data").is_dir():
            return Path(candidate)
    return None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """`../shared/data`: its absence skips on a laptop and fails in CI."""
    found = shared_directory()
    if found is None:
        message = "real test data is missing: put it at ../shared or point EDGE_SHARED at it"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found / "data"


@pytest.fixture(scope="session")
def media(shared_data: Path) -> Path:
    """Real clips."""
    return shared_data / "media"


@pytest.fixture(scope="session")
def onnx_models(shared_data: Path) -> Path:
    """Real models, some with real defects."""
    return shared_data / "models"


@pytest.fixture(scope="session")
def truth(shared_data: Path) -> Path:
    """Ground truth."""
    return shared_data / "truth"
