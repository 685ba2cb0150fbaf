"""What the fleet desires: read when it changes, judged after a refresh of the metadata, taken up in order."""

import hashlib
from dataclasses import dataclass, field

from edge_runtime.protocol.update import Assignment, UpdateCode, UpdateState
from edge_runtime.protocol.update_wire import Desired
from edge_runtime.protocol.wire import WireError
from edge_runtime.updates.machine import Moment, Work
from edge_runtime.updates.machine.journal import MOST_WORKS
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.allowance import Allowance
from edge_runtime.updates.process.memory import Memory
from edge_runtime.updates.process.parts import DESIRED, Parts
from edge_runtime.updates.process.settling import Settling
from edge_runtime.updates.process.tried import Tried
from edge_runtime.updates.trust import RunningRelease, peek

UNPROVEN = frozenset(
    {
        UpdateCode.BAD_ENVELOPE,
        UpdateCode.DIRECTOR_SIGNATURE,
        UpdateCode.WRONG_DEVICE,
        UpdateCode.WRONG_KEY,
        UpdateCode.CLOCK,
        UpdateCode.METADATA_UNAVAILABLE,
        UpdateCode.METADATA_EXPIRED,
        UpdateCode.METADATA_ROLLBACK,
        UpdateCode.METADATA_INVALID,
    }
)
"""Refusals after which nobody knows who wrote an assignment: its number must not be used up by whoever it was."""

_MOST_TOLD = 64


@dataclass(slots=True)
class _Envelope(Tried):
    """An assignment as it came.

    Attributes:
        claims: what it says, unverified.
        proven: the director had signed it, when it was judged last.
    """

    sealed: bytes
    claims: Assignment
    proven: bool = False


