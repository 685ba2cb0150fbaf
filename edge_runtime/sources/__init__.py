"""Cameras and files become frames: newest first and never too old, or every one in order; always stamped.

`open_source` makes a runner from a configuration; the runner's thread opens, decodes, masks, stamps and
reconnects; the consumer polls.
"""

from edge_runtime.sources.factory import Through, open_source
from edge_runtime.sources.frame import Frame, Image
from edge_runtime.sources.mailbox import DropCause
from edge_runtime.sources.reader import StreamFacts
from edge_runtime.sources.runner import SourceRunner
from edge_runtime.sources.state import SourceState
from edge_runtime.sources.status import SourceStatus

__all__ = [
    "DropCause",
    "Frame",
    "Image",
    "SourceRunner",
    "SourceState",
    "SourceStatus",
    "StreamFacts",
    "Through",
    "open_source",
]
