"""Lifetimes, the signature under a pending certificate, and the answer that a device gets."""

from dataclasses import dataclass

from edge_runtime.clock import Clock
from edge_runtime.protocol.enrolment import BrokerAddress, EnrolmentResponse, EnrolmentState
from fleet_server.authority import CertificateAuthority, CertificateRequest
from fleet_server.authority.authority import now_ms
from fleet_server.devices.states import CertificateState
from fleet_server.storage.device_tables import CertificateRow

ASK_AGAIN_S = 60
"""`renew_after_s` of an answer that is still pending."""


@dataclass(frozen=True, slots=True)
class EnrolmentRules:
    """How long things last.

    Attributes:
        certificate_s: lifetime of a device's certificate.
        renew_at: share of the lifetime after which the device should renew.
        grace_s: a certificate that ran out less than this ago may still be renewed, if nobody revoked it.
    """

    certificate_s: int = 30 * 86_400
    renew_at: float = 2 / 3
    grace_s: int = 90 * 86_400


def sign(
    authority: CertificateAuthority,
    row: CertificateRow,
    wanted: CertificateRequest,
    rules: EnrolmentRules,
    now: int,
) -> None:
    """Turn a pending certificate into an active one."""
    issued = authority.sign_client(row.device, wanted.key, serial=row.serial, lifetime_s=rules.certificate_s)
    row.pem, row.not_after_ms = issued.pem, issued.not_after_ms
    row.state, row.changed_ms = CertificateState.ACTIVE.value, now


@dataclass(frozen=True, slots=True)
class Issuer:
    """What signing and answering need.

    Attributes:
        broker_address: told to devices.
    """

    authority: CertificateAuthority
    clock: Clock
    broker_address: BrokerAddress
    rules: EnrolmentRules

    def now(self) -> int:
        """The wall clock in milliseconds since 1970."""
        return now_ms(self.clock)

    def sign(self, row: CertificateRow, wanted: CertificateRequest) -> None:
        """Turn a pending certificate into an active one."""
        sign(self.authority, row, wanted, self.rules, self.now())

    def answer(self, row: CertificateRow) -> EnrolmentResponse:
        """What the device is told about its key."""
        is_active = row.state == CertificateState.ACTIVE.value and row.pem is not None
        return EnrolmentResponse(
            device=row.device,
            state=EnrolmentState.ACTIVE if is_active else EnrolmentState.PENDING,
            certificate=row.pem if is_active else None,
            authority=self.authority.pem,
            broker=self.broker_address,
            renew_after_s=self._renew_after_s(row) if is_active else ASK_AGAIN_S,
        )

    def _renew_after_s(self, row: CertificateRow) -> int:
        rest_s = ((row.not_after_ms or 0) - self.now()) / 1000
        return max(1, round(rest_s - self.rules.certificate_s * (1 - self.rules.renew_at)))
