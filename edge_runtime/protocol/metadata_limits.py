"""How long signed metadata may be, in bytes: what a server publishes, enrolment carries and a device reads."""

from typing import Final

MAX_ROOT_BYTES: Final = 512_000
MAX_TIMESTAMP_BYTES: Final = 16_384
MAX_SNAPSHOT_BYTES: Final = 2_000_000
MAX_TARGETS_BYTES: Final = 5_000_000
"""Of the top-level targets, and of each role that signs releases."""
