"""What operators do with rollouts, and what they see of them; each act is one transaction with its audit entry."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy.orm import Session

from edge_runtime.clock import NS_PER_MS, Clock
from fleet_server.devices.states import RecordAct
from fleet_server.director.issuing import Director
from fleet_server.rollouts import approving, views
from fleet_server.rollouts.accepting import accepted, excuse
from fleet_server.rollouts.approving import Approvals
from fleet_server.rollouts.creating import create
from fleet_server.rollouts.decision import StageChange
from fleet_server.rollouts.engine import Engine
from fleet_server.rollouts.loaded import Loaded, is_revoked, load, number_of, require_readable, stages_of
from fleet_server.rollouts.plan_records import RolloutPlan
from fleet_server.rollouts.planning import look_ahead
from fleet_server.rollouts.problems import RolloutProblem, RolloutProblemCode
from fleet_server.rollouts.records import (
    AssignmentView,
    PlanReport,
    RolloutSummary,
    RolloutView,
    StepReport,
)
from fleet_server.rollouts.states import Purpose, ReasonCode, RolloutState, StageState
from fleet_server.rollouts.turns import change_stage, turn
from fleet_server.storage import Store
from fleet_server.storage.writing import ROLLOUT_LOCK, take_turn

_KEYS_EVERY_MS = 60_000
_BATCHES = 4
"""Batches that one step signs at most, so that a step ends in a few seconds whatever is due."""


class RolloutService:
    """Thread-safe; `by` is who acts, as the audit shows it: the name of an operator's token is a person.

    Args:
        store: the database.
        clock: its wall clock dates everything.
        audit: writes an act into the audit within the transaction.
        director: signs; None where acts are only written down and another process signs them.
        approvals: who may agree to what.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        audit: RecordAct,
        director: Director | None = None,
        *,
        approvals: Approvals = Approvals.SEPARATE,
    ) -> None:
        self._store, self._clock, self._audit, self._director = store, clock, audit, director
        self._approvals = approvals
        self._engine = Engine(store, audit)
        self._stepping = threading.Lock()
        self._keys_ms: int | None = None
        self._stepped_ms: int | None = None

    def plan(self, plan: RolloutPlan) -> PlanReport:
        """What a plan would do now; nothing is written.

        Raises:
            RolloutProblem: there is no such release, or it was revoked.
        """
        with self._store.read() as session:
            return look_ahead(session.connection(), plan, self._now()).report

    def create(self, by: str, plan: RolloutPlan) -> RolloutView:
        """Choose and reserve its devices; it then awaits approval.

        Raises:
            RolloutProblem: the plan is refused, with every reason.
        """
        now_ms = self._now()
        with self._acting() as session:
            planned = look_ahead(session.connection(), plan, now_ms)
            if planned.report.refusals:
                code = (
                    RolloutProblemCode.PLAN_REFUSED
                    if planned.report.eligible
                    else RolloutProblemCode.NOBODY_ELIGIBLE
                )
                raise RolloutProblem(code, "; ".join(planned.report.refusals))
            number = create(session, self._audit, by, planned, now_ms)
            return views.view(session.connection(), load(session.connection(), number), now_ms)

    def approve(
        self, by: str, rollout: str, note: str = "", *, accept: bool = False, digest: str | None = None
    ) -> RolloutView:
        """Agree to what it waits for: its start, its going on after a pause, or its rollback.

        Args:
            by: operator.
            rollout: id.
            note: for the audit.
            accept: of a paused one: that its open stages may be let pass as they are, too.
            digest: of what was looked at, as its status has it; None does not compare.

        Raises:
            RolloutProblem: it waits for nothing, another person has to, or it has changed since.
        """
        with self._acting() as session:
            found = self._load(session, rollout)
            connection, now_ms = session.connection(), self._now()
            purpose = approving.purpose_of(found, accept=accept)
            if purpose is None or approving.is_given(connection, found, purpose):
                raise RolloutProblem(
                    RolloutProblemCode.WRONG_STATE,
                    f"{found.id} is {found.state.value} and waits for no approval",
                )
            approving.require_other(connection, found, purpose, by, self._approvals)
            approving.require_seen(connection, found, purpose, digest)
            agreed = approving.write(connection, found, purpose, by=by, note=note, now_ms=now_ms)
            if purpose is Purpose.START:
                self._turn(session, found, RolloutState.READY, by, "approved", now_ms)
            else:
                told = {"note": note[:300]} if agreed is None else {"note": note[:300], "digest": agreed}
                self._audit(session, by, f"rollout.approve-{purpose.value}", found.id, told)
            return self._view(session, found)

    def start(self, by: str, rollout: str) -> RolloutView:
        """Open its first stage as soon as everything allows it.

        Raises:
            RolloutProblem: it is not approved, or not waiting for its start.
        """
        with self._acting() as session:
            found = self._load(session, rollout)
            if found.state is RolloutState.AWAITING_APPROVAL:
                raise RolloutProblem(
                    RolloutProblemCode.NEEDS_APPROVAL,
                    f"{found.id} waits for another person: fleet rollout approve",
                )
            _require_state(found, RolloutState.READY)
            require_readable(found)
            self._turn(session, found, RolloutState.RUNNING, by, "started", self._now())
            return self._view(session, found)

    def pause(self, by: str, rollout: str, reason: str) -> RolloutView:
        """Offer it to no further device; those that have the offer go on. Paused already, it stays so.

        Raises:
            RolloutProblem: it does not run.
        """
        return self._stop(by, rollout, RolloutState.PAUSED, reason)

    def resume(self, by: str, rollout: str, *, accept: bool = False) -> RolloutView:
        """Go on after a pause. Bad devices until now are excused, and open stages wait anew.

        Args:
            by: operator.
            rollout: id.
            accept: let the open stages pass as they are.

        Raises:
            RolloutProblem: it is not paused, or another person has not agreed to exactly this.
        """
        with self._acting() as session:
            found = self._load(session, rollout)
            connection, now_ms = session.connection(), self._now()
            _require_state(found, RolloutState.PAUSED)
            if is_revoked(connection, found.sha256):
                raise RolloutProblem(
                    RolloutProblemCode.RELEASE_REVOKED, f"the release of {found.id} was revoked: halt it"
                )
            require_readable(found)
            purpose = Purpose.ACCEPT if accept else Purpose.CONTINUE
            approving.require_word(connection, found, purpose, by, self._approvals)
            what = accepted(connection, found)
            stages, excused = stages_of(connection, found.number), excuse(connection, found)
            for number, _ in what.stages:
                state = StageState.PASSED if accept else StageState.OPEN
                change = StageChange(number, state, stages[number].opened_ms, now_ms, None, None)
                change_stage(session, self._audit, found, change, by=by, now_ms=now_ms)
            detail: dict[str, object] = {"excused": excused, "accepted": accept, "digest": what.digest}
            self._turn(session, found, RolloutState.RUNNING, by, "resumed", now_ms, detail)
            return self._view(session, found)

    def halt(self, by: str, rollout: str, reason: str) -> RolloutView:
        """Stop it for good, and take back every offer that is not yet in use. Halted already, it stays so.

        Raises:
            RolloutProblem: it neither runs nor is paused.
        """
        return self._stop(by, rollout, RolloutState.HALTED, reason)

    def rollback(self, by: str, rollout: str) -> RolloutView:
        """Send the devices that took it back to what they ran before, where people signed that they may.

        Raises:
            RolloutProblem: it is not halted, or another person has not agreed.
        """
        with self._acting() as session:
            found = self._load(session, rollout)
            _require_state(found, RolloutState.HALTED)
            approving.require_word(session.connection(), found, Purpose.ROLLBACK, by, self._approvals)
            self._turn(session, found, RolloutState.ROLLING_BACK, by, "asked by a person", self._now())
            return self._view(session, found)

    def cancel(self, by: str, rollout: str, reason: str) -> RolloutView:
        """End it where it stands: its devices are free for others, and those that took it keep it.

        Raises:
            RolloutProblem: it is over, or on its way back.
        """
        return self._stop(by, rollout, RolloutState.CANCELLED, reason)

    def status(self, rollout: str) -> RolloutView:
        """A rollout as it stands.

        Raises:
            RolloutProblem: there is none of this id.
        """
        with self._store.read() as session:
            connection = session.connection()
            return views.view(connection, load(connection, number_of(rollout)), self._now())

    def rollouts(
        self, *, state: RolloutState | None = None, limit: int = 50, before: str | None = None
    ) -> Sequence[RolloutSummary]:
        """Rollouts, the newest first.

        Args:
            state: only those in it.
            limit: at most so many.
            before: only older ones than this id.
        """
        with self._store.read() as session:
            older = None if before is None else number_of(before)
            return views.summaries(session.connection(), state, limit, older)

    def history(self, device: str, limit: int = 50) -> Sequence[AssignmentView]:
        """What a device was asked, and what it answered; the newest first.

        Raises:
            RolloutProblem: there is no such device.
        """
        with self._store.read() as session:
            return views.history(session.connection(), device, limit)

    def step(self, now_ms: int | None = None) -> StepReport:
        """Do what is due: the running server calls it every second or two, and one process alone.

        Args:
            now_ms: milliseconds since 1970; the clock's when None.

        Raises:
            ReleaseRefused: what was decided cannot be signed; it is tried again at the next step.
            sqlalchemy.exc.SQLAlchemyError: the database is away; the next step goes on.
        """
        now = self._now() if now_ms is None else now_ms
        with self._stepping:
            report = self._engine.step(now)
            signed = self._sign(now)
            self._stepped_ms = now
            return report.model_copy(update={"signed": signed})

    @property
    def stepped_ms(self) -> int | None:
        """When this service last did a whole step, milliseconds since 1970; None where it never did."""
        return self._stepped_ms

    def _sign(self, now_ms: int) -> int:
        if self._director is None:
            return 0
        if self._keys_ms is None or not 0 <= now_ms - self._keys_ms < _KEYS_EVERY_MS:
            self._director.have_other_keys_signed()
            self._keys_ms = now_ms
        total = 0
        for _ in range(_BATCHES):
            signed = self._director.sign_due(now_ms)
            total += signed
            if not signed:
                break
        return total

    def _stop(self, by: str, rollout: str, state: RolloutState, reason: str) -> RolloutView:
        with self._acting() as session:
            found = self._load(session, rollout)
            if found.state is not state:
                self._turn(session, found, state, by, reason, self._now())
            return self._view(session, found)

    def _turn(  # noqa: PLR0917 - a turn, by whom and why
        self,
        session: Session,
        rollout: Loaded,
        state: RolloutState,
        by: str,
        text: str,
        now_ms: int,
        detail: dict[str, object] | None = None,
    ) -> None:
        turn(
            session,
            self._audit,
            rollout,
            state,
            by=by,
            code=ReasonCode.ASKED,
            text=f"{text} ({by})",
            now_ms=now_ms,
            detail=detail,
        )

    @contextmanager
    def _acting(self) -> Iterator[Session]:
        with self._store.write() as session:
            take_turn(session.connection(), ROLLOUT_LOCK)
            yield session

    def _load(self, session: Session, rollout: str) -> Loaded:
        return load(session.connection(), number_of(rollout))

    def _view(self, session: Session, rollout: Loaded) -> RolloutView:
        connection = session.connection()
        return views.view(connection, load(connection, rollout.number), self._now())

    def _now(self) -> int:
        return self._clock.wall().unix_ns // NS_PER_MS


def _require_state(rollout: Loaded, state: RolloutState) -> None:
    if rollout.state is not state:
        raise RolloutProblem(
            RolloutProblemCode.WRONG_STATE, f"{rollout.id} is {rollout.state.value}, and not {state.value}"
        )
