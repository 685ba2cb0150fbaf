"""A fleet's overlay: what a signed release of a configuration may change of a device's own, and nothing else.

The device's file stays as it is. The overlay is laid over the file's data in memory, its `${values.NAME}` are
replaced by what the device was assigned, and the whole then goes through the ordinary checks of a configuration.
Pure but for reading the overlay's own files.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.config.camera import CameraConfig
from edge_runtime.config.checks import Finding
from edge_runtime.config.node import NodeConfig
from edge_runtime.config.problem import InvalidConfig
from edge_runtime.config.regular_file import NotRegularError, open_regular
from edge_runtime.config.words import kind_of
from edge_runtime.document import Document, Location, Problem, Unreadable, read_document, visible
from edge_runtime.protocol.release_values import DECLARED, NAMED, REFERENCE, Value, Values

OVERLAY_NAME = "overlay.yaml"
POLICY_NAME = "policy.yaml"
LABELS_NAME = "labels.json"
FILES = frozenset({OVERLAY_NAME, POLICY_NAME, LABELS_NAME})

EVERY = "*"
"""In place of a name: every model, or every camera, that the device has and the overlay does not name itself."""

_MAX_BYTES = 1 << 20
_MODEL = ("score", "nms_iou")
_CAMERA = ("rules",)
_EVENTS = ("labels",)
_NOT_ALLOWED = (
    "is nothing that a release may set: it sets models.NAME.score, models.NAME.nms_iou, cameras.NAME.rules "
    "and events.labels, and may bring a policy"
)


@dataclass(frozen=True, slots=True)
class Overlay:
    """What a release says, read and not yet laid over anything.

    Attributes:
        folder: of the release's files.
        document: of `overlay.yaml`, with `labels.json` as its `events.labels`.
        values: of this device.
        release: bundle's SHA-256; None outside of the fleet's store.
    """

    folder: Path
    document: Document
    values: Values = field(default_factory=dict)
    release: str | None = None

    @property
    def file(self) -> str:
        """Its main file, for sentences."""
        return str(self.folder / OVERLAY_NAME)

    @property
    def policy(self) -> Path | None:
        """The policy that it brings; None where the device's own holds."""
        path = self.folder / POLICY_NAME
        return path if path.exists() else None


@dataclass(frozen=True, slots=True)
class Overlaid:
    """A device's data with an overlay over it.

    Attributes:
        data: plain data of a whole configuration.
        places: where the overlay's values lie in it, and where they stand in the overlay.
        problems: why it may not be laid over, located in the overlay.
    """

    data: Any
    places: Mapping[Location, Location]
    problems: tuple[Finding, ...]

    def source(self, location: Location) -> Location | None:
        """Where in the overlay a value of `data` comes from; None where it is the device's own."""
        for length in range(len(location), 0, -1):
            if (found := self.places.get(location[:length])) is not None:
                return (*found, *location[length:])
        return None


def read_overlay(folder: Path, values: Values | None = None, release: str | None = None) -> Overlay:
    """Read a release's files.

    Args:
        folder: of them.
        values: of this device.
        release: bundle's SHA-256, for the record.

    Raises:
        InvalidConfig: they cannot be read, or are not those of a configuration.
    """
    for path in sorted(folder.rglob("*")):
        if path.relative_to(folder).as_posix() not in FILES:
            raise InvalidConfig(str(path), [Problem("is no file of a configuration's release")])
    document = _read(folder / OVERLAY_NAME)
    if not isinstance(document.data, dict):
        text = f"must be a section such as cameras or models, not {kind_of(document.data)}"
        raise InvalidConfig(str(folder / OVERLAY_NAME), [Problem(text)])
    if (folder / LABELS_NAME).exists():
        events = document.data.setdefault("events", {})
        if not isinstance(events, dict) or "labels" in events:
            raise InvalidConfig(
                str(folder / LABELS_NAME),
                [Problem("and events.labels of the overlay: only one may name labels")],
            )
        events["labels"] = _read(folder / LABELS_NAME).data
    return Overlay(folder, document, dict(values or {}), release)


def lay_over(own: Any, overlay: Overlay) -> Overlaid:
    """A device's data with an overlay over it; neither is changed.

    Args:
        own: plain data of the device's file, references unresolved; a section.
        overlay: what the release says.
    """
    found: list[Finding] = []
    said = _with_values((), overlay.document.data, overlay.values, found)
    data, places = copy.deepcopy(own), {}
    for to, source, value in _changes(own, said, found):
        section = data
        for step in to[:-1]:
            if section.get(step) is None:
                section[step] = {}
            section = section[step]
        if isinstance(section, dict):  # what is none is a problem of the device's own file
            section[to[-1]] = value
            places[to] = source
    return Overlaid(data, places, tuple(found))


