"""What this device will not try again, and which assignments came to their end here: a file apart from the journal.

Both outlive a journal that cannot be read. Then what was found bad is not taken again from an assignment that the
broker still retains, and what was ended is not begun anew.
"""

import json
from typing import Annotated

from pydantic import Field, ValidationError

from edge_runtime.protocol.release import Sha256
from edge_runtime.protocol.update import SlotName
from edge_runtime.updates.machine.moment import OnDisk
from edge_runtime.updates.machine.work import Number

MOST = 256


class KnownBad(OnDisk):
    """The deny-list, and the last assignment of each slot that ended.

    Attributes:
        denied: releases that failed here, by the number of the assignment under which they did. Only a later
            assignment that names one again lifts it.
        ended: by slot.
        report_no: of the last terminal report.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    denied: dict[Sha256, Number] = Field(default_factory=dict, max_length=MOST)
    ended: dict[SlotName, Number] = Field(default_factory=dict, max_length=64)
    report_no: Number = 0

    def for_seq(self, seq: int) -> frozenset[str]:
        """The releases that an assignment of this number may not bring."""
        return frozenset(sha256 for sha256, at in self.denied.items() if at >= seq)

    def with_end(self, slot: str | None, seq: int, report_no: int, denied: str | None) -> "KnownBad":
        """With one more assignment that ended; `denied` names its release where it failed here.

        `slot` is None where this device lacks it: those would push out its own.
        """
        ended = dict(self.ended) if slot is None else {**self.ended, slot: max(seq, self.ended.get(slot, 0))}
        found = dict(self.denied)
        if denied is not None:
            found[denied] = max(seq, found.get(denied, 0))
            while len(found) > MOST:
                del found[min(found, key=lambda sha256: found[sha256])]
        while len(ended) > 64:
            del ended[min(ended, key=lambda name: ended[name])]
        return KnownBad(denied=found, ended=ended, report_no=max(report_no, self.report_no))

    def under_another_director(self) -> "KnownBad":
        """The same, but any assignment of another director is a later one."""
        return self.model_copy(update={"denied": dict.fromkeys(self.denied, 0), "ended": {}})

    def lifted(self, sha256: str | None, seq: int) -> "KnownBad":
        """Without a release that a later assignment names again."""
        if sha256 is None or self.denied.get(sha256, seq) >= seq:
            return self
        kept = {name: at for name, at in self.denied.items() if name != sha256}
        return self.model_copy(update={"denied": kept})

    def encode(self) -> bytes:
        """As a file."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes | None) -> "KnownBad | None":
        """Of a file; None where it cannot be read, and an empty one where there is none."""
        if data is None:
            return cls()
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return None
