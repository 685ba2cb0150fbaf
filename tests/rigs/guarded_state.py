"""A state directory with a real guard at its socket, for the commands that people type.

python -m tests.rigs.guarded_state DIR [WORKER...]     keeps one there until it is interrupted
"""

import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge_runtime.state import StateDirectory
from tests.rigs.guard_bodies import PATIENT
from tests.rigs.guarded import GuardProcess, guarded, worker_row


@contextlib.contextmanager
def guarded_state(
    folder: Path,
    keys: dict[str, str] | None = None,
    profile: dict[str, Any] = PATIENT,
    workers: tuple[str, ...] = ("perception",),
    fault: str = "none",
) -> Iterator[tuple[StateDirectory, GuardProcess]]:
    """A guard over workers that beat and break as told; its state directory, and itself."""
    state = StateDirectory(folder / "state").ensure()
    rows = [worker_row(name, fault, deadline_ms=1000) | {"longest_ms": 5000} for name in workers]
    guard = GuardProcess(state.guard, profile, rows, keys=keys or {})
    link = state.guard_socket
    link.unlink(missing_ok=True)
    link.symlink_to(state.guard / "control")
    with guarded(guard):
        yield state, guard


def main(folder: str, *workers: str) -> None:
    """Keeps one there."""
    keys = json.loads(Path(folder, "keys.json").read_text()) if Path(folder, "keys.json").exists() else {}
    with guarded_state(Path(folder), keys, workers=workers or ("perception",)) as (state, _):
        print(state.path, flush=True)
        signal.pause()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
