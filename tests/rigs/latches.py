"""What may be latched, in a module that a process loads at once."""

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.memory import Latch, Record, State

CLEAR = Record(None, (), "boot-1")
LATCH = Latch("0123456789ab", State.SAFE, Condition.WORKER_HUNG.mask | Condition.ESTOP.mask, 5_000_000_000)
LATCHED = Record(LATCH, (1, 5_000_000_000), "boot-1")
