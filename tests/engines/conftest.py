"""A device with the double of TensorRT in this process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_runtime.packages import ModelPackage, open_package
from tests.rigs.openings import SMALL, Device
from tests.rigs.tensorrt_double import installed


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    """An Orin with TensorRT 10.3; at the end nothing may be left on its GPU, and nothing misused."""
    with installed("10.3.0") as double:
        yield Device(double, tmp_path / "engines")
        assert double.ledger().empty


@pytest.fixture(scope="session")
def small(package_of: Callable[[str], Path]) -> ModelPackage:
    """A real detector with golden vectors."""
    package = open_package(package_of(SMALL))
    assert package.manifest.golden
    return package
