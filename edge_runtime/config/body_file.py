"""Files about the body that a configuration names: its profile, and the settings of its motion gate."""

from pathlib import Path
from typing import Any

from edge_runtime.config.regular_file import open_regular
from edge_runtime.document import Unreadable, read_document
from edge_runtime.errors import ConfigError

MAX_FILE_BYTES = 256 * 1024


def read_body_file(path: Path) -> Any:
    """What a YAML or JSON file says, as plain data.

    Raises:
        ConfigError: it cannot be read, is longer than 256 KiB, or is neither.
    """
    try:
        with open_regular(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_FILE_BYTES // 1024} KiB")
    try:
        document = read_document(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    except Unreadable as error:
        raise ConfigError(f"{path}: {_located(error.problem.line, error.problem.text)}") from None
    if document.problems:
        first = document.problems[0]
        raise ConfigError(f"{path}: {_located(first.line, first.text)}")
    return document.data


def _located(line: int | None, text: str) -> str:
    return text if line is None else f"line {line}: {text}"
