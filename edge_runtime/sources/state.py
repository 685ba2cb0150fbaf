"""What a source is doing, as a pure table: every state answers every signal.

A camera that never connects must neither hang the process nor hide (roboflow/inference #685, #907): starting
has a deadline, and `STOP` has an answer in every state.
"""

from enum import Enum
from types import MappingProxyType


class SourceState(str, Enum):
    """Where a source stands.

    Attributes:
        STARTING: the first attempt to open it is under way; no frame yet.
        RUNNING: frames arrive.
        STALLED: open, but silent or repeating itself for longer than it may; about to be torn down.
        RECONNECTING: torn down; waiting for, or in, another attempt.
        ENDED: a recording is over, or `stop` was called. Final.
        FAILED: given up, or refused for a reason that trying again cannot change. Final.
    """

    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    RECONNECTING = "reconnecting"
    ENDED = "ended"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether nothing can follow."""
        return self in (SourceState.ENDED, SourceState.FAILED)


class SourceSignal(str, Enum):
    """What happens to a source.

    Attributes:
        FRAME: a frame was decoded.
        SILENCE: the deadline for the next frame, or for the first one, has passed.
        LOST: opening or reading failed in a way that may pass.
        EXHAUSTED: a recording has no more frames.
        REFUSED: opening failed in a way that cannot pass by itself.
        GIVE_UP: trying again has lasted as long as it may.
        STOP: the owner wants it to end.
    """

    FRAME = "frame"
    SILENCE = "silence"
    LOST = "lost"
    EXHAUSTED = "exhausted"
    REFUSED = "refused"
    GIVE_UP = "give_up"
    STOP = "stop"


_FROM_ANY_OPEN_STATE = {
    SourceSignal.FRAME: SourceState.RUNNING,
    SourceSignal.SILENCE: SourceState.STALLED,
    SourceSignal.LOST: SourceState.RECONNECTING,
    SourceSignal.EXHAUSTED: SourceState.ENDED,
    SourceSignal.REFUSED: SourceState.FAILED,
    SourceSignal.GIVE_UP: SourceState.FAILED,
    SourceSignal.STOP: SourceState.ENDED,
}

TRANSITIONS = MappingProxyType(
    {
        **{
            (state, signal): target
            for state in SourceState
            if not state.final
            for signal, target in _FROM_ANY_OPEN_STATE.items()
        },
        # Already torn down: silence is expected there and must not look like an open, silent stream.
        (SourceState.RECONNECTING, SourceSignal.SILENCE): SourceState.RECONNECTING,
        # Final states stay, so that a failure's reason outlives the stop that follows it.
        **{(state, signal): state for state in SourceState if state.final for signal in SourceSignal},
    }
)


def step(state: SourceState, signal: SourceSignal) -> SourceState:
    """The state after `signal`; total over all states and signals."""
    return TRANSITIONS[state, signal]
