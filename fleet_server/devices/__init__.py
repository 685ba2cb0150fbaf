"""Devices: how one gets in, who it is, and how it is put out again."""

from fleet_server.devices.enrolment import EnrolmentService
from fleet_server.devices.good import (
    GoodCertificate,
    generation,
    good_certificates,
    revoked_certificates,
)
from fleet_server.devices.invitations import Invitation
from fleet_server.devices.issuing import EnrolmentRules
from fleet_server.devices.problems import DeviceProblem, ProblemCode
from fleet_server.devices.registry import Accepted, DeviceRegistry
from fleet_server.devices.states import CertificateState, DeviceState, RecordAct

__all__ = [
    "Accepted",
    "CertificateState",
    "DeviceProblem",
    "DeviceRegistry",
    "DeviceState",
    "EnrolmentRules",
    "EnrolmentService",
    "GoodCertificate",
    "Invitation",
    "ProblemCode",
    "RecordAct",
    "generation",
    "good_certificates",
    "revoked_certificates",
]
