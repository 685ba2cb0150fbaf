"""A first configuration from a few answers: which camera, which model, how sensitive what it sees is.

Pure: it guesses, names and renders. Opening the camera and writing files is the command's part.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

from edge_runtime.config.base import NAME_PATTERN, NAME_RULE
from edge_runtime.config.url import http_url, rtsp_url
from edge_runtime.document import visible
from edge_runtime.errors import ConfigError
from edge_runtime.protocol import DataClass
from edge_runtime.telemetry import redact_patterns

SourceKind = Literal["file", "images", "rtsp", "http", "v4l2", "gstreamer", "synthetic"]

_VIDEO_NODE = re.compile(r"(?:/dev/video)?(\d{1,3})")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class CameraAnswer:
    """What kind of source a person's text means.

    Attributes:
        kind: of the source.
        key: the field that takes the text.
        value: the text for that field, credentials included; empty for `synthetic`.
        name: a name for the camera.
    """

    kind: SourceKind
    key: str
    value: str
    name: str

    @property
    def holds_secret(self) -> bool:
        """Whether the text must not stand in a configuration file."""
        return redact_patterns(self.value) != self.value

    @property
    def shown(self) -> str:
        """The text as it may be shown."""
        return redact_patterns(self.value) or self.kind

    def fields(self, value: str | None = None) -> dict[str, Any]:
        """The source section as plain data, with `value` in place of the text if given."""
        if not self.key:
            return {"kind": self.kind}
        return {"kind": self.kind, self.key: self.value if value is None else value}


def guess_source(text: str, folder: Path) -> CameraAnswer:
    """Tell a URL, a device, a pipeline, a file and a folder apart.

    Args:
        text: as a person typed it.
        folder: relative paths start here.

    Raises:
        ConfigError: it is none of them; the text holds no credentials.
    """
    text = text.strip()
    if not text:
        raise ConfigError("the camera is empty: give a URL, a /dev/videoN, a file, a folder or a pipeline")
    if " ! " in text or text.startswith("nvarguscamerasrc"):
        return CameraAnswer("gstreamer", "pipeline", text, "camera")
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() != "file":
        return _guess_url(text, scheme[1].lower())
    if text == "synthetic":
        return CameraAnswer("synthetic", "", "", "synthetic")
    node = _VIDEO_NODE.fullmatch(text)
    if node is not None and not (folder / text).is_file():
        return CameraAnswer("v4l2", "device", f"/dev/video{node[1]}", f"video{node[1]}")
    if text.startswith("/dev/"):
        return CameraAnswer("v4l2", "device", text, slug(PurePosixPath(text).name, "camera"))
    return _guess_path(text, folder)


def _guess_path(text: str, folder: Path) -> CameraAnswer:
    path = Path(text.removeprefix("file://")).expanduser()
    there = folder / path
    if there.is_dir():
        return CameraAnswer("images", "path", str(path), slug(there.resolve().name, "images"))
    if there.is_file():
        return CameraAnswer("file", "path", str(path), slug(path.stem, "video"))
    raise ConfigError(
        f"{visible(redact_patterns(text))} is no camera: there is no such file or folder, and it is neither an "
        "rtsp:// or http:// URL, nor a /dev/videoN, nor a GStreamer pipeline (elements joined by ' ! ')"
    )


def _guess_url(text: str, scheme: str) -> CameraAnswer:
    kinds: dict[str, tuple[SourceKind, Any]] = {
        "rtsp": ("rtsp", rtsp_url),
        "rtsps": ("rtsp", rtsp_url),
        "http": ("http", http_url),
        "https": ("http", http_url),
    }
    if scheme not in kinds:
        raise ConfigError(f"{scheme}:// is no camera's URL here; rtsp://, rtsps://, http:// and https:// are")
    kind, check = kinds[scheme]
    try:
        check(text)
    except ValueError as error:
        raise ConfigError(f"the camera's URL {error}") from None
    host = urlsplit(f"{scheme}://{text.partition('://')[2].rpartition('@')[2]}").hostname or "camera"
    return CameraAnswer(kind, "url", text, slug(host, "camera"))


def slug(text: str, fallback: str) -> str:
    """A usable name made of `text`."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:40].strip("-")
    # An address makes a poor name: 10-0-0-7 says nothing about what the camera sees.
    return fallback if not name or name.replace("-", "").isdigit() else name


def camera_name(text: str) -> str:
    """A name for the camera.

    Raises:
        ConfigError: it cannot be one.
    """
    if not re.fullmatch(NAME_PATTERN, text):
        raise ConfigError(f"{text!r} is not a usable name: {NAME_RULE}")
    return text


