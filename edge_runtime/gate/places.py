"""Word of where the running gate's files lie, left in the state directory for commands that are not told."""

import contextlib
from pathlib import Path

from edge_runtime.durable import write_file
from edge_runtime.state import StateDirectory

_POLICY, _CONFIGURATION = "policy.place", "configuration.place"
_MAX_BYTES = 4096


def note_policy_place(state: StateDirectory, path: Path) -> None:
    """Leave word where the policy lies. Where it cannot be left, a command can still be told with `--policy`."""
    _note(state.run / _POLICY, path)


def policy_place(state: StateDirectory) -> Path:
    """Where the policy lies that holds: the fleet's, or where the last gate there had it, or the default place."""
    if state.assigned_policy.exists():
        return state.assigned_policy
    return _noted(state.run / _POLICY) or state.policy


def note_configuration_place(state: StateDirectory, path: Path) -> None:
    """Leave word where the configuration lies that says how crops are redacted."""
    _note(state.run / _CONFIGURATION, path)


def configuration_place(state: StateDirectory) -> Path | None:
    """Where the configuration of the last run lies; None where none has left word."""
    return _noted(state.run / _CONFIGURATION)


def _note(file: Path, path: Path) -> None:
    with contextlib.suppress(OSError):
        write_file(file, f"{path.absolute()}\n".encode(), 0o600)


def _noted(file: Path) -> Path | None:
    try:
        with file.open("rb") as found:
            text = found.read(_MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return Path(text) if text else None
