"""The permission to move and what is on disk about it: the order of the two is what the guard promises.

The permission ends before anything else is done. What is latched is on disk before anything else is told. That
motion is permitted is on disk before the first lease. Where the disk takes nothing there is no permission.
"""

import os

from edge_runtime.guard.block import boot_id
from edge_runtime.guard.latch import Found, LatchFile
from edge_runtime.guard.lease import RENEWAL_NS, LeaseWriter
from edge_runtime.guard.memory import Memory, Outputs, Record
from edge_runtime.guard.settings import Settings
from edge_runtime.guard.slot import Clock

LATCH_FILE = "latch.json"

RETRY_NS = 1_000_000_000
"""How often a write that the disk did not take is tried again while nothing is permitted."""


class Permission:
    """The lease and the latch file of a guard.

    Args:
        settings: of the guard.
        clock: CLOCK_MONOTONIC.

    Attributes:
        renewal_ns: how often the lease is renewed.
        until_ns: until when anything was permitted last.
        written_ns: how long the disk has taken for all that was written down.

    Raises:
        SharedMemoryError: the lease cannot be made.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._profile, self._clock = settings, settings.profile, clock
        self._lease = LeaseWriter(self._profile.lease_ns)
        self._latch = LatchFile(os.path.join(settings.directory, LATCH_FILE))
        # Three renewals may fail. Where nothing can move there is no hurry: 100 turns a second cost 2 % of a core.
        quarter_ns = self._profile.lease_ns // 4
        self.renewal_ns = quarter_ns if settings.arms_itself else min(RENEWAL_NS, quarter_ns)
        self.until_ns = self.written_ns = 0
        self._renewed_ns = 0
        self._tried_ns = 0
        self._permits = False

    @property
    def due_ns(self) -> int | None:
        """When the lease has to be renewed; None while nothing is permitted."""
        return self._renewed_ns + self.renewal_ns if self._permits else None

    @property
    def trouble(self) -> str | None:
        """Why the last write to the disk failed, a sentence; None where it did not."""
        return self._latch.trouble

    def find(self) -> Found:
        """What an earlier guard left on disk.

        A body that cannot latch leaves alone what another profile left here. Where there is no file, a body that
        cannot move was never left in an unknown state.
        """
        nothing = Record(None, (), boot_id().hex())
        if not self._profile.remembers:
            return Found(nothing)
        found = self._latch.find()
        return Found(nothing) if found.missing and not self._settings.moves else found

    def withdraw(self, memory: Memory, outputs: Outputs) -> None:
        """End the permission where it ends, and write down what is latched; the first thing that is done."""
        if not outputs.permit and (self._permits or outputs.changes):
            self._lease.revoke(memory.state.value)
            self.until_ns = min(self.until_ns, self._clock())
        self._permits = outputs.permit
        if outputs.record is not None:
            self.save(memory, permitting=False)

    def grant(self, now_ns: int, memory: Memory, outputs: Outputs) -> None:
        """Renew the lease where there is a permission; the last thing that is done.

        Args:
            now_ns: when what justifies it was looked at.
            memory: of the state machine.
            outputs: of its step.
        """
        if outputs.permit and self.save(memory, permitting=True):
            # with a time of its own: what took long shortens nothing that is promised
            renewed_ns = self._clock()
            if renewed_ns - now_ns <= self._profile.late_ns:
                self._lease.renew(renewed_ns, memory.state.value, self._profile.limits.index(outputs.limits))
                self._renewed_ns = renewed_ns
                self.until_ns = renewed_ns + self._profile.lease_ns
        elif not outputs.permit and (
            self._is_unwritten(now_ns) or (memory.latch is None and outputs.changes)
        ):
            self.save(memory, permitting=False)
            self._tried_ns = now_ns

    def _is_unwritten(self, now_ns: int) -> bool:
        """Whether the disk did not take what had to be written: a guard that ended now would forget it."""
        return self._latch.trouble is not None and now_ns - self._tried_ns >= RETRY_NS

    def save(self, memory: Memory, *, permitting: bool) -> bool:
        """Write down what is latched, and whether a lease may be given; whether it is on disk."""
        if not self._profile.remembers:
            return True
        began_ns = self._clock()
        record = Record(memory.latch, memory.latches_ns, memory.boot_id)
        saved = self._latch.save(record, permitting=permitting)
        self.written_ns += self._clock() - began_ns
        return saved

    def handover(self) -> tuple[tuple[int, ...], dict[str, str]]:
        """What a worker is given to read the lease."""
        return self._lease.handover()

    def left_ms(self, now_ns: int) -> int:
        """How long the present lease is still good for."""
        return max(0, self.until_ns - now_ns) // 1_000_000 if self._permits else 0

    def revoke(self) -> None:
        """End it: the guard ends."""
        self._lease.revoke("ENDED")

    def close(self) -> None:
        """Nobody can write the lease any more."""
        self._lease.close()
