"""The files of a configuration's release, as far as a server understands them: their form, and the values they use.

Whether a device can run what they say is known on the device alone, which lays them over a file of its own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from edge_runtime.protocol.release_values import Declared, declared_in
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.releases.yaml_text import NoYaml, read_yaml

CONFIGURATION_FILES: Final = ("labels.json", "overlay.yaml", "policy.yaml")
"""What a release of a configuration may hold; `overlay.yaml` must be there."""

_MAX_TEXT_BYTES = 1 << 20


def read_configuration(files: Mapping[str, Path]) -> Declared:
    """The values of single devices that a configuration declares.

    Args:
        files: where its files lie, by their names.

    Raises:
        ReleaseRefused: one cannot be read, or the values that it uses are not those that it declares.
        OSError: the disk fails.
    """
    data = {name: _read(name, files[name]) for name in CONFIGURATION_FILES if name in files}
    overlay = data.get("overlay.yaml")
    if not isinstance(overlay, dict):
        raise ReleaseRefused("configuration", "overlay.yaml is no mapping")
    try:
        return declared_in(overlay, data.get("labels.json"))
    except ValueError as error:
        raise ReleaseRefused("values", f"overlay.yaml: {error}") from None


def _read(name: str, path: Path) -> object:
    with path.open("rb") as stream:
        data = stream.read(_MAX_TEXT_BYTES + 1)
    if len(data) > _MAX_TEXT_BYTES:
        raise ReleaseRefused("configuration", f"{name} is longer than {_MAX_TEXT_BYTES} bytes")
    try:
        found = read_yaml(data)
    except NoYaml as error:
        raise ReleaseRefused("configuration", f"{name} cannot be read: {error}") from None
    if not isinstance(found, dict | list):
        raise ReleaseRefused("configuration", f"{name} is no mapping")
    return found
