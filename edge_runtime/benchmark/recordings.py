"""What can be measured at all: one model, and cameras of which every frame is taken."""

from edge_runtime.config import LoadedConfig
from edge_runtime.errors import ConfigError
from edge_runtime.node.models import plays_every_frame


def only_model(loaded: LoadedConfig) -> str:
    """The name of the one model.

    Raises:
        ConfigError: several models, or a source that does not play every frame.
    """
    used = sorted({camera.model for camera in loaded.config.cameras.values()})
    if len(used) > 1:
        raise ConfigError(f"bench compares one model, this configuration uses {len(used)}: {', '.join(used)}")
    for name, camera in loaded.config.cameras.items():
        if not plays_every_frame(camera):
            raise ConfigError(
                f"cameras.{name}.source: bench needs a recording of which every frame is taken "
                "(kind file, images, playlist or synthetic, with pacing: every_frame)"
            )
    return used[0]
