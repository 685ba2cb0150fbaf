"""The states of an assignment on the device: what may follow, how long each may last, what a restart comes to.

A state is re-entered after any restart, power cut or kill: what has to be done follows from the state and from what
is seen, never from what this process remembers. `after_restart` says what that comes to.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.protocol.update import UpdateCode, UpdateState
from edge_runtime.updates.machine.work import Work

_S = UpdateState
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000

MOST_STARTS = 12
"""Of this process in a row, that find one state unfinished; more, and it is what the process dies of."""

SETTLED_MS = 10 * _MINUTE_MS
"""A process that has run for so long does not die of what it works at."""

MOST_LOSSES = 3
"""Candidates of one assignment that go down with perception's process before it counts as their doing."""

ALONE_MS = 10 * _MINUTE_MS
"""So long what is in use has to stay without a candidate once it has crashed beside one: `store.starting` counts
shorter starts against it."""

MOST_MOVES = 400
"""Changes of state of one assignment; Mender's bound against loops, with room for a robot that often moves."""

CONFIRMED_MS = _MINUTE_MS
"""How long an end waits for perception to run what it should."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each state may last, in milliseconds.

    Attributes:
        download: of `DOWNLOADING`, all tries together.
        prepare: of `VERIFIED`: loading, and building an engine.
        wait: of `WAITING`, for a window, a lock, or a robot that moves.
        activate: of `ACTIVATING`.
        margin: added to what a release's terms allow.
    """

    download: int = _DAY_MS
    prepare: int = 6 * _HOUR_MS
    wait: int = 14 * _DAY_MS
    activate: int = 5 * _MINUTE_MS
    margin: int = 10 * _MINUTE_MS


@dataclass(frozen=True, slots=True)
class StateRule:
    """One row.

    Attributes:
        onward: what may follow.
        overdue: how it ends when its time is over; None where its end is bounded otherwise.
        atomic: nothing newer interrupts it.
        after_restart: what a restart in it comes to.
    """

    onward: frozenset[UpdateState]
    overdue: tuple[UpdateState, UpdateCode] | None
    atomic: bool
    after_restart: str


_GIVEN_UP = frozenset({_S.REFUSED, _S.SUPERSEDED, _S.WITHDRAWN})
_NO_LONGER = (_S.REFUSED, UpdateCode.DEADLINE)

TABLE: Mapping[UpdateState, StateRule] = {
    _S.ACCEPTED: StateRule(
        frozenset({_S.DOWNLOADING, _S.HEALTHY}) | _GIVEN_UP,
        None,
        atomic=False,
        after_restart="begins anew; nothing was done",
    ),
    _S.DOWNLOADING: StateRule(
        frozenset({_S.VERIFIED}) | _GIVEN_UP,
        (_S.REFUSED, UpdateCode.DOWNLOAD_DEADLINE),
        atomic=False,
        after_restart="goes on with the parts that are there",
    ),
    _S.VERIFIED: StateRule(
        frozenset({_S.STAGED}) | _GIVEN_UP,
        _NO_LONGER,
        atomic=False,
        after_restart="is loaded anew where perception has lost it",
    ),
    _S.STAGED: StateRule(
        frozenset({_S.VERIFIED, _S.WAITING, _S.ACTIVATING}) | _GIVEN_UP,
        _NO_LONGER,
        atomic=False,
        after_restart="goes on beside the one in use; loaded anew where perception has lost it",
    ),
    _S.WAITING: StateRule(
        frozenset({_S.VERIFIED, _S.ACTIVATING}) | _GIVEN_UP,
        _NO_LONGER,
        atomic=False,
        after_restart="waits on; loaded anew when nothing stands in its way",
    ),
    _S.ACTIVATING: StateRule(
        frozenset({_S.PROBATION, _S.REVERTED}),
        (_S.REVERTED, UpdateCode.ACTIVATION),
        atomic=True,
        after_restart="asks perception again; perception that was started anew has it in use or has given it up",
    ),
    _S.PROBATION: StateRule(
        frozenset({_S.HEALTHY, _S.REVERTED, _S.SUPERSEDED}),
        (_S.REVERTED, UpdateCode.PROBATION_NO_DATA),
        atomic=False,
        after_restart="goes on, its time in use counted by perception; perception alone that began anew is a crash",
    ),
    **{
        state: StateRule(
            frozenset(),
            None,
            atomic=True,
            after_restart="is brought to its end: the slot's files, perception, the one report",
        )
        for state in (_S.HEALTHY, _S.REVERTED, _S.REFUSED, _S.SUPERSEDED, _S.WITHDRAWN)
    },
}


BY_THE_CALENDAR = frozenset({_S.DOWNLOADING, _S.WAITING})
"""States whose time goes on while the device is off; of the others only the time that it runs counts."""


def deadline_ms(work: Work, deadlines: Deadlines) -> int | None:
    """How long the present state of a work may last; None where nothing bounds it but its own end."""
    shadow_s = 0 if work.terms is None else work.terms.shadow.max_seconds
    probation_s = 0 if work.terms is None else work.terms.probation.max_seconds
    return {
        _S.DOWNLOADING: deadlines.download,
        _S.VERIFIED: deadlines.prepare,
        _S.STAGED: shadow_s * 1000 + deadlines.margin,
        _S.WAITING: deadlines.wait,
        _S.ACTIVATING: deadlines.activate,
        _S.PROBATION: probation_s * 1000 + deadlines.margin,
    }.get(work.state)
