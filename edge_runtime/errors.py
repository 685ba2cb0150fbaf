"""Typed errors: each says in one sentence what is wrong and what to do next.

The command line prints `str(error)` on stderr and leaves with `exit_code`; nothing else may reach the user
as a traceback. Exit codes are listed in docs/cli.md: 0 done, 1 failed or refused, 2 usage or configuration.
"""


def first_line(said: object) -> str:
    """What a library said, for a sentence of one line: its first 300 characters, or else its type's name."""
    text = str(said).strip()
    return text.splitlines()[0][:300] if text else type(said).__name__


class EdgeRuntimeError(Exception):
    """Base of all errors that this project raises on purpose."""

    exit_code = 1


class ConfigError(EdgeRuntimeError):
    """The configuration or the command line cannot be used as written."""

    exit_code = 2


class PackageError(EdgeRuntimeError):
    """A model package, or a file offered as a model, is refused."""


class SourceError(EdgeRuntimeError):
    """A camera or a file cannot be opened or read; the text never contains credentials."""


class BackendError(EdgeRuntimeError):
    """An inference backend cannot load or run a model as asked."""


class ImageError(EdgeRuntimeError):
    """An image cannot be given to a model: gray, empty, not 8-bit, or its file cannot be read."""


class DecodeError(EdgeRuntimeError):
    """A model's outputs do not have the layout that its manifest declares."""


class MissingDependency(EdgeRuntimeError):
    """An optional part is not installed; the text names the extra that brings it."""

    exit_code = 2


class AnnotationError(EdgeRuntimeError):
    """An annotated video or a contact sheet cannot be written; what it shows is not affected."""