def guarded_deadlines(own: NodeConfig, laid: NodeConfig) -> Iterator[Finding]:
    """Cameras whose frames would have another time to be looked at: the guard was told the device's own.

    Args:
        own: the device's configuration.
        laid: the same with an overlay.
    """
    for name, camera in laid.cameras.items() if own.is_device else ():
        told, made = _deadline_s(own, own.cameras[name]), _deadline_s(own, camera)
        if told != made:
            text = f"the shortest deadline of its rules would make it {made:g} s, and the guard goes by {told:g} s"
            yield ("cameras", name, "rules"), f"{text}: a release keeps that"


def _deadline_s(own: NodeConfig, camera: CameraConfig) -> float:
    """As `node.watch.camera_deadline_ns` takes it."""
    profile = own.device.profile
    deadlines_s = [rule.deadline for rule in camera.rules]
    return min(deadlines_s + ([] if profile is None else [profile.response_deadline_ms / 1000]), default=1.0)


def _changes(
    own: Any, said: dict[str, Any], found: list[Finding]
) -> Iterator[tuple[Location, Location, Any]]:
    """Where the overlay sets what, with its place in the overlay."""
    for key, section in said.items():
        if (key == "version" and section == 1) or key == DECLARED:
            continue  # the bounds of values hold as they were signed, with the release's terms
        if key == "events":
            for name, value in _section((key,), section, _EVENTS, found).items():
                yield (key, name), (key, name), value
        elif key in ("models", "cameras"):
            yield from _named(key, own.get(key), section, _MODEL if key == "models" else _CAMERA, found)
        else:
            found.append(((key,), _NOT_ALLOWED))


def _named(
    key: str, own: Any, section: Any, allowed: tuple[str, ...], found: list[Finding]
) -> Iterator[tuple[Location, Location, Any]]:
    here = own if isinstance(own, dict) else {}
    if not isinstance(section, dict):
        found.append(((key,), f"must be a section, not {kind_of(section)}"))
        return
    for name, changes in section.items():
        at: Location = (key, name)
        wanted = _section(at, changes, allowed, found)
        if name == EVERY:
            names = [one for one in here if one not in section]
        elif name in here:
            names = [name]
        else:
            known = ", ".join(map(str, here)) or "none"
            found.append((at, f"this device has no {key[:-1]} of that name; it has {known}"))
            continue
        for one in names:
            if isinstance(here[one], dict):  # what is no section is a problem of the device's own file
                for setting, value in wanted.items():
                    yield (key, one, setting), (*at, setting), value


def _section(at: Location, section: Any, allowed: tuple[str, ...], found: list[Finding]) -> dict[str, Any]:
    if not isinstance(section, dict):
        found.append((at, f"must be a section, not {kind_of(section)}"))
        return {}
    found += [((*at, name), _NOT_ALLOWED) for name in section if name not in allowed]
    return {name: value for name, value in section.items() if name in allowed}


def _with_values(at: Location, data: Any, values: Values, found: list[Finding]) -> Any:
    """The overlay's data with its references replaced; a text that is nothing but one becomes the value itself."""
    if isinstance(data, dict):
        return {key: _with_values((*at, key), item, values, found) for key, item in data.items()}
    if isinstance(data, list):
        return [_with_values((*at, index), item, values, found) for index, item in enumerate(data)]
    if not isinstance(data, str) or "${" not in data:
        return data
    alone = REFERENCE.fullmatch(data)
    if alone is not None and not alone[1]:
        return _value(alone, at, values, found)
    return REFERENCE.sub(lambda match: _as_text(match, at, values, found), data)


def _as_text(match: re.Match[str], at: Location, values: Values, found: list[Finding]) -> str:
    if match[1]:
        return match[0]  # `$${` stays what it is: a literal `${` for whoever resolves the whole
    value = _value(match, at, values, found)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(match: re.Match[str], at: Location, values: Values, found: list[Finding]) -> Value:
    name = NAMED.fullmatch(match[2])
    if name is None or not match[3]:
        # least of all ${env:…} and ${file:…}: nobody far away reads a device's secrets into a rule's name
        found.append((at, f"${{{visible(match[2])}}} is no reference of a release; write ${{values.NAME}}"))
        return ""
    value = values.get(name[1])
    if value is None:
        found.append((at, f"this device was assigned no value {name[1]}"))
        return ""
    if isinstance(value, str) and "$" in value:
        # a single `$` as well: the value beside it may begin with `{`, and together they would be a reference
        found.append((at, f"the value {name[1]} of this device holds a $, which it may not"))
        return ""
    return value


def _read(path: Path) -> Document:
    try:
        with open_regular(path) as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise InvalidConfig(str(path), [Problem(f"is larger than {_MAX_BYTES // 1024} KiB")])
        document = read_document(raw.decode("utf-8-sig"))
    except Unreadable as error:
        raise InvalidConfig(str(path), [error.problem]) from None
    except (UnicodeDecodeError, NotRegularError):
        raise InvalidConfig(str(path), [Problem("is no UTF-8 text")]) from None
    except OSError as error:
        raise InvalidConfig(str(path), [Problem(f"cannot be read: {error.strerror or error}")]) from None
    if document.problems:
        raise InvalidConfig(str(path), document.problems)
    return document
