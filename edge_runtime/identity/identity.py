"""Who this device is: what enrolment left on the disk, ready for TLS."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.identity.files import AUTHORITY, CERTIFICATE, KEY, IdentityRecord, load_record
from edge_runtime.identity.problems import IdentityError
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.state import StateDirectory


@dataclass(frozen=True, slots=True)
class Identity:
    """An enrolled device.

    Attributes:
        client_id: under which it speaks to the broker: the device's id and a random part that stays the same.
        broker: where the broker listens.
        server_url: address of the fleet server.
        not_after_ms: when its certificate ends, milliseconds since 1970.
        renew_at_ms: when it should be renewed, by the wall clock.
    """

    state: StateDirectory
    device: str
    client_id: str
    broker: BrokerAddress
    server_url: str
    not_before_ms: int
    not_after_ms: int
    renew_at_ms: int
    token_id: str

    @classmethod
    def load(cls, state: StateDirectory) -> "Identity | None":
        """The identity in a state directory, or None when the device is not enrolled.

        Raises:
            IdentityError: there is one and it cannot be read.
        """
        record = load_record(state)
        return None if record is None else cls.of(state, record)

    @classmethod
    def of(cls, state: StateDirectory, record: IdentityRecord) -> "Identity":
        """The identity that a record describes."""
        return cls(
            state=state,
            device=record.device,
            client_id=record.client_id,
            broker=record.broker,
            server_url=record.server_url,
            not_before_ms=record.not_before_ms,
            not_after_ms=record.not_after_ms,
            renew_at_ms=record.renew_at_ms,
            token_id=record.token_id,
        )

    @property
    def key_path(self) -> Path:
        """The private key, mode 0600."""
        return self.state.identity / KEY

    @property
    def certificate_path(self) -> Path:
        """The device's certificate."""
        return self.state.identity / CERTIFICATE

    @property
    def authority_path(self) -> Path:
        """The one authority that the device trusts."""
        return self.state.identity / AUTHORITY

    def renew_in_s(self, now: WallLabel) -> float | None:
        """Seconds until the certificate should be renewed; 0 or less when it is due.

        Args:
            now: the wall clock's label. A clock before the certificate's beginning is wrong.

        Returns:
            None when the clock is wrong, so that nobody can say.
        """
        now_ms = now.unix_ns // NS_PER_MS
        return None if now_ms < self.not_before_ms else (self.renew_at_ms - now_ms) / 1000


def ssl_context(identity: Identity) -> ssl.SSLContext:
    """TLS 1.2 or newer with the device's certificate, trusting the fleet's authority and no other.

    Raises:
        IdentityError: the files cannot be used.
    """
    for is_last in (False, True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(cafile=str(identity.authority_path))
            context.load_cert_chain(identity.certificate_path, identity.key_path)
        except OSError as error:  # ssl.SSLError is one
            # once more: another process may just have exchanged the folder between certificate and key
            if is_last:
                reason = "damaged" if isinstance(error, ssl.SSLError) else (error.strerror or "not readable")
                raise IdentityError(
                    f"the identity in {identity.state.identity} is {reason}: enrol again with a new token"
                ) from None
            continue
        return context
    raise AssertionError("unreachable: the second pass returns or raises")
