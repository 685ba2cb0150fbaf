"""A device's store of releases."""

from pathlib import Path

import pytest

from edge_runtime.updates.store import ReleaseStore


@pytest.fixture
def store(tmp_path: Path) -> ReleaseStore:
    return ReleaseStore(tmp_path / "updates", reserve_bytes=1 << 20)
