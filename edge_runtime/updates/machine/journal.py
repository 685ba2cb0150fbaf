"""The machine's memory across restarts: one file, written before anything is done that it speaks of."""

import errno
import hashlib
from collections.abc import Collection
from typing import Annotated

from pydantic import Field, ValidationError

from edge_runtime.protocol.update import LeftAs, SlotName, UpdateAction, UpdateCode, UpdateState
from edge_runtime.updates.machine.moment import OnDisk
from edge_runtime.updates.machine.work import Ended, Number, Work

MOST_ENDED = 64
MOST_WORKS = 16
MOST_SLOTS = 64


class JournalUnfit(OSError):
    """A journal that could not be read again: it is not written, and the one on the disk stays."""


class JournalLost(Exception):
    """The journal is there and cannot be read."""


class Journal(OnDisk):
    """All that the machine knows.

    Attributes:
        report_no: the last one that was given away; none is given twice.
        nonce: that the next assignment may repeat; None before the first report.
        heard: the newest assignment of each slot that was accepted, refused or found too old; not of slots that
            this device lacks, of which there is no end.
        floors: of each slot, up to where nothing is known, because an earlier journal was lost.
        director: whose numbers these are; another one counts anew.
        orders: of works so far.
        before: works up to this order were another director's: their numbers say nothing once they have ended.
        works: accepted and not at their end; the first one is worked at.
        ended: the newest at the end.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    report_no: Number = 0
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    heard: dict[SlotName, Number] = Field(default_factory=dict, max_length=MOST_SLOTS)
    floors: dict[SlotName, Number] = Field(default_factory=dict, max_length=MOST_SLOTS)
    director: Annotated[str, Field(max_length=128)] | None = None
    orders: Number = 0
    before: Number = 0
    works: Annotated[tuple[Work, ...], Field(max_length=MOST_WORKS)] = ()
    ended: Annotated[tuple[Ended, ...], Field(max_length=MOST_ENDED)] = ()

    @property
    def current(self) -> Work | None:
        """What is worked at; None where nothing is."""
        return self.works[0] if self.works else None

    def is_busy(self, slot: str) -> bool:
        """Whether anything goes on with a slot."""
        return any(work.slot == slot for work in self.works)

    def knows(self, seq: int) -> bool:
        """Whether an assignment is being worked at or was ended, as far back as is remembered."""
        return any(work.seq == seq for work in self.works) or any(end.seq == seq for end in self._own_ended())

    def forgot(self, slot: str, seq: int) -> bool:
        """Whether an assignment is so old that its end may have been forgotten."""
        own = self._own_ended()
        full = len(own) == MOST_ENDED and seq < min(end.seq for end in own)
        return full or seq <= self.floors.get(slot, 0)

    def with_work(self, work: Work) -> "Journal":
        """With a work added, or in the place of what it was before.

        Its number is heard when it is added, and not again: by then its director may have lost the key.
        """
        orders, heard = self.orders, self.heard
        if not work.order:
            orders += 1
            work = work.model_copy(update={"order": orders})
            heard = self._heard(work.slot, work.seq, work.code)
        others = [other for other in self.works if other.seq != work.seq]
        works = tuple(sorted((*others, work), key=_urgency))
        return self.model_copy(update={"works": works, "heard": heard, "orders": orders})

    def newer(self, work: Work) -> UpdateAction | None:
        """What a later assignment to the same slot asks for; None where there is none."""
        later = [other for other in self.works if other.slot == work.slot and other.order > work.order]
        return max(later, key=lambda other: other.order).assignment.action if later else None

    def under(self, director: str) -> "Journal":
        """The same under another director, whose numbers begin anew.

        Whoever steals a director's key can use up all numbers of a device with one assignment. Taking the key away
        from him makes another director, and nothing that the old one numbered is in the way of it.
        """
        if self.director is None or self.director == director:
            return self.model_copy(update={"director": director})
        anew = {"director": director, "heard": {}, "floors": {}, "before": self.orders}
        return self.model_copy(update={**anew, "ended": self.ended[-MOST_ENDED // 4 :]})

    def without(self, seq: int, ended: Ended) -> "Journal":
        """With a work at its end."""
        works = tuple(work for work in self.works if work.seq != seq)
        return self.model_copy(update={"works": works, "ended": (*self.ended, ended)[-MOST_ENDED:]})

    def _own_ended(self) -> tuple[Ended, ...]:
        """Those whose numbers the present director gave; an earlier build wrote no order down."""
        return tuple(end for end in self.ended if end.order > self.before or not self.before)

    def went_back(self, slot: str, release: str, code: UpdateCode, text: str) -> "Journal":
        """With the newest end of a slot as it turned out: its release was well, and was given up later."""
        well = [one for one in self.ended if one.slot == slot and one.state is UpdateState.HEALTHY]
        if not well or well[-1].sha256 != release:
            return self
        change = {"state": UpdateState.REVERTED, "code": code, "text": text[:300], "left": LeftAs.REVERTED}
        ended = tuple(one.model_copy(update=change) if one is well[-1] else one for one in self.ended)
        return self.model_copy(update={"ended": ended})

    def bounded(self, own: Collection[str]) -> "Journal":
        """The same with as many slots as can be read again, those of this device before all others."""
        if max(len(self.heard), len(self.floors)) <= MOST_SLOTS:
            return self

        def newest(numbers: dict[SlotName, Number]) -> dict[SlotName, Number]:
            first = sorted(numbers, key=lambda slot: (slot not in own, -numbers[slot], slot))
            return {slot: numbers[slot] for slot in first[:MOST_SLOTS]}

        return self.model_copy(update={"heard": newest(self.heard), "floors": newest(self.floors)})

    def _heard(self, slot: str, seq: int, code: UpdateCode | None) -> dict[SlotName, Number]:
        if code is UpdateCode.SLOT_UNKNOWN:
            return self.heard
        return {**self.heard, slot: max(seq, self.heard.get(slot, 0))}

    def numbered(self) -> tuple["Journal", int]:
        """The number of the next report, and the journal that has given it away."""
        number = self.report_no + 1
        return self.model_copy(update={"report_no": number}), number

    def encode(self) -> bytes:
        """As a file: a digest on the first line, and what it is of.

        Raises:
            JournalUnfit: it would not be read again.
        """
        body = self.model_dump_json(exclude_none=True).encode()
        try:
            type(self).model_validate_json(body)
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(step) for step in found["loc"])
            text = f"the journal of updates would not be read again: {place}: {found['msg']}"
            raise JournalUnfit(errno.EINVAL, text) from None
        return hashlib.sha256(body).hexdigest().encode() + b"\n" + body + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> "Journal":
        """Of a file.

        Raises:
            JournalLost: it is damaged.
        """
        digest, _, rest = data.partition(b"\n")
        body = rest.removesuffix(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise JournalLost("its digest is another")
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise JournalLost(f"it does not read as a journal: {error.error_count()} places") from None


def _urgency(work: Work) -> tuple[bool, bool, int]:
    """What is ending goes first, then as they came; what waits for a window keeps no other slot from its work."""
    return (not work.state.is_terminal, work.state is UpdateState.WAITING, work.order)
