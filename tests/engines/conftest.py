"""A device with the double of TensorRT in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.packages import ModelPackage
from tests.rigs.openings import Device
from tests.rigs.tensorrt_double import installed
from tests.rigs.tiny_detector import tiny_package


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    """An Orin with TensorRT 10.3; at the end nothing may be left on its GPU, and nothing misused."""
    with installed("10.3.0") as double:
        yield Device(double, tmp_path / "engines")
        assert double.ledger().empty


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModelPackage:
    """A tiny detector with golden vectors: the subject here is what becomes of engines, not the network."""
    return tiny_package(tmp_path_factory.mktemp("small") / "package")