@dataclass(slots=True)
class Arrivals:
    """Assignments on their way into the journal.

    Args:
        parts: of the device.
        memory: of the device.
    """

    parts: Parts
    memory: Memory
    _stamp: object = None
    _waiting: dict[str, _Envelope] = field(default_factory=dict)
    _left: dict[str, _Envelope] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _refreshes: Allowance = field(default_factory=lambda: Allowance(8, 30_000))
    _reports: Allowance = field(default_factory=lambda: Allowance(10, 360_000))
    _asked: Moment | None = None
    _wanted: bool = False
    _settling: Settling = field(init=False)

    def __post_init__(self) -> None:
        self._settling = Settling(self.parts, self.memory)

    def turn(self, now: Moment) -> None:
        """Read what is new, and judge what is due. Never waits.

        Raises:
            OSError: the disk fails; the next turn tries again.
        """
        self._read(now)
        if self._settling.turn(now) and self._refreshes.take(now):
            self._wanted = True
        refreshing, room = self.parts.refreshing, len(self.memory.journal.works) < MOST_WORKS
        due = [one for one in self._waiting.values() if room and one.is_due(now)]
        # what nobody has proven yet may be rubbish that never ends, and each refresh talks to the server
        if refreshing.about is None and (
            self._wanted or any(one.proven for one in due) or (due and self._refreshes.take(now))
        ):
            self._asked, self._wanted = now, False
            refreshing.begin("refresh", lambda _told: self.parts.trust.refresh())
        if refreshing.about is None or not refreshing.look().over:
            return
        result = refreshing.look()
        if result.code is not None:
            self.parts.log("the metadata of releases is not fresh", code=result.code.value, why=result.text)
        refreshing.put_away()
        self._note_director()
        self._settling.turn(now, fresh=True)
        for digest, envelope in sorted(self._waiting.items(), key=lambda item: _order(item[1].claims)):
            if self._is_known(envelope.claims):
                del self._waiting[digest]  # another envelope of its number has just been taken up, or ended
            elif envelope.is_due(now) and len(self.memory.journal.works) < MOST_WORKS:
                self._judge(digest, envelope, now)

    def is_fresh(self, now: Moment, most_ms: int) -> bool:
        """Whether newer metadata was asked for within a time, with success or not; else it is in the next turn."""
        fresh = self._asked is not None and self._asked.age_ms(now) < most_ms
        self._wanted = self._wanted or not fresh
        return fresh

    @property
    def waiting(self) -> list[tuple[int, str, str, str]]:
        """What waits to be judged again: number, slot, code and why."""
        return [
            (one.claims.seq, one.claims.slot, "" if one.code is None else one.code.value, one.text)
            for one in self._waiting.values()
        ]

    def _read(self, now: Moment) -> None:
        stamp = self.parts.keeping.stamp(DESIRED)
        if stamp == self._stamp:
            return
        data = self.parts.keeping.read(DESIRED)
        if data is not None:
            self._desired(data, now)
        self._stamp = stamp

    def _desired(self, data: bytes, now: Moment) -> None:
        try:
            desired = Desired.decode(data)
        except WireError as error:
            self.parts.log("what the fleet desires cannot be read", why=str(error))
            return
        if desired.device != self.parts.device:
            self.parts.log("what came is desired of another device", device=desired.device)
            return
        self._settling.came(desired.settled)
        self._replace(desired, now)

    def _replace(self, desired: Desired, now: Moment) -> None:
        """What came takes the place of what waited; whatever is going on or over is no news."""
        before, self._waiting = self._waiting | self._left, {}
        for sealed in desired.assignments:
            digest = hashlib.sha256(sealed).hexdigest()
            if digest in self._waiting:
                continue
            if digest in before:
                self._waiting[digest] = before.pop(digest)
                continue
            try:
                claims = peek(sealed)
            except UpdateRefused as refused:
                self._say_unproven(digest, self.parts.slots[0], refused, now)
                continue
            if not self._is_known(claims):
                self._waiting[digest] = _Envelope(sealed, claims)
        self._left = dict([(digest, gone) for digest, gone in before.items() if gone.proven][-MOST_WORKS:])

    def _note_director(self) -> None:
        try:
            director = self.parts.trust.director()
        except UpdateRefused:
            return  # nothing is trusted now: each envelope is told so
        self.memory.under(director)

    def _is_known(self, claims: Assignment) -> bool:
        journal = self.memory.journal
        return (
            journal.knows(claims.seq)
            or journal.forgot(claims.slot, claims.seq)
            or self.memory.reports.ended(claims.seq)
        )

    def _supersede(self, newer: Assignment, now: Moment) -> None:
        """The director has signed a later one: what waited for that slot, and is no longer desired, is over.

        Not before: whoever carries messages can claim any number, and would end what waits with it.
        """
        for digest, gone in list(self._left.items()):
            if gone.claims.slot != newer.slot or gone.claims.seq > newer.seq:
                continue
            if gone.claims.seq < newer.seq and not self._is_known(gone.claims):
                if len(self.memory.journal.works) >= MOST_WORKS - 1:
                    continue  # the later one needs a place as well
                self._end(gone, UpdateState.SUPERSEDED, UpdateCode.SUPERSEDED, "a later assignment came", now)
            del self._left[digest]

    def _judge(self, digest: str, envelope: _Envelope, now: Moment) -> None:
        claims, journal = envelope.claims, self.memory.journal
        try:
            admitted = self.parts.trust.admit(
                envelope.sealed,
                last_seq=journal.heard.get(claims.slot, 0),
                nonce=journal.nonce,
                running={slot: self._running(slot) for slot in self.parts.slots},
                facts=self.parts.around.facts(),
                denied=self.memory.known_bad.for_seq(claims.seq),
            )
        except UpdateRefused as refused:
            self._refused(digest, envelope, refused, now)
            return
        self._supersede(admitted.assignment, now)
        self.memory.lift(admitted.assignment.sha256, admitted.assignment.seq)
        work = self._work(admitted.assignment, now).model_copy(
            update={"terms": admitted.terms, "back": admitted.back}
        )
        number = self.memory.take_up(work, told=True)
        del self._waiting[digest]
        self.parts.log(
            "assignment accepted",
            seq=admitted.assignment.seq,
            slot=admitted.assignment.slot,
            action=admitted.assignment.action.value,
        )
        self.memory.tell(
            work.slot, now, self.parts.taking(work.slot).look(work.slot), work=work, number=number
        )

    def _refused(self, digest: str, envelope: _Envelope, refused: UpdateRefused, now: Moment) -> None:
        envelope.proven = refused.code not in UNPROVEN
        if envelope.proven:
            self._supersede(envelope.claims, now)
        if not refused.again:
            if envelope.proven:
                self._end(envelope, UpdateState.REFUSED, refused.code, str(refused), now)
            else:
                self._say_unproven(digest, envelope.claims.slot, refused, now)
            del self._waiting[digest]
            return
        is_new = envelope.code is not refused.code
        envelope.put_off(refused, now, self.parts.device, envelope.claims.seq)
        if not is_new:
            return
        if not envelope.proven:
            self._say_unproven(digest, envelope.claims.slot, refused, now)
            return
        slot = envelope.claims.slot
        self.memory.tell(
            slot,
            now,
            self.parts.taking(slot).look(slot),
            seq=envelope.claims.seq,
            state=UpdateState.WAITING,
            code=refused.code,
            text=str(refused),
        )

    def _say_unproven(self, digest: str, slot: str, refused: UpdateRefused, now: Moment) -> None:
        """Once for each envelope and reason, and for a few in an hour: it may be retained, and reports cost."""
        key = f"{digest} {refused.code.value}"
        if key in self._told:
            return
        if not self._reports.take(now):
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told.add(key)
        self.parts.log("an assignment is not accepted", code=refused.code.value, why=str(refused))
        known = slot if slot in self.parts.slots else self.parts.slots[0]
        view = self.parts.taking(known).look(known)
        self.memory.tell(known, now, view, code=refused.code, text=str(refused))

    def _end(self, envelope: _Envelope, state: UpdateState, code: UpdateCode, text: str, now: Moment) -> None:
        """It comes to its end through the journal, as every other: so its one report survives a power cut."""
        self.parts.log("assignment refused", seq=envelope.claims.seq, code=code.value, why=text)
        self.memory.take_up(self._work(envelope.claims, now).to(state, now, code, text))

    def _work(self, assignment: Assignment, now: Moment) -> Work:
        slot = assignment.slot
        view = self.parts.taking(slot).look(slot) if slot in self.parts.slots else None
        return Work(assignment=assignment, entered=now, previous=self.memory.running(slot, view))

    def _running(self, slot: str) -> RunningRelease:
        """What a slot runs, and would run again if what is on trial were taken back: that is no step back."""
        state = self.parts.store.slots().of(slot)
        release = state.last_good if state.trial else state.active
        terms = None if release is None else self.parts.store.terms(release)
        return RunningRelease(release, 0 if terms is None else terms.counter, terms)


def _order(claims: Assignment) -> tuple[int, int]:
    """As they were given, and of one that was renewed under its number the newest first."""
    return (claims.seq, -claims.issued_ms)
