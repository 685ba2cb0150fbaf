"""How signed envelopes travel: what a device should run, retained, and what it says of itself."""

import re
from typing import Annotated

from pydantic import Field

from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.update import MAX_ENVELOPE_BYTES
from edge_runtime.protocol.wire import WireRecord

REPORT_FILE = re.compile(r"([0-9]{16})\.(terminal|progress)")
"""Name of a file that holds one sealed report: its number, and whether anything follows it for its assignment."""

Sealed = Annotated[bytes, Field(min_length=2, max_length=MAX_ENVELOPE_BYTES)]


class Desired(WireRecord):
    """On `down/desired`, retained: the newest assignment of each slot. The broker is not trusted with it.

    Attributes:
        assignments: envelopes of `protocol.update.Assignment`.
        settled: an envelope of `protocol.update.Settled`: terminal reports that the server has committed, and that
            the device stops sending; None where there are none.
    """

    device: DeviceId
    assignments: Annotated[tuple[Sealed, ...], Field(max_length=16)] = ()
    settled: Sealed | None = None


class StateReports(WireRecord):
    """On `up/state`: envelopes of `protocol.update.StateReport`, the oldest first."""

    device: DeviceId
    reports: Annotated[tuple[Sealed, ...], Field(min_length=1, max_length=16)]
