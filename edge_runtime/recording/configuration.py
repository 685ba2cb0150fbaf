"""The configuration as a recording keeps it: without credentials, and of it what replaying needs."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from edge_runtime.config import InvalidConfig, LoadedConfig
from edge_runtime.config.load import digest
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.regular_file import open_regular
from edge_runtime.config.secrets import without_secrets
from edge_runtime.document import Unreadable, read_document
from edge_runtime.errors import ConfigError
from edge_runtime.protocol.wire import places
from edge_runtime.recording.errors import RecordingError
from edge_runtime.recording.head import ConfigFacts

_CAMERA = ("model", "data_class", "tracking")
_EVENTS = ("max_bytes", "labels")
_NOWHERE = {"kind": "synthetic"}
"""Stands for a camera's source: what it delivered is in the recording."""


def facts_of(loaded: LoadedConfig) -> ConfigFacts:
    """The configuration of a run, as its recording keeps it.

    Raises:
        ConfigError: the file has changed since it was loaded.
    """
    content = without_secrets(_data_of(loaded))
    if digest(content) != loaded.digest:
        raise ConfigError(f"{loaded.path}: changed while it was read; start again")
    return ConfigFacts(digest=loaded.digest, content=content)


def needed(facts: ConfigFacts) -> ConfigFacts:
    """What of a configuration replaying needs: rules, tracking, classes, names, bounds of the monitor.

    Where cameras are, what they are called with, and where anything is sent to is not among it.
    """
    content = facts.content
    cameras = {name: _camera(camera) for name, camera in _section(content, "cameras").items()}
    models = {name: {"package": "recorded"} for name in _section(content, "models")}
    found: dict[str, Any] = {"models": models, "cameras": cameras}
    events = {key: value for key, value in _section(content, "events").items() if key in _EVENTS}
    monitor = _section(_section(content, "guard"), "monitor")
    if events:
        found["events"] = events
    if monitor:
        found["guard"] = {"monitor": {key: value for key, value in monitor.items() if key != "root"}}
    return ConfigFacts(digest=facts.digest, content=found, whole=False)


def parsed(facts: ConfigFacts) -> NodeConfig:
    """What replaying needs of a configuration, validated; its rules keep no evidence, which takes pictures.

    Raises:
        RecordingError: it cannot be used.
    """
    try:
        return NodeConfig.model_validate(needed(facts).content, context={"checked": True})
    except ValidationError as error:
        raise RecordingError(
            f"the configuration in this recording cannot be used: {places(error)}; name another one with --config"
        ) from None


def _camera(camera: Any) -> dict[str, Any]:
    section = camera if isinstance(camera, Mapping) else {}
    rules = section.get("rules") or []
    return {
        "source": _NOWHERE,
        **{key: section[key] for key in _CAMERA if section.get(key) is not None},
        "rules": [{**rule, "evidence": False} if isinstance(rule, Mapping) else rule for rule in rules],
    }


def _section(data: Any, name: str) -> Mapping[str, Any]:
    found = data.get(name) if isinstance(data, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _data_of(loaded: LoadedConfig) -> Any:
    """The file's plain data, with what a release laid over it."""
    if loaded.overlaid is not None:
        return loaded.overlaid.data
    try:
        with open_regular(loaded.path) as file:
            return read_document(file.read().decode("utf-8-sig")).data
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{loaded.path}: cannot be read again; start again") from None
    except Unreadable as error:
        raise InvalidConfig(str(loaded.path), [error.problem]) from None
