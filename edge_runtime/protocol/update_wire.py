"""How signed envelopes travel: what a device should run, retained, and what it says of itself."""

from typing import Annotated

from pydantic import Field

from edge_runtime.protocol.delivery import Count
from edge_runtime.protocol.topics import DeviceId
from edge_runtime.protocol.update import MAX_ENVELOPE_BYTES
from edge_runtime.protocol.wire import WireRecord

Sealed = Annotated[bytes, Field(min_length=2, max_length=MAX_ENVELOPE_BYTES)]


class Desired(WireRecord):
    """On `down/desired`, retained: the newest assignment of each slot. The broker is not trusted with it.

    Attributes:
        assignments: envelopes of `protocol.update.Assignment`.
        settled: assignments whose terminal report the server has committed; the device stops sending them.
    """

    device: DeviceId
    assignments: Annotated[tuple[Sealed, ...], Field(max_length=16)] = ()
    settled: Annotated[tuple[Count, ...], Field(max_length=64)] = ()


class StateReports(WireRecord):
    """On `up/state`: envelopes of `protocol.update.StateReport`, the oldest first."""

    device: DeviceId
    reports: Annotated[tuple[Sealed, ...], Field(min_length=1, max_length=16)]
