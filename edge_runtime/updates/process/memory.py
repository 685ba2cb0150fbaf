"""The journal, the deny-list and the reports of one device, kept together and written in one order.

What is about to be done is in the journal before it is done. At an end the report comes first, then the deny-list,
then the journal without the work: interrupted anywhere, the end is made once more, with the same number, and the
report that is there stays.
"""

from edge_runtime.protocol.update import (
    CONFIGURATION_SLOT,
    DeviceFacts,
    LeftAs,
    Running,
    StateReport,
    UpdateCode,
    UpdateState,
)
from edge_runtime.updates.machine import Ended, Journal, JournalLost, KnownBad, Moment, Work, denies
from edge_runtime.updates.machine.observed import SlotView
from edge_runtime.updates.process.parts import JOURNAL, KNOWN_BAD, LOST_JOURNAL, Parts
from edge_runtime.updates.process.reports import ReportKeeper

_LARGEST_NUMBER = (1 << 53) - 2


class Memory:
    """What one device remembers of its updates.

    Args:
        parts: of the device.

    Attributes:
        journal: as it is written down.
        known_bad: as it is written down.
        reports: sealed, not yet with the fleet.
        lost: why an earlier journal could not be read; None where it could, or where there was none.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.reports = ReportKeeper(parts.keeping, parts.signer)
        self.lost: str | None = None
        self._floor_ms = 0
        self.known_bad = self._read_known_bad()
        self.journal = self._read_journal()

    def write(self, journal: Journal) -> None:
        """Keep a journal; nothing is written where nothing is new.

        Raises:
            OSError: it cannot be written, and the old one stays, here as well.
        """
        journal = journal.bounded(self._parts.slots)
        if journal != self.journal:
            self._parts.keeping.write(JOURNAL, journal.encode())
            self.journal = journal

    def take_up(self, work: Work, *, told: bool = False) -> int | None:
        """Begin with an assignment, or write down how far it is. An end is given the number of its report.

        Args:
            work: as it is from now on.
            told: a report of progress follows.

        Returns:
            The number of that report; None where none follows.

        Raises:
            OSError: as `write`.
        """
        journal, number = self.journal, None
        if work.state.is_terminal:
            if work.report_no is None:
                journal, last = journal.numbered()
                work = work.model_copy(update={"report_no": last})
        elif told:
            journal, number = journal.numbered()
        self.write(journal.with_work(work))
        return number

    def under(self, director: str) -> None:
        """Count under this director.

        Raises:
            OSError: as `write`.
        """
        if self.journal.director not in (None, director):
            self._parts.log("another director assigns from now on; its numbers begin anew")
            self.known_bad = self.known_bad.under_another_director()
            self._parts.keeping.write(KNOWN_BAD, self.known_bad.encode())
        self.write(self.journal.under(director))

    def lift(self, sha256: str | None, seq: int) -> None:
        """A later assignment names a release again that failed here."""
        lifted = self.known_bad.lifted(sha256, seq)
        if lifted != self.known_bad:
            self._parts.keeping.write(KNOWN_BAD, lifted.encode())
            self.known_bad = lifted

    def end(self, work: Work, left: LeftAs, now: Moment, view: SlotView | None) -> None:
        """Report that an assignment has ended, and forget it but for the record.

        Raises:
            OSError: something cannot be written; do it again.
        """
        assert work.report_no is not None
        self.reports.keep(self._report(work.slot, work.report_no, now, view, work=work, left=left))
        denied = work.release if denies(work) else None
        slot = work.slot if work.code is not UpdateCode.SLOT_UNKNOWN else None
        # any number of the present director is later than one of an earlier director
        counted = work.seq if work.order > self.journal.before else 0
        known_bad = self.known_bad.with_end(slot, counted, work.report_no, denied)
        if known_bad != self.known_bad:
            self._parts.keeping.write(KNOWN_BAD, known_bad.encode())
            self.known_bad = known_bad
        ended = Ended(
            seq=work.seq,
            order=work.order,
            slot=work.slot,
            action=work.assignment.action,
            state=work.state,
            code=work.code,
            text=work.text,
            left=left,
            sha256=work.release,
            target=work.assignment.target,
            rollout=work.assignment.rollout,
            report_no=work.report_no,
            at_ms=now.wall_ms,
        )
        self.write(self.journal.without(work.seq, ended))

    def give_up(self, slot: str, release: str, code: UpdateCode, text: str) -> None:
        """A release that was accepted does not stay: known bad until a later assignment names it again.

        Raises:
            OSError: as `end`.
        """
        # an assignment that is heard may still be under way: of none it is said here that it has ended
        known_bad = self.known_bad.with_end(None, self.journal.heard.get(slot, 0), 0, release)
        if known_bad != self.known_bad:
            self._parts.keeping.write(KNOWN_BAD, known_bad.encode())
            self.known_bad = known_bad
        self.write(self.journal.went_back(slot, release, code, text))

    def tell(
        self,
        slot: str,
        now: Moment,
        view: SlotView | None,
        *,
        work: Work | None = None,
        seq: int = 0,
        state: UpdateState | None = None,
        code: UpdateCode | None = None,
        text: str = "",
        done: tuple[int, int] | None = None,
        number: int | None = None,
    ) -> None:
        """Report how a slot stands, or how far a work is; `number` is one that `take_up` gave.

        Raises:
            OSError: it cannot be written.
        """
        if number is None:
            journal, number = self.journal.numbered()
            self.write(journal)
        self.reports.keep(
            self._report(
                slot, number, now, view, work=work, seq=seq, state=state, code=code, text=text, done=done
            )
        )

    def running(self, slot: str, view: SlotView | None) -> Running:
        """What a slot runs: as perception says it, or, where that does not answer, as it is written down."""
        if view is not None:
            release, package = view.in_use.release, view.in_use.package
        else:
            release, package = self._parts.store.slots().of(slot).active, None
        terms = None if release is None else self._parts.store.terms(release)
        if slot == CONFIGURATION_SLOT:
            package = None
        elif package is None and terms is not None:
            package = terms.package
        return Running(sha256=release, counter=0 if terms is None else terms.counter, package=package)

    @property
    def floor_ms(self) -> int:
        """Before this it is not; while a refresh has the trust for itself, as it was known before."""
        if self._parts.refreshing.about is None:
            self._floor_ms = max(0, self._parts.trust.time_floor_ms())
        return self._floor_ms

    def renew_nonce(self) -> None:
        """A new nonce for the next reports.

        Raises:
            OSError: as `write`.
        """
        self.write(self.journal.model_copy(update={"nonce": self._parts.nonce()}))

    def _report(
        self,
        slot: str,
        number: int,
        now: Moment,
        view: SlotView | None,
        *,
        work: Work | None = None,
        left: LeftAs | None = None,
        seq: int = 0,
        state: UpdateState | None = None,
        code: UpdateCode | None = None,
        text: str = "",
        done: tuple[int, int] | None = None,
    ) -> StateReport:
        if work is not None:
            seq, state, code, text = work.seq, work.state, work.code, work.text
        return StateReport(
            device=self._parts.device,
            boot_id=now.boot_id,
            report_no=number,
            seq=seq,
            slot=slot,
            state=state,
            terminal=state is not None and state.is_terminal,
            code=code,
            text=text[:300],
            left=left,
            rollout=None if work is None else work.assignment.rollout,
            running=self.running(slot, view),
            previous=None if work is None else work.previous,
            facts=self._facts(),
            done_bytes=None if done is None else done[0],
            of_bytes=None if done is None else done[1],
            time_floor_ms=self.floor_ms,
            at_ms=now.wall_ms,
            clock_synced=now.synced,
            nonce=self.journal.nonce,
        )

    def _facts(self) -> DeviceFacts:
        return self._parts.around.facts()

    def _read_known_bad(self) -> KnownBad:
        try:
            found = KnownBad.decode(self._parts.keeping.read(KNOWN_BAD))
        except OSError:
            found = None
        if found is None:
            self._parts.log("the list of releases that failed here cannot be read; it begins anew")
        return found or KnownBad()

    def _read_journal(self) -> Journal:
        data = None
        try:
            data = self._parts.keeping.read(JOURNAL)
            if data is None and (self.reports.last_no or self.known_bad != KnownBad()):
                raise JournalLost("it is gone, and what it spoke of is not")
            journal = Journal() if data is None else Journal.decode(data)
        except (OSError, JournalLost) as error:
            self.lost = getattr(error, "strerror", None) or str(error)
            self._parts.log("the journal of updates cannot be read; what runs stays", why=self.lost)
            if data is not None:
                self._parts.keeping.write(LOST_JOURNAL, data)
            journal = self._after_loss()
        return journal.model_copy(update={"report_no": max(journal.report_no, self.reports.last_no)})

    def _after_loss(self) -> Journal:
        """What can still be known: which assignments ended, and a number above every one that was ever given.

        Numbers count from 1 otherwise, so that the time in milliseconds is above them, and above those of an
        earlier loss.
        """
        ended = self.known_bad.ended
        now_ms = max(Moment.now(self._parts.clock).wall_ms, self.floor_ms)
        number = max(self.known_bad.report_no + 1000, now_ms, self.reports.last_no)
        return Journal(report_no=min(number, _LARGEST_NUMBER), heard=dict(ended), floors=dict(ended))
