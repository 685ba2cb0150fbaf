"""Packages that take each other's place: a real model, and what tests make of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.swapping import derived


@pytest.fixture(scope="session")
def fast_package(package_of: Callable[[str], Path]) -> Path:
    """The smallest detector that knows the same labels."""
    return package_of("fastestdet_coco_352")


@pytest.fixture
def other(tmp_path: Path, fast_package: Path) -> Callable[..., Path]:
    """A package made of the fast one: the same weights, another manifest, and so another digest."""
    made = 0

    def make(**fields: Any) -> Path:
        nonlocal made
        made += 1
        return derived(fast_package, tmp_path / f"other-{made}", **({"name": f"other-{made}"} | fields))

    return make


@pytest.fixture(scope="session")
def street(media: Path) -> dict[str, Any]:
    """A real clip at its own pace, again and again; no frame is left out."""
    return {"kind": "file", "path": str(media / "vtest.avi"), "loop": True, "pacing": "real_time"}
