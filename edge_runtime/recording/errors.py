"""What can be wrong with a recording."""

from edge_runtime.errors import ConfigError, EdgeRuntimeError


class RecordingError(EdgeRuntimeError):
    """A recording cannot be written or read; one sentence says why."""


class OtherRecording(ConfigError):
    """A recording of another configuration or another model than what is to replay it."""
