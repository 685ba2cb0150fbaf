"""`${env:NAME}` and `${file:PATH}`: secrets stay out of the configuration file, its digest, logs and errors."""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from edge_runtime.config.regular_file import NotRegularError, open_regular
from edge_runtime.document import Location, visible
from edge_runtime.telemetry import MASK, redact_patterns, register_secret, split_user_information

MAX_SECRET_BYTES = 64 * 1024

_REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)(\}?)")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_NOT_SECRET = frozenset(
    {
        "name",
        "kind",
        "path",
        "package",
        "directory",
        "file",
        "device",
        "model",
        "labels",
        "input_format",
        "state",
        "policy",
    }
)
"""Fields that never hold a secret: hiding a camera's name or a path in every log would hide too much."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The data of a file with its references replaced.

    Attributes:
        data: as before, with values in place of references.
        secret: locations whose values came from references.
        problems: references that cannot be resolved.
        warnings: secret files that others can read.
    """

    data: Any
    secret: frozenset[Location]
    problems: tuple[tuple[Location, str], ...]
    warnings: tuple[tuple[Location, str], ...]


def resolve_references(data: Any, base: Path, environment: Mapping[str, str] | None = None) -> Resolved:
    """Replace every reference in the string values of `data`.

    The values are registered with the redaction of logs, except those of fields that never hold a secret.
    `$${` stands for a literal `${`.

    Args:
        data: plain data of a configuration file.
        base: folder that relative secret paths start from.
        environment: variables; the process's own when None.
    """
    resolver = _Resolver(base, os.environ if environment is None else environment)
    resolved = resolver.walk(data, ())
    return Resolved(resolved, frozenset(resolver.secret), tuple(resolver.problems), tuple(resolver.warnings))


def without_references(text: str) -> str:
    """`text` with nothing where it refers to a secret: what is left stands in the file itself."""
    return _REFERENCE.sub(lambda match: match.group(0) if match.group(1) else "", text)


class _Resolver:
    def __init__(self, base: Path, environment: Mapping[str, str]) -> None:
        self._base, self._environment = base, environment
        self.secret: set[Location] = set()
        self.problems: list[tuple[Location, str]] = []
        self.warnings: list[tuple[Location, str]] = []

    def walk(self, value: Any, at: Location) -> Any:
        if isinstance(value, dict):
            return {key: self.walk(item, (*at, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.walk(item, (*at, index)) for index, item in enumerate(value)]
        if isinstance(value, str):
            return self._text(value, at)
        return value

    def _text(self, text: str, at: Location) -> str:
        field = next((step for step in reversed(at) if isinstance(step, str)), "")
        if "${" in text:
            text = _REFERENCE.sub(lambda match: self._replace(match, at, public=field in _NOT_SECRET), text)
        if field == "password" and text:
            register_secret(text)
        elif field in ("url", "proxy"):
            _register_user_information(text)
        return text

    def _replace(self, match: re.Match[str], at: Location, *, public: bool) -> str:
        escaped, inner, closed = match.groups()
        if escaped:
            return match.group(0)[1:]
        if not closed:
            self._problem(at, "a ${ without its }; write $${ for a literal one")
            return match.group(0)
        source, _, name = inner.partition(":")
        value: str | None = None
        if source == "env" and _ENV_NAME.fullmatch(name):
            value = self._from_environment(name, at)
        elif source == "file" and name:
            value = self._from_file(name, at)
        else:
            self._problem(at, f"${{{visible(inner)}}} is no reference; write ${{env:NAME}} or ${{file:PATH}}")
        if value is None:
            return match.group(0)
        self.secret.add(at)
        if not public and "://" not in value:  # of a whole URL only the user information is secret
            register_secret(value)
        return value

    def _from_environment(self, name: str, at: Location) -> str | None:
        value = self._environment.get(name)
        if not value:
            state = "is not set" if value is None else "is empty"
            self._problem(at, f"the environment variable {name} {state}")
            return None
        return value

    def _from_file(self, name: str, at: Location) -> str | None:
        path = self._base / Path(name).expanduser()
        try:
            with open_regular(path) as file:
                mode = os.fstat(file.fileno()).st_mode
                raw = file.read(MAX_SECRET_BYTES + 1)
            text = raw.decode()
        except NotRegularError as error:
            self._problem(at, f"the secret file {visible(name)} is {error.kind}; name a file")
            return None
        except OSError as error:
            self._problem(at, f"the secret file {visible(name)} cannot be read: {error.strerror or error}")
            return None
        except (UnicodeDecodeError, ValueError, RuntimeError):
            self._problem(at, f"the secret file {visible(name)} is not UTF-8 text")
            return None
        if len(raw) > MAX_SECRET_BYTES:
            self._problem(at, f"the secret file {visible(name)} is larger than {MAX_SECRET_BYTES} bytes")
            return None
        if mode & stat.S_IROTH:
            self._warn(
                at, f"the secret file {visible(name)} can be read by every user; chmod 600 {visible(name)}"
            )
        text = text.removesuffix("\n").removesuffix("\r")
        if not text:
            self._problem(at, f"the secret file {visible(name)} is empty")
            return None
        return text

    def _problem(self, at: Location, text: str) -> None:
        self.problems.append((at, text))

    def _warn(self, at: Location, text: str) -> None:
        self.warnings.append((at, text))


def _register_user_information(url: str) -> None:
    """A password that stands in a URL is a secret, as it is written there and as it is decoded."""
    password = split_user_information(url).password
    if password:
        register_secret(password)
        register_secret(unquote(password))


def without_secrets(data: Any, field: str = "") -> Any:
    """`data` with passwords and credentials in URLs masked, so that no digest depends on or reveals them."""
    if isinstance(data, Mapping):
        return {key: without_secrets(value, key) for key, value in data.items()}
    if isinstance(data, list):
        return [without_secrets(item, field) for item in data]
    if isinstance(data, str):
        return MASK if field == "password" and "${" not in data else redact_patterns(data)
    return MASK if field == "password" and data is not None else data
