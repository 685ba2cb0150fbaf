"""A device with the double of TensorRT in this process."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.packages import ModelPackage
from tests.rigs.openings import Device
from tests.rigs.tensorrt_double import installed
from tests.rigs.tiny_detector import tiny_package


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where the system has a folder for that.

    Here it is the order of writes that is tested, and a flush takes up to 16 ms where others use the disk too.
    """
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="engines-", dir=memory) as name:
        yield Path(name)


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
