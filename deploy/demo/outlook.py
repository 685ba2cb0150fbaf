"""What can be said of a run before it begins: how long it is, and whether anything of it may leave the device."""

import av

from deploy.demo.compose import DEMO
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.config.source import FileSource, PlaylistSource


def hint(loaded: LoadedConfig) -> str:
    """What to write so that something of this camera may leave; empty for the demo's own rules, which may."""
    ((name, camera),) = loaded.config.cameras.items()
    if camera.data_class is None:
        return f"all is held; write data_class under cameras.{name}, and a permit"
    own = load_config(DEMO).config.cameras
    rules = {rule.name for known in own.values() for rule in known.rules}
    if name in own and any(rule.name in rules for rule in camera.rules):
        return ""
    return "all is held; write a permit for these rules"


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
