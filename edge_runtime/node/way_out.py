"""Whether events of this device reach the fleet server now, and in one sentence why they do not."""

from dataclasses import dataclass
from enum import Enum

from edge_runtime.clock import NS_PER_MS, Clock, WallLabel
from edge_runtime.identity import Identity, IdentityError
from edge_runtime.node.line_board import LineRecord, read_line
from edge_runtime.node.workers import WorkerStatus
from edge_runtime.state import StateDirectory

NOT_YET = "not connected yet"
"""What the uplink says before its first attempt has an outcome."""

NOT_ENROLLED = "not enrolled, nothing is sent: edge-runtime enrol --server URL --token @FILE"


class WayState(str, Enum):
    """Whether delivery goes on.

    Attributes:
        CONNECTED: the server answers.
        CONNECTING: the uplink has not been able to tell yet: it starts, or its first attempt is under way.
        CUT_OFF: the device is a member of a fleet, and nothing is delivered.
        NOT_ENROLLED: no fleet server knows this device.
    """

    CONNECTED = "connected"
    CONNECTING = "connecting"
    CUT_OFF = "cut_off"
    NOT_ENROLLED = "not_enrolled"


@dataclass(frozen=True, slots=True)
class WayOut:
    """How delivery to the server stands.

    Attributes:
        state: see there.
        why: one sentence where nothing is delivered, or where that is soon to be; None where all is well.
        connected: wall label of the last time that the server answered; None for never.
    """

    state: WayState
    why: str | None = None
    connected: str | None = None


def look(state: StateDirectory, uplink: WorkerStatus | None, clock: Clock) -> WayOut:
    """How delivery of a state directory stands.

    Args:
        state: of the device.
        uplink: its process.
        clock: says whether the certificate has ended.
    """
    try:
        identity = Identity.load(state)
    except IdentityError as error:
        return WayOut(WayState.CUT_OFF, str(error))
    ends_ms = None if identity is None else identity.not_after_ms
    return judge(ends_ms, read_line(state), uplink, clock.wall())


def judge(
    not_after_ms: int | None, line: LineRecord | None, uplink: WorkerStatus | None, wall: WallLabel
) -> WayOut:
    """The same of plain values.

    Args:
        not_after_ms: when the device's certificate ends, milliseconds since 1970; None where it is not enrolled.
        line: what an uplink last said.
        uplink: its process.
        wall: now.
    """
    if not_after_ms is None:
        return WayOut(WayState.NOT_ENROLLED, NOT_ENROLLED)
    connected = None if line is None else line.connected
    present = line if line is not None and uplink is not None and line.pid == uplink.pid else None
    if present is not None and present.online:
        return WayOut(WayState.CONNECTED, present.renewal, connected)
    if not _has_ended(not_after_ms, wall) and _begins(present, uplink):
        return WayOut(WayState.CONNECTING, NOT_YET, connected)
    last = "the server never answered this device" if connected is None else f"it last answered {connected}"
    return WayOut(WayState.CUT_OFF, f"{_why(not_after_ms, present, uplink, wall)}; {last}", connected)


def _has_ended(not_after_ms: int, wall: WallLabel) -> bool:
    """Whether the certificate has: a clock that nobody set cannot say."""
    return wall.synced and not_after_ms < wall.unix_ns // NS_PER_MS


def _begins(line: LineRecord | None, uplink: WorkerStatus | None) -> bool:
    """Whether the uplink's first attempt has no outcome yet."""
    if line is not None:
        return line.why == NOT_YET
    return uplink is None or not _failed(uplink)


def _why(not_after_ms: int, line: LineRecord | None, uplink: WorkerStatus | None, wall: WallLabel) -> str:
    if _has_ended(not_after_ms, wall):
        renewal = "" if line is None or line.renewal is None else f" ({line.renewal})"
        return f"the device's certificate has expired{renewal}"
    if line is not None and line.renewal is not None:
        return f"{line.why}; {line.renewal}"
    if line is not None and line.why is not None:
        return line.why
    if uplink is not None and _failed(uplink):
        return f"the uplink does not run: it ended with {uplink.last_exit}, and its reason is in the log"
    return "the uplink says nothing"


def _failed(uplink: WorkerStatus) -> bool:
    """Whether it ended and waits for its next start."""
    return not uplink.runs and uplink.last_exit is not None
