"""Devices to update."""

import os
from pathlib import Path

import pytest

from tests.rigs.updating_device import UpdatingDevice


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves does not depend on it, and these tests write many thousands of files.

    `test_power_cut.py` is about what a power cut leaves.
    """
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def device(tmp_path: Path) -> UpdatingDevice:
    """A device that runs what its configuration names."""
    return UpdatingDevice(tmp_path / "updates")
