"""A valid configuration as plain data, for tests that break one thing in it."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.telemetry.redaction import SECRETS

VALID: dict[str, Any] = {
    "version": 1,
    "models": {"yolox": {"package": "models/yolox"}},
    "cameras": {
        "dock": {
            "source": {"kind": "rtsp", "url": "rtsp://10.0.0.1/live"},
            "model": "yolox",
            "data_class": "internal",
            "rules": [
                {"name": "in", "kind": "zone", "polygon": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9]]},
                {"name": "over", "kind": "line", "line": [[0.5, 0], [0.5, 1]]},
            ],
        }
    },
}


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    SECRETS.clear()
    yield
    SECRETS.clear()


@pytest.fixture
def valid() -> dict[str, Any]:
    """A copy to change."""
    return copy.deepcopy(VALID)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], Path]:
    """Write data (as JSON, which is YAML) or text to a file."""

    def _write(content: Any) -> Path:
        path = tmp_path / "site.yaml"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return _write
