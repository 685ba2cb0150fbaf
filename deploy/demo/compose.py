"""Turns `make demo CLIP=… MODEL=… RULES=…` into a configuration file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from edge_runtime.config.starter import guess_source
from edge_runtime.document import Unreadable, read_document
from edge_runtime.errors import ConfigError

HERE = Path(__file__).resolve().parent
DEMO = HERE / "driver_monitoring.yaml"
HIDDEN_SOURCE = "source.txt"

ANY_OBJECT: list[dict[str, Any]] = [
    {"name": "something_seen", "kind": "occupancy", "hold": 0.5, "severity": "info"},
    {"name": "nothing_seen", "kind": "absence", "seconds": 3, "severity": "notice"},
]
"""Rules that fit any model and any clip, for when none are given."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a person gave; None or empty means the demo's own.

    Attributes:
        clip: video, folder of images, URL, device or GStreamer pipeline.
        package: model package.
        rules: YAML file with a list of rules, alone or under `rules`.
        accept: licences of the package that are accepted beyond the permissive ones.
    """

    clip: str | None = None
    package: Path | None = None
    rules: Path | None = None
    accept: tuple[str, ...] = ()


def compose(wishes: Wishes, directory: Path, folder: Path, pacing: str | None = None) -> Path:
    """Writes `configuration.yaml` into `directory` and gives its path.

    Args:
        wishes: what differs from the demo.
        directory: where the file goes.
        folder: where relative paths that a person typed start.
        pacing: how the demo's own clips are played; a person's clip is not touched.

    Raises:
        ConfigError: the clip is no source, or the rules cannot be read.
    """
    data = read_document(DEMO.read_text(encoding="utf-8")).data
    (camera,) = data["cameras"].values()
    (model,) = data["models"].values()
    model["package"] = str(wishes.package or (HERE / model["package"]).resolve())
    if wishes.accept:
        model["accept_licences"] = list(wishes.accept)
    if wishes.clip:
        name, camera["source"] = _source(wishes.clip, directory, folder)
        data["cameras"] = {name: camera}
        data["device"]["name"] = "demo"
        del camera["data_class"]  # nobody has said what it sees: unknown, which is handled as restricted
    else:
        for clip in camera["source"]["clips"]:
            clip["path"] = str((HERE / clip["path"]).resolve())
        if pacing is not None:
            camera["source"]["pacing"] = pacing
    if wishes.rules is not None:
        camera["rules"] = read_rules(wishes.rules)
    elif wishes.clip or wishes.package:
        camera["rules"] = ANY_OBJECT
    path = directory / "configuration.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def _source(clip: str, directory: Path, folder: Path) -> tuple[str, dict[str, Any]]:
    answer = guess_source(clip, folder)
    if answer.holds_secret:
        hidden = directory / HIDDEN_SOURCE
        hidden.touch(mode=0o600)
        hidden.write_text(answer.value, encoding="utf-8")
        return answer.name, answer.fields(f"${{file:{HIDDEN_SOURCE}}}")
    if answer.key == "path":
        return answer.name, answer.fields(str((folder / answer.value).resolve()).replace("${", "$${"))
    return answer.name, answer.fields(answer.value.replace("${", "$${"))


def read_rules(path: Path) -> list[Any]:
    """The rules in a YAML file: a list, or a mapping with `rules`.

    Raises:
        ConfigError: there is no such file, or it holds neither.
    """
    try:
        found = read_document(path.read_text(encoding="utf-8")).data  # where `on` is a word and not true
    except OSError as error:
        raise ConfigError(f"{path}: the rules cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: the rules are not text in UTF-8") from error
    except Unreadable as error:
        line = f":{error.problem.line}" if error.problem.line else ""
        raise ConfigError(f"{path}{line}: {error.problem.text}") from error
    rules = found.get("rules") if isinstance(found, dict) else found
    if not isinstance(rules, list) or not rules:
        raise ConfigError(f"{path}: needs a list of rules, alone or under `rules:`")
    return rules
