"""Where a device keeps its state, and whether a fleet knows it."""

import os
from pathlib import Path

from edge_runtime.config import LoadedConfig
from edge_runtime.identity import Identity, IdentityError
from edge_runtime.state import ENVIRONMENT, StateDirectory


def state_of(loaded: LoadedConfig, option: Path | None = None) -> StateDirectory:
    """The state directory: of the option, of the environment, of the configuration, or the default one."""
    configured = None if loaded.config.delivery is None else loaded.config.delivery.state
    chosen = option or os.environ.get(ENVIRONMENT) or (loaded.resolve(configured) if configured else None)
    return StateDirectory.find(chosen)


def is_enrolled(state: StateDirectory) -> bool:
    """Whether a fleet server knows this device. A damaged identity counts: the uplink says what is wrong."""
    try:
        return Identity.load(state) is not None
    except IdentityError:
        return True
