"""From the outbox to the fleet server: sessions, pacing, receipts. Its death or hang never costs an event."""

from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.engine import Uplink
from edge_runtime.uplink.line import TooManyHanging
from edge_runtime.uplink.ports import CommandAnswer, Hands, LinkIdentity
from edge_runtime.uplink.settings import Profile, ProtocolChoice, UplinkSettings

__all__ = [
    "ByteBudget",
    "CommandAnswer",
    "Hands",
    "LinkIdentity",
    "Profile",
    "ProtocolChoice",
    "TooManyHanging",
    "Uplink",
    "UplinkSettings",
]
