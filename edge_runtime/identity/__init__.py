"""Who this device is towards the fleet: enrolment, the certificate, and its renewal."""

from edge_runtime.identity.enrol import enrol
from edge_runtime.identity.identity import Identity, ssl_context
from edge_runtime.identity.problems import IdentityError, Refused, ServerUnreachable, WrongServer
from edge_runtime.identity.renew import renew
from edge_runtime.identity.standing import standing

__all__ = [
    "Identity",
    "IdentityError",
    "Refused",
    "ServerUnreachable",
    "WrongServer",
    "enrol",
    "renew",
    "ssl_context",
    "standing",
]
