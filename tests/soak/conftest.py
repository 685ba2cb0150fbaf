"""How long, and where the report goes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.soak import SoakRun
from tests.conftest import REPOSITORY


@pytest.fixture(scope="session")
def minutes() -> float:
    """`EDGE_SOAK_MINUTES`, or ten."""
    return float(os.environ.get("EDGE_SOAK_MINUTES", "10"))


@pytest.fixture(scope="session")
def out() -> Path:
    """`EDGE_SOAK_OUT`, or out/soak."""
    return Path(os.environ.get("EDGE_SOAK_OUT", REPOSITORY / "out/soak"))


@pytest.fixture
def soak(out: Path) -> Callable[[str], SoakRun]:
    """A run by its name in `sim/soak/budgets.toml`."""
    return lambda name: SoakRun(name, out)
