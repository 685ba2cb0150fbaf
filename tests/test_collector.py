"""The garbage collector of a process that handles events."""

import subprocess
import sys

_CHILD = """
import gc
from edge_runtime.collector import collect_rarely
own = gc.get_threshold()
collect_rarely()
print(gc.get_threshold()[0] > own[0], gc.get_freeze_count() > 1000, gc.isenabled())
"""


def test_what_is_there_is_not_walked_through_again_and_the_rest_rarely() -> None:
    """In a process of its own: it is for good."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["True", "True", "True"]
