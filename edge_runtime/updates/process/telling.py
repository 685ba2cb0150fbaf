"""What the fleet is told besides ends: what each slot runs, when that changes, and how a download goes."""

from edge_runtime.protocol.update import UpdateCode, UpdateState
from edge_runtime.updates.machine import Moment, Work
from edge_runtime.updates.machine.observed import SlotView
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.memory import Memory
from edge_runtime.updates.process.parts import Parts

_WATCH_MS = 30_000
_TENTHS = 10


class Telling:
    """Tells what is news, once.

    Args:
        parts: of the device.
        memory: where reports are numbered and kept.
    """

    def __init__(self, parts: Parts, memory: Memory) -> None:
        self._parts, self._memory = parts, memory
        self._told: dict[str, tuple[str | None, str | None]] = {}
        self._watched: Moment | None = None
        self._tenth = (0, 0)

    def turn(self, now: Moment) -> None:
        """What runs is told anew when it changes by itself: it makes a verdict of the fleet worth a second look.

        Raises:
            OSError: the disk fails; the next turn tells it.
        """
        if self._watched is not None and self._watched.age_ms(now) < _WATCH_MS:
            return
        for slot in self._parts.slots:
            view = self._look(slot)
            if view is None or self.went_back(slot, now) or self._memory.journal.is_busy(slot):
                continue
            gone = view.given_up
            if (view.in_use.release, view.in_use.package) != self._told.get(slot):
                self.slot(slot, now, None if gone is None else gone.code, "" if gone is None else gone.text)
        self._watched = now

    def slot(self, slot: str, now: Moment, code: UpdateCode | None = None, text: str = "") -> None:
        """Tell how a slot stands.

        Raises:
            OSError: as `turn`.
        """
        view = self._look(slot)
        self._memory.tell(slot, now, view, code=code, text=text)
        self.note(slot, view)

    def note(self, slot: str, view: SlotView | None) -> None:
        """The fleet has just been told what runs."""
        running = self._memory.running(slot, view)
        self._told[slot] = (running.sha256, running.package)

    def went_back(self, slot: str, now: Moment) -> bool:
        """Whether perception gave up what had been accepted, because it did not stay; then that is told and kept.

        Its assignment has had its one terminal report: the fleet is told that something else runs, and why.
        Interrupted anywhere, it is done once more. A later assignment that is under way goes on; what it may have
        to go back to is what runs, so this is written down before its trial begins, and not during one.

        Raises:
            OSError: as `turn`.
        """
        view, state = self._look(slot), self._parts.store.slots().of(slot)
        gone = None if view is None else view.given_up
        if gone is None or gone.code is not UpdateCode.CRASH_LOOP:
            return False
        if state.trial or state.active != gone.release:
            return False
        self._parts.log("an accepted release is given up", slot=slot, release=gone.release, why=gone.text)
        self.slot(slot, now, gone.code, gone.text)
        self._memory.give_up(slot, gone.release, gone.code, gone.text)
        try:
            self._parts.store.give_up(slot, gone.release)
        except UpdateRefused as refused:
            self._parts.log("that is written down later", slot=slot, why=str(refused))
        return True

    def download(self, work: Work, now: Moment) -> None:
        """Ten reports of a download at most, whatever it is cut into.

        Raises:
            OSError: as `turn`.
        """
        errands = self._parts.errands
        if work.state is not UpdateState.DOWNLOADING or errands.about != str(work.seq):
            return
        found = errands.look()
        tenth = found.done_bytes * _TENTHS // max(1, found.of_bytes)
        if (work.seq, tenth) > self._tenth and 0 < tenth < _TENTHS:
            self._tenth = (work.seq, tenth)
            done = (found.done_bytes, found.of_bytes)
            self._memory.tell(work.slot, now, self._look(work.slot), work=work, done=done)

    def _look(self, slot: str) -> SlotView | None:
        return self._parts.taking(slot).look(slot) if slot in self._parts.slots else None