def data_class(text: str) -> DataClass:
    """The label for what a camera sees.

    Raises:
        ConfigError: it is not one of the classes; `unknown` is no label.
    """
    words = [item.value for item in DataClass if item is not DataClass.UNKNOWN]
    if text.strip().lower() not in words:
        raise ConfigError(
            f"{text!r} is no label for what a camera sees; it is one of {', '.join(words)} "
            "(least careful first; restricted if people can be recognised)"
        )
    return DataClass(text.strip().lower())


def choose_object(labels: Sequence[str], wanted: str | None = None) -> str:
    """What the first rule looks for: `wanted`, else a person where the model knows them, else its first label.

    Raises:
        ConfigError: the model does not know `wanted`.
    """
    if wanted is not None:
        if wanted not in labels:
            listed = ", ".join(labels[:20]) + (f" and {len(labels) - 20} more" if len(labels) > 20 else "")
            raise ConfigError(f"the model does not know {wanted!r}; it knows {listed}")
        return wanted
    return next((label for label in ("person", "pedestrian", "people", "face") if label in labels), labels[0])


@dataclass(frozen=True, slots=True)
class Starter:
    """The answers that a first configuration is made of.

    Attributes:
        camera: where the frames come from.
        name: of the camera.
        secret_file: holds the source's text where that holds a credential; relative to the configuration.
        model: name of the model.
        package: path of its package as it stands in the file.
        licence: id of a licence that had to be accepted for it, if any.
        label: how sensitive what the camera sees is.
        target: label of the model that the first rule looks for.
        seen: what the probe found, such as `768x576, 10 fps, mpeg4`; None where there was no probe.
        still: file of the saved picture, if any.
    """

    camera: CameraAnswer
    name: str
    secret_file: str | None
    model: str
    package: str
    label: DataClass
    target: str
    licence: str | None = None
    seen: str | None = None
    still: str | None = None


def source_data(starter: Starter) -> dict[str, Any]:
    """The source section as it stands in the file."""
    if starter.secret_file is None:
        return starter.camera.fields()
    return starter.camera.fields(f"${{file:{starter.secret_file}}}")


def render(starter: Starter) -> str:
    """The configuration file, with comments for the one who goes on writing it."""
    source = source_data(starter)
    escaped = starter.secret_file is None
    lines = "\n".join(
        f"      {key}: {_quoted(value, escape=escaped and key != 'kind')}" for key, value in source.items()
    )
    hidden = f"      # {starter.camera.shown}\n" if starter.secret_file else ""
    probed = f"    # The probe saw {starter.seen}" if starter.seen else "    # Not probed yet"
    still = f"; a still lies in {starter.still}." if starter.still else "."
    rule = slug(starter.target, "something")
    accepted = ""
    if starter.licence is not None:
        accepted = f"    accept_licences: [{_quoted(starter.licence)}] # by the one who wrote this file\n"
    return f"""\
# Check it with:  edge-runtime config check FILE      Run it with:  edge-runtime run FILE
# Every field:    docs/configuration.md               In an editor: edge-runtime config schema
version: 1

device:
  name: {slug(starter.name, "device")}-device
  # Before it goes into the field, state its limits (edge-runtime preflight asks for all five):
  # profile:
  #   power_watts: 25
  #   max_temperature_c: 85
  #   sensor_bandwidth_mbps: 20
  #   link: intermittent            # none, intermittent, metered or steady
  #   response_deadline_ms: 500

models:
  {starter.model}:
    package: {_quoted(starter.package)}
{accepted}
cameras:
  {starter.name}:
{probed}{still}
    source:
{hidden}{lines}
    model: {starter.model}
    # How sensitive what it sees is; a rule may raise it for its zone, nothing can lower it.
    data_class: {starter.label.value}
    rules:
      # An event starts when one is seen for half a second and ends when none is for as long.
      - name: {rule}-present
        kind: occupancy
        labels: [{_quoted(starter.target)}]
        at_least: 1
        hold: 0.5
        # Only in a zone, as fractions of the picture's width and height:
        # polygon: [[0.1, 0.5], [0.9, 0.5], [0.9, 1.0], [0.1, 1.0]]
        # A line instead: kind: line, line: [[0.5, 0.0], [0.5, 1.0]] (without at_least and hold)

events:
  file: events.ndjson

# To send events to a fleet server, those that a policy lets go (docs/policy.md); edge-runtime enrol comes first:
# delivery: {{}}
"""


def _quoted(value: str, *, escape: bool = True) -> str:
    """A YAML scalar: plain where that is safe, else in double quotes, which JSON's form is."""
    if escape:
        value = value.replace("${", "$${")
    plain = re.fullmatch(r"[A-Za-z/.][A-Za-z0-9_./-]*", value)
    reserved = value.lower() in ("true", "false", "null", "yes", "no", "on", "off", ".inf", ".nan")
    return value if plain and not reserved else json.dumps(value, ensure_ascii=not value.isprintable())
