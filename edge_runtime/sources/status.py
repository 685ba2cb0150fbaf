"""What a source says about itself; frozen, and free of credentials."""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.sources.reader import StreamFacts
from edge_runtime.sources.state import SourceState


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One look at a source.

    Attributes:
        state: what it is doing.
        epoch, sequence: of the newest frame; 0 before the first.
        reconnects: connections after the first that delivered a frame.
        attempts: attempts to open it, the first included.
        decoded: frames decoded since the start.
        damaged: frames among them of which the decoder guessed parts.
        drops: frames and packets that were not given to the consumer, by `DropCause`.
        last_capture_ns: of the newest frame; None before the first.
        error: one sentence on why it does not run, or why a recording ended early; None while all is well.
        dark: the newest frame carries no usable picture.
        frozen: the newest frames are identical for longer than allowed.
        abandoned: `stop` ran out of time while a library call did not return; the thread ends when it does.
        stream: facts about the open stream; None before the first connection.
    """

    state: SourceState
    epoch: int
    sequence: int
    reconnects: int
    attempts: int
    decoded: int
    damaged: int
    drops: Mapping[str, int]
    last_capture_ns: int | None
    error: str | None
    dark: bool
    frozen: bool
    abandoned: bool
    stream: StreamFacts | None
