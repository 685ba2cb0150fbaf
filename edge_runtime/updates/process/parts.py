"""What a driver of updates is made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from securesystemslib.signer import Signer

from edge_runtime.clock import Clock
from edge_runtime.updates.machine.seen import Rules
from edge_runtime.updates.process.ports import (
    Errands,
    Fetching,
    Keeping,
    Storing,
    Surroundings,
    Taking,
    Trusting,
)

DESIRED, JOURNAL, LOST_JOURNAL, KNOWN_BAD = "desired", "journal.json", "journal.lost", "denied.json"
"""Files below `STATE/updates`."""

OWN_FILES = (JOURNAL, LOST_JOURNAL, KNOWN_BAD, "reports")
"""Those that only the process of updates writes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The ports of one device, and its rules.

    Attributes:
        device: its id in the fleet.
        slots: names of all its slots, each configured model and `configuration`.
        taking: who loads and runs the releases of a slot, by the slot's name.
        refreshing, errands: for the metadata, and for releases.
        signer: with the device's key.
        rules: of this device.
        nonce: gives 32 hexadecimal digits that nobody can foretell.
        log: is told a sentence that people may want, as `log("assignment refused", seq=7)`.
    """

    device: str
    slots: Sequence[str]
    trust: Trusting
    fetch: Fetching
    store: Storing
    taking: Callable[[str], Taking]
    around: Surroundings
    refreshing: Errands
    errands: Errands
    keeping: Keeping
    signer: Signer
    rules: Rules
    clock: Clock
    nonce: Callable[[], str]
    log: Callable[..., object]
