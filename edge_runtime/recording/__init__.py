"""Recordings of a device's inputs: bounded, readable after any crash, without credentials.

`RecordingWriter` writes a part, `CameraRecorder` and `RoundRecorder` look on at what is recorded, `open_recording`
reads. What is done with a recording is the room `replay`.
"""

from edge_runtime.recording.cameras import CameraRecorder, sight_facts
from edge_runtime.recording.errors import OtherRecording, RecordingError
from edge_runtime.recording.head import CameraFacts, ConfigFacts, Head, SightFacts, Stream, WhenFull
from edge_runtime.recording.reader import Part, Standing, open_recording
from edge_runtime.recording.rounds import RoundRecorder
from edge_runtime.recording.writer import Ending, RecordingWriter

__all__ = [
    "CameraFacts",
    "CameraRecorder",
    "ConfigFacts",
    "Ending",
    "Head",
    "OtherRecording",
    "Part",
    "RecordingError",
    "RecordingWriter",
    "RoundRecorder",
    "SightFacts",
    "Standing",
    "Stream",
    "WhenFull",
    "open_recording",
    "sight_facts",
]
