"""The fault injector: makes parts of a device fail on purpose, where its own configuration permits that.

Off by default; a device in the field refuses it; only who owns the state directory may ask for it; what cannot be
injected is refused with the reason; each fault is told as it begins and as it ends.
"""

from edge_runtime.faults.catalogue import EFFECTS, Effect, FaultRefused, Kind, Unit, effect_of
from edge_runtime.faults.injection import LONGEST_S, Injection, injection, refuse_absent
from edge_runtime.faults.orders import Injector, orders_file, read_orders, write_orders

__all__ = [
    "EFFECTS",
    "LONGEST_S",
    "Effect",
    "FaultRefused",
    "Injection",
    "Injector",
    "Kind",
    "Unit",
    "effect_of",
    "injection",
    "orders_file",
    "read_orders",
    "refuse_absent",
    "write_orders",
]
