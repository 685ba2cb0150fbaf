"""The audit log: what was done, by whom, append-only, each entry sealed by the hash of the one before."""

from fleet_server.audit.chain import GENESIS, entry_hash
from fleet_server.audit.log import Audit, AuditReport, entries, verify

__all__ = ["GENESIS", "Audit", "AuditReport", "entries", "entry_hash", "verify"]
