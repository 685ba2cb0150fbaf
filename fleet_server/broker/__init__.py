"""The broker between devices and the server: NATS as a child process, or another one by files."""

from fleet_server.broker.broker import Broker, BrokerError, BrokerState, BrokerStatus
from fleet_server.broker.embedded import EmbeddedBroker, EmbeddedSettings
from fleet_server.broker.external import ExternalBroker, ExternalFiles
from fleet_server.broker.follow import BrokerFollower
from fleet_server.broker.users import BrokerUser

__all__ = [
    "Broker",
    "BrokerError",
    "BrokerFollower",
    "BrokerState",
    "BrokerStatus",
    "BrokerUser",
    "EmbeddedBroker",
    "EmbeddedSettings",
    "ExternalBroker",
    "ExternalFiles",
]
