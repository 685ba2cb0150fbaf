"""Store: content by its digest, releases made of it by hard links, and which release each slot runs.

One process writes here, the one of updates; perception reads, and counts its own starts with a release on trial.
"""

from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import Slots, SlotState, read_slots
from edge_runtime.updates.store.starting import MAX_TRIAL_STARTS, AtStart, begin_start, trial_starts
from edge_runtime.updates.store.store import ReleaseStore
from edge_runtime.updates.wants import Want

__all__ = [
    "MAX_TRIAL_STARTS",
    "AtStart",
    "Places",
    "ReleaseStore",
    "SlotState",
    "Slots",
    "Want",
    "begin_start",
    "read_slots",
    "trial_starts",
]
