"""The device's identity from enrolment, as the uplink uses it."""

from collections.abc import Callable

from edge_runtime.clock import Clock
from edge_runtime.errors import ConfigError
from edge_runtime.identity import Identity, renew, ssl_context
from edge_runtime.state import StateDirectory
from edge_runtime.uplink.ports import LinkIdentity


def link_identity(identity: Identity, clock: Clock) -> LinkIdentity:
    """An identity as the uplink takes it.

    Args:
        identity: of the enrolled device.
        clock: says when the certificate is due.
    """
    return LinkIdentity(
        device=identity.device,
        broker=identity.broker,
        server_url=identity.server_url,
        tls=lambda: ssl_context(identity),
        renew_in_s=lambda: identity.renew_in_s(clock.wall()),
        client_id=identity.client_id,
    )


def enrolled(state: StateDirectory, clock: Clock) -> LinkIdentity:
    """The identity in a state directory.

    Raises:
        ConfigError: the device is not enrolled.
        IdentityError: there is one that cannot be read.
    """
    return link_identity(_load(state), clock)


def renewal(state: StateDirectory, clock: Clock, proxy: str | None) -> Callable[[], LinkIdentity]:
    """Renews the certificate, when called; raises `IdentityError` where that failed."""

    def renewed() -> LinkIdentity:
        return link_identity(renew(_load(state), clock=clock, proxy=proxy), clock)

    return renewed


def _load(state: StateDirectory) -> Identity:
    found = Identity.load(state)
    if found is None:
        raise ConfigError("not enrolled: edge-runtime enrol --server URL --token TOKEN")
    return found
