"""Fixtures for parts that only some machines have: absent, they skip on a laptop and fail in CI."""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.cameras import RTSP_PACKAGES, rtsp_server_is_missing

_SYSTEM_PACKAGES = "/usr/lib/python3/dist-packages"


def _absent(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def rtsp_server() -> None:
    """GStreamer's RTSP server, run by the system's Python."""
    reason = rtsp_server_is_missing()
    if reason is not None:
        _absent(reason)


@pytest.fixture
def gst(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`gi` from the system, importable where this Python has the system's minor version."""
    if Path(_SYSTEM_PACKAGES, "gi").is_dir():
        monkeypatch.setattr(sys, "path", [*sys.path, _SYSTEM_PACKAGES])
    from edge_runtime.errors import MissingDependency
    from edge_runtime.sources.gstreamer import load_gst

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gi's own deprecations
        try:
            load_gst()
        except MissingDependency:
            _absent(f"needs GStreamer with gi for this Python: apt-get install {RTSP_PACKAGES}")
        yield
