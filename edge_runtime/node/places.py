"""Where a device keeps its state and its policy, and whether a fleet knows it."""

import os
from pathlib import Path

from edge_runtime.config import LoadedConfig
from edge_runtime.state import ENVIRONMENT, StateDirectory


def state_of(loaded: LoadedConfig, option: Path | None = None) -> StateDirectory:
    """The state directory: of the option, of the environment, of the configuration, or the default one."""
    configured = None if loaded.config.delivery is None else loaded.config.delivery.state
    chosen = option or os.environ.get(ENVIRONMENT) or (loaded.resolve(configured) if configured else None)
    return StateDirectory.find(chosen)


def policy_path(loaded: LoadedConfig, state: StateDirectory) -> Path:
    """The policy's file: what the configuration names, or its place in the state directory."""
    delivery = loaded.config.delivery
    return loaded.resolve(delivery.policy) if delivery and delivery.policy else state.policy


def exchange_places(loaded: LoadedConfig, option: Path | None) -> tuple[Path | None, Path | None]:
    """The folder of releases that take the place of what is configured, and the socket at which they are exchanged.

    Without a section `updates` both are None, and the device runs what its file says. Where it is switched off,
    what was taken stays in use, and nothing is exchanged.

    Args:
        loaded: the configuration.
        option: of a `--state` option.

    Raises:
        ConfigError: the state directory cannot be used.
    """
    if not loaded.config.is_device or loaded.config.updates is None:
        return None, None
    state = state_of(loaded, option).ensure()
    return state.updates, state.perception_socket if loaded.config.takes_updates else None


def is_enrolled(state: StateDirectory) -> bool:
    """Whether a fleet server knows this device. A damaged identity counts: the uplink says what is wrong."""
    from edge_runtime.identity import Identity, IdentityError  # noqa: PLC0415 - the monitor never needs it

    try:
        return Identity.load(state) is not None
    except IdentityError:
        return True
