"""The engine: looks at every rollout that is under way, and does what its numbers, its plan and the time say.

Everything is read from the database each time, and each transaction leaves a state from which the next step goes
on: the engine remembers nothing, and may be killed anywhere. What a look decides is decided again under the lock
before it is written, because an operator may have acted in between.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from edge_runtime.protocol.release import BUCKETS
from fleet_server.devices.states import RecordAct
from fleet_server.in_words import many
from fleet_server.releases.catalog import release_of_bundle
from fleet_server.rollouts.asking import has_candidates, offer, send_back
from fleet_server.rollouts.decision import Decision, Turn, decide
from fleet_server.rollouts.joining import join, joiners
from fleet_server.rollouts.loaded import (
    INSTALL,
    ROLLBACK,
    Count,
    Loaded,
    LoadedStage,
    counts_of,
    facts_of,
    load,
    stages_of,
    under_way,
)
from fleet_server.rollouts.pacing import allowance
from fleet_server.rollouts.records import StepReport
from fleet_server.rollouts.reports import drop_stale_facts, has_stale_facts
from fleet_server.rollouts.states import WORKING, MemberState, ReasonCode, RolloutState
from fleet_server.rollouts.sweeps import has_work, sweep_out, sweeps
from fleet_server.rollouts.turns import ENGINE, change_stage, turn, withdraw_live
from fleet_server.storage import Store
from fleet_server.storage.writing import ROLLOUT_LOCK, run, take_turn

AT_ONCE = 1000
"""Devices that one transaction asks: it takes a few hundred milliseconds, and others wait for it."""

_log = logging.getLogger("fleet_server.rollouts")
_HOUR_MS = 3_600_000
_RECENT_MS = 17 * 86_400_000
"""Longer than a device waits at most: what it is asked has an end, or its deadline is over."""
JOIN_EVERY_MS = 30_000
TIDY_EVERY_MS = 600_000
_DECIDES = frozenset({RolloutState.RUNNING, RolloutState.PAUSED, RolloutState.COMPLETED})


@dataclass(slots=True)
class _Work:
    """What one step did."""

    acts: list[str]
    offered: int = 0
    joined: int = 0


class Engine:
    """One step after another; two of them on one database do no harm, and one is enough.

    Args:
        store: the database.
        audit: writes down what it does.
        at_once: devices that one transaction asks.
    """

    def __init__(self, store: Store, audit: RecordAct, *, at_once: int = AT_ONCE) -> None:
        self._store, self._audit, self._at_once = store, audit, at_once
        self._joined_ms: int | None = None
        self._tidied_ms: int | None = None
        self._failing: set[int] = set()

    def step(self, now_ms: int) -> StepReport:
        """Look at every rollout once.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is away; the next step goes on.
        """
        work = _Work([])
        joins = self._joined_ms is None or not 0 <= now_ms - self._joined_ms < JOIN_EVERY_MS
        with self._store.read() as session:
            found = under_way(session.connection(), completed=joins)
        readable = [rollout for rollout in found if not self._set_aside(rollout, work, now_ms)]
        for rollout, has_joins in _with_joins(readable, now_ms, joins=joins):
            self._try_look(rollout, work, joins=has_joins, now_ms=now_ms)
        if joins:
            self._joined_ms = now_ms
        self._tidy(now_ms)
        return StepReport(acts=tuple(work.acts), offered=work.offered, joined=work.joined)

    def _try_look(self, seen: Loaded, work: _Work, *, joins: bool, now_ms: int) -> None:
        """Look at one rollout. A defect with it is said once, and stops none of the others."""
        try:
            self._look(seen, work, joins=joins, now_ms=now_ms)
            self._failing.discard(seen.number)
        except OperationalError:  # the database is away or busy
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, other rollouts have to go on
            if seen.number not in self._failing:
                self._failing.add(seen.number)
                work.acts.append(f"{seen.id} cannot go on: {type(error).__name__}")
                _log.error("rollout %s cannot go on", seen.id, exc_info=error)

    def _set_aside(self, seen: Loaded, work: _Work, now_ms: int) -> bool:
        """Pause a rollout that this build does not read, where that can be done; whether it is such a one."""
        text = seen.unreadable
        if text is None:
            return False
        if seen.state is RolloutState.RUNNING:
            with self._store.write() as session:
                take_turn(session.connection(), ROLLOUT_LOCK)
                rollout = load(session.connection(), seen.number)
                if rollout.state is RolloutState.RUNNING:
                    stop = Turn(RolloutState.PAUSED, ReasonCode.UNREADABLE, text)
                    self._turn(session, rollout, stop, work, now_ms)
        elif seen.number not in self._failing:
            self._failing.add(seen.number)
            work.acts.append(f"{seen.id} cannot go on: {text}")
            _log.error("%s", text)
        return True

    def _tidy(self, now_ms: int) -> None:
        """Now and then, forget what no device says of itself any more."""
        if self._tidied_ms is not None and 0 <= now_ms - self._tidied_ms < TIDY_EVERY_MS:
            return
        with self._store.read() as session:
            stale = has_stale_facts(session.connection())
        if stale:
            with self._store.write() as session:
                take_turn(session.connection(), ROLLOUT_LOCK)
                drop_stale_facts(session.connection())
        self._tidied_ms = now_ms

    def _look(self, seen: Loaded, work: _Work, *, joins: bool, now_ms: int) -> None:
        with self._store.read() as session:
            connection = session.connection()
            joins = joins and bool(joiners(connection, seen, stages_of(connection, seen.number)))
            needed = joins or _needed(connection, seen.number, now_ms)
        if needed:
            with self._store.write() as session:
                take_turn(session.connection(), ROLLOUT_LOCK)
                self._act(session, load(session.connection(), seen.number), work, joins=joins, now_ms=now_ms)

    def _act(self, session: Session, rollout: Loaded, work: _Work, *, joins: bool, now_ms: int) -> None:
        connection = session.connection()
        if rollout.state is RolloutState.READY:
            if _starts(rollout, now_ms):
                self._turn(session, rollout, _SCHEDULED, work, now_ms)
            return
        stages = stages_of(connection, rollout.number)
        for sweep in sweeps(rollout, stages, now_ms):
            if sweep_out(connection, rollout.number, sweep, now_ms) and "decommissioned" in sweep.change:
                withdraw_live(connection, rollout.number)
        if joins and _asks(rollout):
            work.joined += join(connection, rollout, stages, now_ms)
        rollout = self._decide(session, rollout, work, now_ms)
        if _asks(rollout):
            work.offered += self._offer(connection, rollout, now_ms)
        elif rollout.state is RolloutState.ROLLING_BACK:
            self._roll_back(session, rollout, work, now_ms)

    def _decide(self, session: Session, rollout: Loaded, work: _Work, now_ms: int) -> Loaded:
        """Write what one look decides; the rollout as it is then."""
        if rollout.state not in _DECIDES:
            return rollout
        connection = session.connection()
        stages, counts = stages_of(connection, rollout.number), counts_of(connection, rollout.number)
        decision = decide(facts_of(connection, rollout, stages, counts), now_ms)
        for change in decision.changes:
            change_stage(session, self._audit, rollout, change, by=ENGINE, now_ms=now_ms)
            work.acts.append(f"{rollout.id} stage {change.stage + 1} {change.state.value}")
        run(connection, _LOOKED, rollout.number)
        return rollout if decision.turn is None else self._turn(session, rollout, decision.turn, work, now_ms)

    def _turn(self, session: Session, rollout: Loaded, to: Turn, work: _Work, now_ms: int) -> Loaded:
        turn(session, self._audit, rollout, to.state, by=ENGINE, code=to.code, text=to.text, now_ms=now_ms)
        work.acts.append(f"{rollout.id} {to.state.value}: {to.text}")
        return replace(rollout, state=to.state)

    def _offer(self, connection: Connection, rollout: Loaded, now_ms: int) -> int:
        if not rollout.plan.calendar.is_open(now_ms):
            return 0
        opened = _opened(stages_of(connection, rollout.number))
        room = allowance(
            rollout.plan.pacing,
            in_flight=_count(counts_of(connection, rollout.number), INSTALL, WORKING),
            asked_last_hour=run(
                connection, _ASKED_SINCE, rollout.number, now_ms - _HOUR_MS, INSTALL
            ).scalar_one(),
            device_bytes=rollout.terms.total_bytes,
            at_once=self._at_once,
        )
        return offer(connection, rollout, opened, room, now_ms) if room else 0

    def _roll_back(self, session: Session, rollout: Loaded, work: _Work, now_ms: int) -> None:
        connection = session.connection()
        if send_back(
            connection, rollout, lambda sha256: release_of_bundle(connection, sha256), self._at_once, now_ms
        ):
            return
        counts = counts_of(connection, rollout.number)
        if _count(counts, ROLLBACK, WORKING):
            return
        back = _count(counts, ROLLBACK, (MemberState.HEALTHY,))
        others = sum(count.devices for count in counts if count.action == ROLLBACK) - back
        left = run(connection, _LEFT, rollout.number).scalar_one()
        are = "is" if back == 1 else "are"
        text = f"{many(back, 'device')} {are} back, {others} did not say so, {left} could not be sent back"
        self._turn(session, rollout, Turn(RolloutState.ROLLED_BACK, ReasonCode.DONE, text), work, now_ms)


def _needed(connection: Connection, number: int, now_ms: int) -> bool:
    """Whether anything at all is to be written for a rollout now; told without a write lock."""
    rollout = load(connection, number)
    if rollout.state is RolloutState.READY:
        return _starts(rollout, now_ms)
    if rollout.state is RolloutState.ROLLING_BACK or rollout.looked_ms < rollout.touched_ms:
        return True
    stages = stages_of(connection, number)
    if any(has_work(connection, number, sweep) for sweep in sweeps(rollout, stages, now_ms)):
        return True
    counts = counts_of(connection, number)
    if (
        rollout.state in _DECIDES
        and decide(facts_of(connection, rollout, stages, counts), now_ms) != Decision()
    ):
        return True
    return _asks(rollout) and has_candidates(connection, rollout, _opened(stages), now_ms)


def _with_joins(found: Sequence[Loaded], now_ms: int, *, joins: bool) -> list[tuple[Loaded, bool]]:
    """The order in which rollouts are looked at, and which of them may take in newcomers now.

    Of those that run the oldest comes first. Of those that are completed the newest does, and one takes in nobody
    any more where a newer one for the slot names all of its devices. Such a one is looked at for some days more,
    for devices that are still at it, and after that when one of them reports.
    """
    completed = [rollout for rollout in found if rollout.state is RolloutState.COMPLETED]
    others = [rollout for rollout in reversed(found) if rollout.state is not RolloutState.COMPLETED]
    result = [(rollout, joins and rollout.plan.converge and _asks(rollout)) for rollout in others]
    newer: list[Loaded] = []
    for rollout in completed:
        stands = rollout.plan.converge and not any(_covers(one, rollout) for one in newer)
        is_recent = now_ms - (rollout.ended_ms or 0) < _RECENT_MS
        if stands or is_recent or rollout.looked_ms < rollout.touched_ms:
            result.append((rollout, joins and stands))
        if rollout.plan.converge:
            newer.append(rollout)
    return result


def _covers(newer: Loaded, older: Loaded) -> bool:
    labels = newer.plan.labels.items() <= older.plan.labels.items()
    hardware = not newer.plan.hardware or newer.plan.hardware == older.plan.hardware
    last = newer.plan.stages[-1]
    everyone = last.basis_points == BUCKETS and not last.labels and not last.hardware
    return newer.slot == older.slot and labels and hardware and everyone


def _opened(stages: Sequence[LoadedStage]) -> int:
    """How many stages are open; they open in order."""
    return sum(stage.state.is_open for stage in stages)


def _starts(rollout: Loaded, now_ms: int) -> bool:
    return rollout.plan.start_at_ms is not None and rollout.plan.start_at_ms <= now_ms


def _asks(rollout: Loaded) -> bool:
    """Whether devices are asked: while it runs, and after that as long as it is meant to converge."""
    if rollout.state is RolloutState.COMPLETED:
        return rollout.plan.converge
    return rollout.state is RolloutState.RUNNING


def _count(counts: Sequence[Count], action: str, states: Sequence[MemberState]) -> int:
    return sum(count.devices for count in counts if count.action == action and count.state in states)


_SCHEDULED = Turn(RolloutState.RUNNING, ReasonCode.SCHEDULED, "its time came")
_LOOKED = "UPDATE rollouts SET looked_ms = touched_ms WHERE number = ? AND looked_ms <> touched_ms"
_ASKED_SINCE = "SELECT count(*) FROM assignments WHERE rollout = ? AND decided_ms > ? AND action = ?"
_LEFT = (
    "SELECT count(*) FROM rollout_members WHERE rollout = ? AND action = 'hold' "
    "AND (state = 'healthy' OR code <> 'held')"
)
