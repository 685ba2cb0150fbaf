"""What benchmarks need of the machine."""

import sys
from pathlib import Path

from tests.conftest import shared_directory


def require_shared() -> Path:
    """`../shared`, or an end with one sentence."""
    found = shared_directory()
    if found is None:
        sys.exit("error: benchmarks need the real models and clips at ../shared (or EDGE_SHARED)")
    return found
