"""Drives the machine of one device: a turn looks, decides, writes down, does what was decided, and never waits."""

from dataclasses import replace

from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.update import LeftAs, UpdateCode, UpdateState
from edge_runtime.updates.machine import Decision, Moment, Order, Seen, Work, step
from edge_runtime.updates.machine.observed import Device, SlotView
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.arrivals import Arrivals
from edge_runtime.updates.process.bring import bring
from edge_runtime.updates.process.memory import Memory
from edge_runtime.updates.process.parts import Parts
from edge_runtime.updates.process.telling import Telling

BUSY_S, IDLE_S = 1.0, 5.0
"""Until the next turn is worth its while."""

_MOST_STEPS = 32
_FRESH_MS, _ASK_MS = 600_000, 3_600_000
"""How old an answer about newer metadata may be where a release is put in use, and while one waits for that."""


class Driver:
    """The updates of one device. Not thread-safe; whoever owns it calls `turn` again and again.

    What an earlier process left is taken up: see `machine.table` for what a restart comes to in each state.

    Args:
        parts: of the device.

    Attributes:
        memory: journal, deny-list, reports; for looking at.
        arrivals: assignments that wait to be judged.
        trouble: a sentence while the disk fails; None otherwise.

    Raises:
        OSError: the journal cannot be written, so nothing may begin.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.memory = Memory(parts)
        self.arrivals = Arrivals(parts, self.memory)
        self._telling = Telling(parts, self.memory)
        self.trouble: str | None = None
        self._refused: tuple[int, UpdateCode, str] | None = None
        self._begun = Moment.now(parts.clock)
        self._begin()

    def turn(self) -> float:
        """Go on as far as is possible without waiting; seconds until the next turn is worth its while."""
        now = Moment.now(self.parts.clock)
        try:
            self.arrivals.turn(now)
            self._step_while_it_moves(now)
            self._telling.turn(now)
            self.trouble = None
        except OSError as error:
            self.trouble = f"the disk fails: {error.strerror or error}; updates stand still until it does not"
            self.parts.log(self.trouble)
        return BUSY_S if self.memory.journal.works or self.arrivals.waiting else IDLE_S

    def stop(self) -> None:
        """Ask lengthy things to end; what they have brought stays. No turn may follow."""
        self.parts.errands.cancel()
        self.parts.refreshing.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether nothing lengthy is under way."""
        both = (self.parts.errands, self.parts.refreshing)
        return all(one.about is None or one.look().over for one in both)

    # -- the beginning -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        now, memory = self._begun, self.memory
        memory.renew_nonce()
        work = memory.journal.current
        if work is not None and not work.state.is_terminal and work.state not in _HARMLESS:
            memory.take_up(work.model_copy(update={"starts": work.starts + 1}))
        self._take_back_orphans()
        self._prune()
        lost = memory.lost
        for slot in self.parts.slots:
            if self._telling.went_back(slot, now):
                continue
            code = UpdateCode.STATE_LOST if lost is not None else None
            text = "" if lost is None else f"the journal was lost ({lost}); what runs stays"
            self._telling.slot(slot, now, code, text)
        for work in memory.journal.works:
            if not work.state.is_terminal:
                memory.tell(work.slot, now, self._look(work.slot), work=work)

    def _take_back_orphans(self) -> None:
        """A release on trial of which no work is known, because the journal was lost: nobody would judge it."""
        for slot, state in self.parts.store.slots().slots.items():
            if state.trial and not any(work.slot == slot for work in self.memory.journal.works):
                self.parts.log("a trial that nobody knows of is taken back", slot=slot)
                try:
                    self.parts.store.revert(slot)
                    self._go_back(slot)
                except UpdateRefused as refused:
                    self.parts.log("it is taken back later", slot=slot, why=str(refused))

    # -- the work ----------------------------------------------------------------------------------------------

    def _step_while_it_moves(self, now: Moment) -> None:
        self._put_away_strangers()
        for _ in range(_MOST_STEPS):
            works = self.memory.journal.works
            for work in works[1:]:  # one that has to end need not wait for its turn
                newer = self.memory.journal.newer(work)
                if newer is not None and not work.state.is_terminal:
                    self._apply(work, step(work, self._seen(work, now, at_hand=False), self.parts.rules), now)
            at_hand = self.memory.journal.current
            if at_hand is None or not self._step(at_hand, now):
                break

    def _step(self, work: Work, now: Moment) -> bool:
        """One step of the work at hand; whether anything moved, so that another one is worth its while."""
        seen, around = self._seen(work, now), self.parts.around
        decision = step(work, seen, self.parts.rules)
        begins = decision.work.state is UpdateState.ACTIVATING and work.state is not UpdateState.ACTIVATING
        if begins or work.state is UpdateState.WAITING:
            seen = replace(seen, vouched=self._vouched(work, now, begins=begins))
            decision = step(work, seen, self.parts.rules)
        if decision.work.state is UpdateState.ACTIVATING:
            if not around.hold_still() and work.state is not UpdateState.ACTIVATING:
                # taken since it was looked at
                locked = replace(
                    seen.device, obstacle=UpdateCode.LOCKED, obstacle_text="an application holds it"
                )
                decision = step(work, replace(seen, device=locked), self.parts.rules)
        else:
            around.let_go()
        self._apply(work, decision, now)
        if seen.errand is not None and seen.errand.over:
            self.parts.errands.put_away()
            return True
        self._telling.download(work, now)
        moved = decision.work != work or decision.left is not None
        return moved or bool({Order.FETCH, Order.COMMIT, Order.RESTORE} & set(decision.orders))

    def _seen(self, work: Work, now: Moment, *, at_hand: bool = True) -> Seen:
        parts = self.parts
        errand = parts.errands.look() if parts.errands.about == str(work.seq) else None
        slot = parts.store.slots().of(work.slot)
        refused = self._refused[1:] if self._refused is not None and self._refused[0] == work.seq else None
        return Seen(
            now=now,
            wall_ms=now.wall_ms if now.wall_ms >= self.memory.floor_ms else None,
            view=self._look(work.slot) if at_hand else None,
            up_ms=self._begun.ran_ms(now),
            device=parts.around.device() if at_hand else Device(),
            active=slot.active,
            values=slot.values,
            good=slot.last_good,
            on_trial=slot.active if slot.trial else None,
            errand=errand,
            newer=self.memory.journal.newer(work),
            refused=refused,
        )

    def _vouched(self, work: Work, now: Moment, *, begins: bool) -> bool | None:
        """Whether people still sign for it, by metadata that was asked for lately; None while that is not known.

        A server that cannot be reached keeps nothing from its turn: what counts is what is verified by then.
        """
        if work.goes_back:
            return True
        fresh = self.arrivals.is_fresh(now, _FRESH_MS if begins else _ASK_MS)
        if (begins and not fresh) or self.parts.refreshing.about is not None:
            return None
        try:
            return self.parts.trust.still_signed(work.assignment)
        except UpdateRefused:
            self.arrivals.is_fresh(now, _FRESH_MS)  # nothing is trusted, and newer metadata may heal it
            return None

    def _apply(self, work: Work, decision: Decision, now: Moment) -> None:
        after = decision.work
        if after != work:
            self._write(work, after, now)
        for order in decision.orders:
            self._carry_out(order, after)
        if decision.left is not None:
            self._end(after.seq, decision.left, now)

    def _write(self, work: Work, after: Work, now: Moment) -> None:
        is_news = (after.state, after.code) != (work.state, work.code)
        try:
            number = self.memory.take_up(after, told=is_news)
        except OSError:
            # The disk is told later; what is bad need not look on until then.
            judged = after
            if after.state is UpdateState.PROBATION:
                judged = step(after, self._seen(after, now), self.parts.rules).work
            if judged.begun and judged.state is UpdateState.REVERTED:
                self._refused = (judged.seq, judged.code or UpdateCode.DEFECT, judged.text)
                self._carry_out(Order.REVERT, after)
            raise
        if not is_news:
            return
        self.parts.log(
            "assignment",
            seq=after.seq,
            slot=after.slot,
            state=after.state.value,
            code=None if after.code is None else after.code.value,
            why=after.text or None,
        )
        if number is not None:
            self.memory.tell(after.slot, now, self._look(after.slot), work=after, number=number)

    def _end(self, seq: int, left: LeftAs, now: Moment) -> None:
        work = next(work for work in self.memory.journal.works if work.seq == seq)
        view = self._look(work.slot)
        self.memory.end(work, left, now, view)
        self._refused = None
        self._telling.note(work.slot, view)
        self._prune()

    def _carry_out(self, order: Order, work: Work) -> None:
        try:
            self._do(order, work)
        except UpdateRefused as refused:
            self.parts.log(
                "not done", order=order.value, seq=work.seq, code=refused.code.value, why=str(refused)
            )
            if not refused.again and order in _FOR_GOOD:
                self._refused = (work.seq, refused.code, str(refused))

    def _do(self, order: Order, work: Work) -> None:
        store, slot, release = self.parts.store, work.slot, work.release
        taking = self.parts.taking(slot)
        assert release is not None or order in (Order.CANCEL, Order.DISCARD)
        if order is Order.FETCH:
            self._fetch(work)
        elif order is Order.CANCEL:
            self.parts.errands.cancel()
        elif order is Order.DISCARD:
            taking.discard(slot)
        elif order is Order.LOAD:
            taking.load(slot, str(release), store.files(str(release)), work.assignment.values)
        elif order in (Order.SHADOW, Order.REST):
            taking.shadow(slot, on=order is Order.SHADOW)
        elif order is Order.BEGIN_TRIAL:
            self._telling.went_back(slot, Moment.now(self.parts.clock))  # a trial goes back to what runs now
            store.begin_trial(slot, str(release), work.assignment.values)
        elif order is Order.ACTIVATE:
            rule = TrackerRule.RESTART if work.terms is None else work.terms.trackers
            taking.activate(slot, str(release), rule)
        elif order is Order.COMMIT:
            store.commit(slot)
        elif order is Order.SETTLE:
            taking.settle(slot)
        elif order is Order.RESTORE:
            store.revert(slot)
        else:
            self._go_back(slot)

    def _go_back(self, slot: str) -> None:
        """To what the store says is good: while on trial that is the one before, and afterwards the active one."""
        state = self.parts.store.slots().of(slot)
        good = state.last_good if state.trial else state.active
        folder = None if good is None else self.parts.store.files(good)
        self.parts.taking(slot).revert(slot, good, folder)

    def _fetch(self, work: Work) -> None:
        parts, terms = self.parts, work.terms
        if parts.errands.about is not None or terms is None:
            return
        self._prune()
        parts.errands.begin(
            str(work.seq), lambda told: bring(work.assignment, terms, parts.store, parts.fetch, told)
        )

    def _put_away_strangers(self) -> None:
        """An errand of a work that is no longer known."""
        errands = self.parts.errands
        if errands.about is None or any(str(work.seq) == errands.about for work in self.memory.journal.works):
            return
        errands.cancel()
        if errands.look().over:
            errands.put_away()

    def _prune(self) -> None:
        if self.parts.errands.about is None:
            keep = {work.release for work in self.memory.journal.works if work.release is not None}
            try:
                self.parts.store.prune(keep)
            except UpdateRefused as refused:
                self.parts.log("the store cannot be tidied", why=str(refused))

    def _look(self, slot: str) -> SlotView | None:
        return self.parts.taking(slot).look(slot) if slot in self.parts.slots else None


_HARMLESS = frozenset({UpdateState.ACCEPTED, UpdateState.WAITING})
"""States in which nothing is done that a process could die of."""

_FOR_GOOD = frozenset({Order.LOAD, Order.SHADOW, Order.BEGIN_TRIAL, Order.ACTIVATE})
"""Orders whose refusal is an end; of the others there is nothing to give up."""
