"""A fleet with one release that is out, and a device of it that has refreshed once."""

from pathlib import Path

import pytest

from tests.rigs.signed_repository import SignedRepository
from tests.rigs.trusting_device import TrustingDevice


@pytest.fixture
def fleet() -> SignedRepository:
    made = SignedRepository()
    made.release(1)
    return made


@pytest.fixture
def device(tmp_path: Path, fleet: SignedRepository) -> TrustingDevice:
    made = TrustingDevice(tmp_path / "updates", fleet)
    made.trust.refresh()
    return made
