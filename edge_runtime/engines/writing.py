"""Writing an engine so that a power cut, a kill or a full disk leaves the old one, the new one, or none."""

import secrets

from edge_runtime.durable import NO_ROOM, sync_directory
from edge_runtime.engines.errors import StoreFull
from edge_runtime.engines.folder import StoreFolder
from edge_runtime.engines.records import PART, remove_folder, remove_whatever, write_whole


def write_engine(folder: StoreFolder, key: str, engine: bytes, manifest: bytes) -> None:
    """Put an engine and its manifest in place; the caller holds the store's lock.

    All that may meet a full disk is done under other names first; from then on only names change. The old manifest
    goes before the old engine is replaced, and the new one comes last, so none ever stands beside another's engine.

    Raises:
        StoreFull: the disk has no room; what was there before still is.
        OSError: the directory cannot be written.
    """
    ending = f"{PART}{secrets.token_hex(4)}"
    engine_path, manifest_path = folder.engine(key), folder.manifest(key)
    staged_engine = engine_path.with_name(engine_path.name + ending)
    staged_manifest = manifest_path.with_name(manifest_path.name + ending)
    try:
        write_whole(staged_engine, engine)
        write_whole(staged_manifest, manifest)
        remove_whatever(manifest_path)
        sync_directory(folder.path)
        remove_folder(engine_path)
        staged_engine.replace(engine_path)
        sync_directory(folder.path)
        staged_manifest.replace(manifest_path)
        sync_directory(folder.path)
    except OSError as error:
        for path in (staged_engine, staged_manifest):
            path.unlink(missing_ok=True)
        if error.errno not in NO_ROOM:
            raise
        raise StoreFull(
            f"the engine of {mib(len(engine))} cannot be kept: {error.strerror} ({folder.path}); "
            "make room on this disk, or remove engines with `edge-runtime engine prune`"
        ) from None


def remove_engine(folder: StoreFolder, key: str) -> None:
    """Remove an engine, its manifest first; the caller holds the store's lock.

    Raises:
        OSError: it cannot be removed.
    """
    remove_whatever(folder.manifest(key))
    remove_whatever(folder.engine(key))
    sync_directory(folder.path)


def mib(size: int) -> str:
    """A size for sentences."""
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{-(-size >> 10)} KiB"
