"""Reading a stored engine: manifest, recipe field by field, size, SHA-256, and only then its bytes."""

import errno
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_runtime.engines.errors import EngineDamaged, EngineMismatch, StoreUnusable
from edge_runtime.engines.folder import StoreFolder
from edge_runtime.engines.manifest import (
    MAX_MANIFEST_BYTES,
    EngineManifest,
    decode_manifest,
    require_untouched,
)
from edge_runtime.engines.recipe import EngineRecipe, differences
from edge_runtime.engines.records import read_whole

MAX_ENGINE_BYTES: Final = 4 << 30

_NOT_THE_FILE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
"""Errors that say something about the process or the machine, and nothing about the file."""

_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class StoredEngine:
    """An engine whose bytes are the ones that were built.

    Attributes:
        engine: for TensorRT to deserialise.
        manifest: what it was built for.
    """

    engine: bytes
    manifest: EngineManifest


def load(folder: StoreFolder, key: str, recipe: EngineRecipe | None = None) -> StoredEngine | None:
    """The engine of a key, verified; None where there is none.

    Args:
        folder: of the store.
        key: its name.
        recipe: that it must have been built for; None compares with the name alone.

    Raises:
        EngineMismatch: it was built for something else.
        EngineDamaged: it is not what was written.
        EngineNewer: a newer release wrote it.
        StoreUnusable: the directory or the system does not let it be read.
    """
    found = _manifest(folder, key)
    if found is None:
        return None
    manifest, data = found
    name = folder.manifest(key).name
    if recipe is not None:
        _require_same(recipe, manifest.recipe, key)
    elif manifest.recipe.key != key:
        raise EngineDamaged(
            f"{name} describes the engine {manifest.recipe.key[:12]}: it was copied or renamed"
        )
    require_untouched(manifest, data, name)
    return StoredEngine(_engine(folder, key, manifest), manifest)


def read_manifest(folder: StoreFolder, key: str) -> EngineManifest | None:
    """The manifest of a key, as it was written for it; None where there is none. The engine is not read.

    Raises:
        EngineDamaged: it is not what was written, or belongs to another engine.
        EngineNewer: a newer release wrote it.
        StoreUnusable: the directory or the system does not let it be read.
    """
    found = _manifest(folder, key)
    if found is None:
        return None
    manifest, data = found
    name = folder.manifest(key).name
    if manifest.recipe.key != key:
        raise EngineDamaged(
            f"{name} describes the engine {manifest.recipe.key[:12]}: it was copied or renamed"
        )
    require_untouched(manifest, data, name)
    return manifest


def _manifest(folder: StoreFolder, key: str) -> tuple[EngineManifest, bytes] | None:
    path = folder.manifest(key)
    data = _read(folder, path, MAX_MANIFEST_BYTES)
    return None if data is None else (decode_manifest(data, path.name), data)


def _engine(folder: StoreFolder, key: str, manifest: EngineManifest) -> bytes:
    path = folder.engine(key)
    size = manifest.engine_bytes
    if size > MAX_ENGINE_BYTES:
        raise EngineDamaged(f"{path.name} is said to have {size} bytes: no engine is that large")
    engine = _read(folder, path, size)
    if engine is None:
        raise EngineDamaged(f"{path.name} is missing beside its manifest")
    if len(engine) != size:
        raise EngineDamaged(f"{path.name} has {len(engine)} bytes, its manifest says {size}: it was cut off")
    digest = hashlib.sha256(engine).hexdigest()
    if digest != manifest.engine_sha256:
        raise EngineDamaged(
            f"{path.name} has SHA-256 {digest[:16]}…, its manifest says {manifest.engine_sha256[:16]}…: "
            "its bytes were changed"
        )
    return engine


def _read(folder: StoreFolder, path: Path, largest: int) -> bytes | None:
    try:
        path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnusable(folder.sentence(error)) from None
    try:
        return read_whole(path, largest)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NOT_THE_FILE:
            raise StoreUnusable(folder.sentence(error)) from None
        raise EngineDamaged(f"{path.name} cannot be read: {error.strerror}") from None


def _require_same(wanted: EngineRecipe, found: EngineRecipe, key: str) -> None:
    differing = differences(wanted, found)
    if not differing:
        return
    told = "; ".join(str(one) for one in differing[:_MOST_NAMED])
    if len(differing) > _MOST_NAMED:
        told += f"; and {len(differing) - _MOST_NAMED} more"
    first = differing[0]
    raise EngineMismatch(
        first.field,
        first.wanted,
        first.found,
        text=f"engine {key[:12]}: {told}",
        fields=[one.field for one in differing],
    )
