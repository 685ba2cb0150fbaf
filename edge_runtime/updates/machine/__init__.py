"""The machine of updates: pure steps from what is seen to what is next, and a journal that outlives power cuts."""

from edge_runtime.updates.machine.ending import denies
from edge_runtime.updates.machine.journal import Journal, JournalLost
from edge_runtime.updates.machine.known_bad import KnownBad
from edge_runtime.updates.machine.machine import step
from edge_runtime.updates.machine.moment import Moment
from edge_runtime.updates.machine.orders import Order
from edge_runtime.updates.machine.seen import Decision, Rules, Seen
from edge_runtime.updates.machine.table import TABLE, Deadlines
from edge_runtime.updates.machine.work import Ended, Work

__all__ = [
    "TABLE",
    "Deadlines",
    "Decision",
    "Ended",
    "Journal",
    "JournalLost",
    "KnownBad",
    "Moment",
    "Order",
    "Rules",
    "Seen",
    "Work",
    "denies",
    "step",
]
