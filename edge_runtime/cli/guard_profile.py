"""A body's profile for the commands about the guard: from a file, from a configuration, or the built-in one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.errors import ConfigError
from edge_runtime.guard.profile import Profile, from_json
from edge_runtime.guard.refusals import check
from edge_runtime.guard.still import STILL


@dataclass(frozen=True, slots=True)
class Body:
    """What a guard is told of a body.

    Attributes:
        profile: what it allows.
        arms_itself: nobody has to arm it: the built-in one that cannot move.
        refused: why the guard would not start with it, a sentence each.
        refused_without_real_time: the same for a guard without a real-time schedule.
    """

    profile: Profile
    arms_itself: bool
    refused: tuple[str, ...] = ()
    refused_without_real_time: tuple[str, ...] = ()


def chosen_body(profile: Path | None, config: Path | None) -> Body:
    """The body that the options of a command mean.

    Args:
        profile: file of a profile.
        config: file of a configuration.

    Returns:
        That of the file; of the file that the configuration's `guard` section names; without both, or where it
        names none, the built-in one of a body that cannot move.

    Raises:
        ConfigError: both are given, or what is named cannot be used.
    """
    if profile is not None and config is not None:
        raise ConfigError("give --profile or --config, not both")
    if config is not None:
        from edge_runtime.config import load_config
        from edge_runtime.node.guarding import body_faults, body_profile

        loaded = load_config(config)
        named = None if loaded.config.guard is None else loaded.config.guard.profile
        if named is None:
            return Body(from_json(body_profile(loaded)), arms_itself=True)
        return _read(
            loaded.resolve(named), lambda body, realtime: body_faults(loaded, body, realtime=realtime)
        )
    if profile is None:
        return Body(from_json(STILL), arms_itself=True)
    return _read(profile, lambda body, realtime: check(body, realtime=realtime))


def _read(file: Path, faults: Callable[[Profile, bool], list[str]]) -> Body:
    from edge_runtime.config.body_file import read_body_file

    try:
        profile = from_json(read_body_file(file))
    except ConfigError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(f"{file}: ") else f"{file}: {text}") from None
    return Body(
        profile,
        arms_itself=False,
        refused=tuple(faults(profile, True)),
        refused_without_real_time=tuple(faults(profile, False)),
    )
