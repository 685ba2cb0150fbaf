"""What can be said of a run before it begins: how long it is, and whether anything of it may leave the device."""

import os
from pathlib import Path

import av

from deploy.demo.compose import DEMO
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.config.source import FileSource, PlaylistSource


def hint(loaded: LoadedConfig, state: Path) -> str:
    """Why all of this camera is held and where to look at it; empty for the demo's own rules, which may leave.

    The configuration is made anew by every demo: to write something into it would help nobody.

    Args:
        loaded: the demo's configuration.
        state: the device's state directory.
    """
    ((name, camera),) = loaded.config.cameras.items()
    look = f"edge-runtime gate list --state {_short(state)}"
    if camera.data_class is None:
        return f"unlabelled, so held: {look}"
    own = load_config(DEMO).config.cameras
    rules = {rule.name for known in own.values() for rule in known.rules}
    if name in own and any(rule.name in rules for rule in camera.rules):
        return ""
    return f"without a permit, so held: {look}"


def _short(path: Path) -> str:
    """The path from here, where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


def length(loaded: LoadedConfig, max_frames: int | None) -> int | None:
    """Frames of the whole run; None where nobody can say."""
    (camera,) = loaded.config.cameras.values()
    source = camera.source
    if isinstance(source, PlaylistSource):
        paths = [loaded.resolve(clip.path) for clip in source.clips]
    elif isinstance(source, FileSource):
        paths = [loaded.resolve(source.path)]
    else:
        return max_frames
    total = 0
    for path in paths:
        try:
            with av.open(str(path)) as container:
                frames = container.streams.video[0].frames
        except (av.FFmpegError, IndexError):
            return max_frames
        if not frames:
            return max_frames
        total += frames
    return min(total, max_frames) if max_frames else total
