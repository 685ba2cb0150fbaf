"""The fleet as membership sees it: every device with what it is, what it runs, and who has it."""

import functools
import json
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from sqlalchemy.engine import Connection

from edge_runtime.protocol.update import DeviceFacts
from fleet_server.rollouts.membership import Candidate, Runs
from fleet_server.storage.writing import run


def candidates(connection: Connection, slot: str, *, device: str | None = None) -> list[Candidate]:
    """All devices that are not removed, or one of them, in the order of their names.

    Args:
        connection: of any transaction.
        slot: whose running release and whose rollouts are looked at.
        device: only this one.
    """
    query = f"{_ALL} WHERE d.state <> 'removed'"
    if device is None:
        return list(_read(connection, f"{query} ORDER BY d.id", slot, slot))
    return list(_read(connection, f"{query} AND d.id = ?", slot, slot, device))


def newcomers(connection: Connection, rollout: int, slot: str, sha256: str) -> list[Candidate]:
    """Devices that could be part of a rollout by now and are not; those of a later rollout for the slot are not.

    A rollout that is completed goes on so for whoever comes later; the newest one that selects a device has it.
    """
    return list(_read(connection, _NEW, slot, slot, sha256, rollout, slot, rollout))


def _read(connection: Connection, query: str, *values: object) -> Iterator[Candidate]:
    facts = {row.digest: row.body for row in run(connection, _FACTS)}
    known = {digest: _facts(body) for digest, body in facts.items()}
    names = {row.sha256: row.name for row in run(connection, _NAMES)}  # a bundle says its name: there is one
    for row in run(connection, query, *values):
        yield _candidate(row, known, names)


def _candidate(row: Any, known: dict[str, DeviceFacts], names: dict[str, str]) -> Candidate:
    running = None if row.slot is None else Runs(row.sha256, row.counter, names.get(row.sha256))
    facts = None if row.facts is None else known.get(row.facts)
    return Candidate(row.id, row.state, _labels(row.labels), facts, running, bool(row.busy))


@functools.lru_cache(maxsize=16_384)
def _facts(body: str) -> DeviceFacts:
    return DeviceFacts.model_validate_json(body)


@functools.lru_cache(maxsize=16_384)
def _labels(text: str | None) -> MappingProxyType[str, str]:
    return MappingProxyType(json.loads(text) if text else {})


_FACTS = "SELECT digest, body FROM device_facts WHERE digest IN (SELECT facts FROM device_updates)"
_NAMES = "SELECT DISTINCT sha256, name FROM releases"
_ALL = (
    "SELECT d.id, d.state, CAST(d.labels AS TEXT) AS labels, u.facts, s.slot, s.sha256, s.counter, "
    "m.device IS NOT NULL AS busy FROM devices d "
    "LEFT JOIN device_updates u ON u.device = d.id "
    "LEFT JOIN device_slots s ON s.device = d.id AND s.slot = ? "
    "LEFT JOIN rollout_members m ON m.device = d.id AND m.slot = ? AND m.live"
)
_NEW = (
    f"{_ALL} WHERE d.state = 'active' AND u.device IS NOT NULL AND s.slot IS NOT NULL AND m.device IS NULL "  # noqa: S608
    "AND (s.sha256 IS NULL OR s.sha256 <> ?) "
    "AND NOT EXISTS (SELECT 1 FROM rollout_members x WHERE x.rollout = ? AND x.device = d.id) "
    "AND NOT EXISTS (SELECT 1 FROM rollout_members y WHERE y.device = d.id AND y.slot = ? AND y.rollout > ? "
    "AND y.state NOT IN ('withdrawn', 'decommissioned')) ORDER BY d.id"
)
