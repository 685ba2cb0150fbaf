"""Plugin libraries: layers that TensorRT does not have, as native code that is taken into this process.

Such a library may do whatever this process may. So it is only loaded when it is the file that somebody named, byte
for byte, and when nobody but its owner could have put another in its place between the look and the loading.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.durable import sha256_file
from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.tensorrt.log import EngineLog, quoted


class PluginRefused(BackendError):
    """A plugin library is not the one that was named, is not safe where it lies, or TensorRT does not take it."""


@dataclass(frozen=True, slots=True)
class PluginLibrary:
    """One library.

    Attributes:
        path: absolute; a link is followed.
        sha256: that its bytes must have, in lower-case hexadecimal.
    """

    path: Path
    sha256: str

    def verified(self) -> Path:
        """Where the file lies, without links, after it was found to be the one that was named.

        Raises:
            PluginRefused: it is another one, others may write it or a folder above it, or it cannot be read.
        """
        try:
            path = self.path.resolve(strict=True)
            facts = path.stat()
            if not stat.S_ISREG(facts.st_mode):  # a pipe or a device would be read for ever
                raise PluginRefused(f"the plugin library {self.path} is not a regular file")
            for place in (path, *path.parents):
                _require_safe(place)
            digest = sha256_file(path)
        except (OSError, RuntimeError, ValueError) as error:
            # RuntimeError: links in a circle, before Python 3.13
            why = getattr(error, "strerror", None) or str(error)
            raise PluginRefused(f"the plugin library {self.path} cannot be read: {why}") from error
        if digest != self.sha256:
            raise PluginRefused(
                f"the plugin library {self.path} was changed: it has SHA-256 {digest[:16]}…, and "
                f"{self.sha256[:16]}… was named; put that library back, or name this one"
            )
        return path


def plugin_digests(libraries: Iterable[PluginLibrary]) -> dict[str, str]:
    """SHA-256 by file name, as the key of an engine has it.

    Raises:
        PluginRefused: two have one name.
    """
    found: dict[str, str] = {}
    for library in libraries:
        if library.path.name in found:
            raise PluginRefused(
                f"two plugin libraries are called {library.path.name}: name it once, or rename one"
            )
        found[library.path.name] = library.sha256
    return found


def chosen(wanted: Mapping[str, str], offered: Iterable[PluginLibrary]) -> tuple[PluginLibrary, ...]:
    """Those of the offered libraries that an engine was built with.

    Args:
        wanted: SHA-256 by file name, of the engine's recipe.
        offered: what somebody named.

    Raises:
        PluginRefused: one is not among them.
    """
    by_digest = {library.sha256: library for library in offered}
    if missing := [name for name, digest in wanted.items() if digest not in by_digest]:
        raise PluginRefused(
            f"it needs the plugin library {missing[0]} (SHA-256 {wanted[missing[0]][:16]}…): name it with --plugin"
        )
    return tuple(by_digest[digest] for digest in wanted.values())


def load_plugins(owner: Any, libraries: Iterable[PluginLibrary], log: EngineLog) -> None:
    """Load libraries into the registry of a `tensorrt.Builder` or `tensorrt.Runtime`, which ends with it.

    They are loaded in the order of their names, as the key of an engine has them: where two bring a layer of one
    name, TensorRT takes the first.

    Raises:
        PluginRefused: one is not the library that was named, or TensorRT does not take it.
    """
    for library in sorted(libraries, key=lambda one: one.path.name):
        path, mark = library.verified(), log.mark()
        if owner.get_plugin_registry().load_library(str(path)) is None:
            raise PluginRefused(
                f"TensorRT does not load the plugin library {library.path}: it must export getCreators or "
                f"getPluginCreators, and what it is linked to must be there; {quoted(log.since(mark))}"
            )


def _require_safe(place: Path) -> None:
    """Only root and this user may change it; in a folder like /tmp each may change what is theirs alone."""
    facts = place.stat()
    kept_apart = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not kept_apart:
        raise PluginRefused(
            f"{place} may be written by others than its owner, so a plugin library there is not loaded: "
            f"`chmod go-w {place}`"
        )
    if facts.st_uid not in (0, os.geteuid()):
        raise PluginRefused(
            f"{place} belongs to neither root nor this user, so a plugin library there is not loaded: "
            f"`chown root {place}`"
        )
